// SPDX-License-Identifier: GPL-2.0-only
//! State of the objects that tasks wait for: mutexes, conditions, barriers, semaphores, pipes and
//! sockets.

use crate::simulation::id::{CpuId, TaskId};
use std::collections::{BTreeMap, VecDeque};
use workload::{Channel, Resource};

/// Maximum data in a TCP segment. The loopback device's MTU is 16 KiB plus headers (Linux 2.4).
pub(super) const SEGMENT_BYTES: u64 = 16_384;

/// A message that was sent and not yet received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) bytes: u32,
    /// CPU that wrote the message.
    pub(super) cpu: CpuId,
    /// Number of cache lines of the kernel's data about the message.
    pub(super) lines: u64,
}

/// All resources of a workload, and the state of task creation.
#[derive(Default)]
pub struct Sync {
    /// Number of pending Spawn events.
    pub pending_spawns: u32,
    /// Next CPU, round robin, for tasks without a start CPU.
    pub next_start: u32,
    /// Tgid of each process of the workload.
    pub(super) leaders: BTreeMap<u32, u32>,
    /// Number of processes created by fork. Their numbers count down from u32::MAX, so they differ
    /// from those of the workload.
    pub(super) forked: u32,
    pub(super) resources: Vec<Shared>,
}

/// State of one resource. The waiters are common to all kinds; the other fields belong to some
/// kinds only.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) owner: Option<TaskId>,
    /// Whether unlocking hands the mutex directly to a waiter.
    pub(super) hand_over: bool,
    /// Value of a semaphore, number of arrivals at a barrier, or 1 for a resume that no task waited
    /// for.
    pub(super) value: u32,
    /// Number of participants of a barrier.
    pub(super) participants: u32,
    /// Capacity of a channel, in bytes.
    pub(super) capacity: u64,
    /// Bytes of the messages in the channel.
    pub(super) used: u64,
    pub(super) messages: VecDeque<Message>,
    /// Number of the newest messages that TCP holds back, because they do not fill a segment yet.
    pub(super) held: usize,
    /// Bytes of these messages.
    pub(super) held_bytes: u64,
    pub(super) kind: Channel,
    /// CPU that used the channel last.
    pub(super) last_cpu: CpuId,
    /// End of the current writer's exclusive use of the connection (TCP).
    pub(super) busy_until: u64,
    pub(super) waiters: VecDeque<TaskId>,
    /// Writers that wait for room in the channel.
    pub(super) writers: VecDeque<TaskId>,
}

impl Shared {
    /// Adds a message to a TCP connection; returns how many segments are sent. A message on an idle
    /// connection is sent at once. Until it is acknowledged, later messages are held back until
    /// they fill a segment (Nagle's algorithm).
    pub(super) fn send_segment(&mut self, bytes: u32, idle: bool) -> u64 {
        if idle {
            return 1;
        }
        self.held += 1;
        self.held_bytes += u64::from(bytes);
        let full = self.held_bytes >= SEGMENT_BYTES;
        if full {
            (self.held, self.held_bytes) = (0, 0);
        }
        u64::from(full)
    }

    /// Acknowledges the messages after the reader has read all that were sent, which also sends the
    /// messages held back. Returns the number of segments and the number of acknowledgements.
    pub(super) fn acknowledge(&mut self) -> (u64, u64) {
        if self.messages.len() > self.held {
            return (0, 0);
        }
        let segments = u64::from(self.held > 0);
        (self.held, self.held_bytes) = (0, 0);
        (segments, 1)
    }
}

impl Sync {
    pub fn new(resources: &[Resource]) -> Sync {
        let shared = |resource: &Resource| match resource {
            Resource::Mutex {
                priority_inheritance, ..
            } => Shared {
                hand_over: *priority_inheritance,
                ..Shared::default()
            },
            Resource::Barrier { participants, .. } => Shared {
                participants: *participants,
                ..Shared::default()
            },
            Resource::Semaphore { value, .. } => Shared {
                value: *value,
                ..Shared::default()
            },
            Resource::Channel { capacity, kind, .. } => Shared {
                capacity: *capacity,
                kind: *kind,
                ..Shared::default()
            },
            Resource::Cond { .. } | Resource::Suspend { .. } => Shared::default(),
        };
        Sync {
            resources: resources.iter().map(shared).collect(),
            ..Sync::default()
        }
    }

    /// Returns the tgid of a process, which is the pid of its first task.
    pub fn process_leader(&mut self, process: u32, pid: u32) -> u32 {
        *self.leaders.entry(process).or_insert(pid)
    }

    /// Returns a number for a new process.
    pub fn new_process(&mut self) -> u32 {
        self.forked += 1;
        u32::MAX - self.forked
    }

    pub(super) fn at(&mut self, id: u32) -> &mut Shared {
        &mut self.resources[id as usize]
    }
}
