// SPDX-License-Identifier: GPL-2.0-only
//! Capacities of pipes and sockets.

use crate::program::{Channel, Resource};

/// Capacity of a pipe: 16 pages (fs/pipe.c).
const PIPE_BYTES: u64 = 65_536;
/// Default send buffer of a Unix socket (net.core.wmem_default).
pub const SOCKET_BYTES: u64 = 212_992;
/// Initial capacity of a loopback TCP connection in Linux 2.4: a send buffer of three segments
/// (tcp_fixup_sndbuf) and a receive window of two segments, each of 16 KiB.
pub const TCP_BYTES: u64 = 5 * 16_384;

pub fn pipe(name: String) -> Resource {
    Resource::Channel {
        name,
        capacity: PIPE_BYTES,
        kind: Channel::Pipe,
    }
}

/// Returns a Unix socket with a buffer of `memory` bytes for messages of `bytes`. As in Linux, a
/// message occupies 256 bytes for its sk_buff, and a block for its data and 320 bytes of
/// skb_shared_info. The size of the block is rounded up to a power of two. There is always room for at least one message.
pub fn unix(name: String, memory: u64, bytes: u64) -> Resource {
    let messages = memory / (256 + (bytes + 320).next_power_of_two());
    Resource::Channel {
        name,
        capacity: messages.max(1) * bytes,
        kind: Channel::Socket,
    }
}

/// Returns one direction of a TCP connection within the host with room for `memory` bytes. Messages
/// share segments, so a message occupies only the bytes of its data.
pub fn tcp(name: String, memory: u64, bytes: u64) -> Resource {
    Resource::Channel {
        name,
        capacity: memory.max(bytes),
        kind: Channel::Tcp,
    }
}
