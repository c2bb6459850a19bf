// SPDX-License-Identifier: GPL-2.0-only
//! What pipes and sockets hold.

use crate::program::{Channel, Resource};

/// 16 pages (fs/pipe.c).
const PIPE_BYTES: u64 = 65_536;
/// net.core.wmem_default.
pub const SOCKET_BYTES: u64 = 212_992;

pub fn pipe(name: String) -> Resource {
    Resource::Channel {
        name,
        capacity: PIPE_BYTES,
        kind: Channel::Pipe,
    }
}

/// A socket with a buffer of `memory` bytes for messages of `bytes`. Each is charged its sk_buff (256 bytes) and its
/// data with the shared info behind it (320 bytes) rounded up to a power of two; one message always fits.
pub fn socket(kind: Channel, name: String, memory: u64, bytes: u64) -> Resource {
    let messages = memory / (256 + (bytes + 320).next_power_of_two());
    Resource::Channel {
        name,
        capacity: messages.max(1) * bytes,
        kind,
    }
}
