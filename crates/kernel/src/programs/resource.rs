// SPDX-License-Identifier: GPL-2.0-only
//! The state of what tasks wait for: mutexes, conditions, barriers, semaphores, pipes and sockets.

use crate::simulation::id::{CpuId, TaskId};
use std::collections::{BTreeMap, VecDeque};
use workload::{Channel, Resource};

/// What a segment carries at most: the loopback device's MTU is 16 KiB and the headers (Linux 2.4).
pub(super) const SEGMENT_BYTES: u64 = 16_384;

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) bytes: u32,
    /// Where it was written.
    pub(super) cpu: CpuId,
    /// Cache lines of its bookkeeping.
    pub(super) lines: u64,
}

#[derive(Default)]
pub struct Sync {
    /// Spawn events under way.
    pub pending_spawns: u32,
    /// Round robin over the CPUs for tasks without a start CPU.
    pub next_start: u32,
    pub(super) leaders: BTreeMap<u32, u32>,
    /// Processes made by fork, counted down from the top so that they differ from the workload's.
    pub(super) forked: u32,
    pub(super) resources: Vec<Shared>,
}

/// The state of a resource. What it holds depends on its kind; who waits is common to all.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) owner: Option<TaskId>,
    /// Hand the mutex over on unlock.
    pub(super) hand_over: bool,
    /// Semaphore value, barrier arrivals, or 1 for a resume nobody waited for.
    pub(super) value: u32,
    /// Barrier participants.
    pub(super) participants: u32,
    /// Bytes a channel takes and holds, and the messages in it.
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) messages: VecDeque<Message>,
    /// The last so many messages are written, but not yet in a segment (TCP), and their bytes.
    pub(super) held: usize,
    pub(super) held_bytes: u64,
    pub(super) kind: Channel,
    /// The CPU that used the channel last.
    pub(super) last_cpu: CpuId,
    /// Up to when a writer has it for itself (TCP).
    pub(super) busy_until: u64,
    pub(super) waiters: VecDeque<TaskId>,
    /// Writers waiting for room.
    pub(super) writers: VecDeque<TaskId>,
}

impl Shared {
    /// A message joins a TCP connection; the number of segments that go out. One that finds the connection idle is a segment of
    /// its own. While that is not acknowledged, what follows is held (Nagle's algorithm) until it fills a segment.
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

    /// A reader that has read all that came acknowledges it, and what was held goes out: segments and acknowledgements.
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

    /// The tgid of a process: the pid of its first task.
    pub fn process_leader(&mut self, process: u32, pid: u32) -> u32 {
        *self.leaders.entry(process).or_insert(pid)
    }

    pub fn new_process(&mut self) -> u32 {
        self.forked += 1;
        u32::MAX - self.forked
    }

    pub(super) fn at(&mut self, id: u32) -> &mut Shared {
        &mut self.resources[id as usize]
    }
}
