// SPDX-License-Identifier: GPL-2.0-only
//! Costs of messages: one row for each kind of channel.

use crate::costs::Costs;
use serde::{Deserialize, Serialize};

/// Costs of a message on one kind of channel. They do not include blocking, waking up another task,
/// or transferring cache lines between CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MessageCosts {
    /// Sending a message without data, in ns.
    pub send_ns: u32,
    /// Receiving a message without data, in ns.
    pub recv_ns: u32,
    /// Copying one byte, in picoseconds. A message is copied twice: the sender pays for one copy,
    /// and the receiver for the other.
    #[serde(default)]
    pub byte_ps: u32,
    /// Further cost of a message whose memory the kernel does not find in its caches of freed
    /// memory, in ns. The sender pays it.
    #[serde(default)]
    pub alloc_ns: u32,
    /// Further cost of a message whose memory does not fit into these caches when it is freed, in
    /// ns. The receiver pays it.
    #[serde(default)]
    pub free_ns: u32,
    /// Number of messages whose memory fits into these caches.
    #[serde(default)]
    pub cached: u32,
}

impl MessageCosts {
    /// Returns the cost of sending a message of `bytes`, in ns.
    pub fn send(&self, bytes: u32) -> u64 {
        u64::from(self.send_ns) + self.copy(bytes)
    }

    /// Returns the cost of receiving a message of `bytes`, in ns.
    pub fn recv(&self, bytes: u32) -> u64 {
        u64::from(self.recv_ns) + self.copy(bytes)
    }

    fn copy(&self, bytes: u32) -> u64 {
        u64::from(bytes) * u64::from(self.byte_ps) / 1000
    }
}

/// Rows of the section `[costs.channel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Channels {
    pub pipe: MessageCosts,
    pub unix_stream: MessageCosts,
    pub unix_datagram: MessageCosts,
    /// The socket layer of a TCP connection. A segment costs `Costs::tcp_segment_ns` in addition.
    pub tcp: MessageCosts,
    /// The calls FUTEX_WAKE (send) and FUTEX_WAIT (receive).
    pub futex: MessageCosts,
    pub eventfd: MessageCosts,
}

/// Declaration of one kind of channel: its name in machine files, its row, and the source of its
/// default values.
pub struct ObjectKind {
    pub name: &'static str,
    pub row: fn(&mut Costs) -> &mut MessageCosts,
    pub default_source: &'static str,
}

/// Makes the table of [`CHANNELS`] from the fields of [`Channels`] and their sources.
macro_rules! channels {
    ($($name:ident: $source:literal;)*) => {
        [$(ObjectKind {
            name: stringify!($name),
            row: |costs| &mut costs.channel.$name,
            default_source: $source,
        }),*]
    };
}

/// All kinds, in the order in which they are printed.
pub const CHANNELS: [ObjectKind; 6] = channels! {
    pipe:
        "assumption: 900 cycles at 3 GHz each for a write and a read, so that a round trip of lat_pipe of lmbench (two writes, two reads, two wake-ups, two switches) takes 3.5 us; bytes: 5 GB/s through a pipe, half of the time for each copy";
    unix_stream:
        "assumption: 2025 cycles at 3 GHz each for a send and a receive, 2.25 times those of a pipe, so that a round trip of lat_unix takes 5 us; bytes: 6.2 GB/s through a socket, half of the time for each copy";
    unix_datagram:
        "assumption: as unix_stream, because both allocate, queue and free one sk_buff per message";
    tcp:
        "assumption: as pipe, because tcp_segment is the difference between TCP and a pipe";
    futex:
        "assumption: 100 ns for the system call, plus 150 cycles for FUTEX_WAKE and 300 for FUTEX_WAIT (the lock of a hash bucket and the queue), at 3 GHz";
    eventfd:
        "assumption: 100 ns for the system call, plus 300 cycles for the file and the lock of the counter, at 3 GHz";
};

/// Returns the name under which the source of a channel's costs is stored, for example
/// "channel.pipe".
pub fn source_name(kind: &ObjectKind) -> String {
    format!("channel.{}", kind.name)
}

impl Default for Channels {
    /// Costs of a current x86 server at about 3 GHz, like [`Costs::default`].
    fn default() -> Channels {
        let row = |send_ns, recv_ns, byte_ps| MessageCosts {
            send_ns,
            recv_ns,
            byte_ps,
            ..MessageCosts::default()
        };
        Channels {
            pipe: row(300, 300, 100),
            unix_stream: row(675, 675, 80),
            unix_datagram: row(675, 675, 80),
            tcp: row(300, 300, 100),
            futex: row(150, 200, 0),
            eventfd: row(200, 200, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_message_pay_for_its_bytes() {
        let costs = MessageCosts {
            send_ns: 100,
            recv_ns: 200,
            byte_ps: 1500,
            ..MessageCosts::default()
        };
        assert_eq!((costs.send(0), costs.recv(0)), (100, 200));
        assert_eq!((costs.send(1000), costs.recv(1000)), (1600, 1700));
        assert_eq!(costs.send(1), 101, "the cost is rounded down to whole ns");
        assert_eq!(
            costs.send(u32::MAX),
            100 + 6_442_450_942,
            "the cost of the largest message does not overflow"
        );
    }
}
