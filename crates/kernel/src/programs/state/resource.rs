// SPDX-License-Identifier: GPL-2.0-only
//! State of the objects that tasks wait for ("resources"): mutexes, condition variables, barriers,
//! semaphores, pipes, sockets and eventfds. The last three are called channels.

use crate::simulation::id::{CpuId, TaskId};
use machine::MessageCosts;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use workload::{Channel, Resource, TaskSpec};

/// Maximum amount of data in a TCP segment, in bytes. The MTU of the loopback device is 16 KiB plus
/// headers (Linux 2.4).
pub(crate) const SEGMENT_BYTES: u64 = 16_384;
/// Number of segments at the beginning of a TCP connection that are acknowledged immediately
/// (TCP_MAX_QUICKACKS in Linux).
pub(crate) const QUICK_ACKS: u32 = 16;

/// A message that has been sent but not received yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: u32,
    /// CPU that wrote the message.
    pub(crate) cpu: CpuId,
    /// Number of cache lines of kernel data that describe the message.
    pub(crate) lines: u64,
}

/// All resources of a workload, and data for the creation of tasks.
#[derive(Default)]
pub struct Sync {
    /// Number of pending Spawn events.
    pub pending_spawns: u32,
    /// Pids of tasks that are the parents of others, by their index in the workload.
    pub created: BTreeMap<u32, u32>,
    /// Tasks of the workload that are the parents of others.
    parents: BTreeSet<u32>,
    /// CPU on which the next task without a start CPU of its own will start. Such tasks are
    /// distributed over the CPUs in turn.
    pub next_start: u32,
    /// Tgid of each process of the workload with several tasks, which is the pid of its first task.
    /// It is 0 until this task is created.
    leaders: BTreeMap<u32, u32>,
    /// Number of processes that were created by fork. Their process numbers count down from
    /// u32::MAX, so that they differ from the numbers of processes in the workload.
    pub(crate) forked: u32,
    pub(crate) resources: Vec<Shared>,
    /// By how many messages of sockets the kernel's caches of freed memory are not full.
    pub(crate) uncached: u32,
}

/// State of one resource. All kinds of resources have waiters. The other fields are used only by
/// some kinds.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) owner: Option<TaskId>,
    /// Whether the mutex is handed directly to a waiter when it is unlocked.
    pub(crate) hand_over: bool,
    /// Meaning by kind: the value of a semaphore; the number of tasks that have arrived at a
    /// barrier; 1 if a resume is pending because no task was suspended when it happened.
    pub(crate) value: u32,
    /// Times of the posts of a semaphore that no task has taken yet, oldest first. The start value
    /// has no times.
    pub(crate) posts: VecDeque<u64>,
    /// Number of tasks that a barrier waits for.
    pub(crate) participants: u32,
    /// Capacity of a channel, in bytes.
    pub(crate) capacity: u64,
    /// Total size of the messages in the channel, in bytes.
    pub(crate) used: u64,
    pub(crate) messages: VecDeque<Message>,
    /// Number of messages at the end of the queue that TCP holds back, because they do not fill a
    /// segment yet.
    pub(crate) held: usize,
    /// Total size of the messages that TCP holds back, in bytes.
    pub(crate) held_bytes: u64,
    /// Number of segments that TCP has acknowledged immediately.
    pub(crate) quick_acks: u32,
    /// Whether TCP has sent a segment that has not been acknowledged.
    pub(crate) unacknowledged: bool,
    pub(crate) kind: Channel,
    /// CPU that most recently used the channel or changed the state of the object.
    pub(crate) last_cpu: CpuId,
    /// Time until which the current writer uses the TCP connection exclusively.
    pub(crate) busy_until: u64,
    pub(crate) waiters: VecDeque<TaskId>,
    /// Writers that wait until the channel has room.
    pub(crate) writers: VecDeque<TaskId>,
    /// Tasks that wait until the channel has a message, but do not receive it (poll).
    pub(crate) pollers: VecDeque<TaskId>,
}

impl Shared {
    /// Adds a message to a TCP connection. Returns the number of segments that are sent now, and the
    /// number of acknowledgements that the receiving end sends immediately.
    ///
    /// If all segments have been acknowledged, the message is sent immediately. Until this segment
    /// has been acknowledged, later messages are held back until they fill a segment (Nagle's
    /// algorithm). The first segments of a connection are acknowledged immediately
    /// (tcp_incr_quickack()).
    pub(crate) fn send_segment(&mut self, bytes: u32) -> (u64, u64) {
        if self.unacknowledged {
            self.held += 1;
            self.held_bytes += u64::from(bytes);
            let full = self.held_bytes >= SEGMENT_BYTES;
            if full {
                (self.held, self.held_bytes) = (0, 0);
            }
            return (u64::from(full), 0);
        }
        let quick = self.quick_acks < QUICK_ACKS;
        self.quick_acks += u32::from(quick);
        self.unacknowledged = !quick;
        (1, u64::from(quick))
    }

    /// Acknowledges the messages if the reader has read all messages that were sent. This also
    /// sends the messages that were held back. Returns the number of segments and the number of
    /// acknowledgements.
    pub(crate) fn acknowledge(&mut self) -> (u64, u64) {
        if !self.unacknowledged || self.messages.len() > self.held {
            return (0, 0);
        }
        let segments = u64::from(self.held > 0);
        self.unacknowledged = segments > 0;
        (self.held, self.held_bytes) = (0, 0);
        (segments, 1)
    }
}

/// Returns a map with the processes that have several tasks.
fn shared_processes(tasks: &[TaskSpec]) -> BTreeMap<u32, u32> {
    let mut processes: Vec<u32> = tasks.iter().map(|task| task.process).collect();
    processes.sort_unstable();
    let shared = processes.windows(2).filter(|pair| pair[0] == pair[1]);
    shared.map(|pair| (pair[0], 0)).collect()
}

impl Sync {
    pub fn new(resources: &[Resource], tasks: &[TaskSpec]) -> Sync {
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
            leaders: shared_processes(tasks),
            parents: tasks.iter().filter_map(|task| task.attributes.parent).collect(),
            ..Sync::default()
        }
    }

    /// Returns the tgid of a process, which is the pid of its first task.
    pub fn process_leader(&mut self, process: u32, pid: u32) -> u32 {
        match self.leaders.get_mut(&process) {
            Some(leader @ 0) => {
                *leader = pid;
                pid
            }
            Some(leader) => *leader,
            None => pid,
        }
    }

    /// Records the pid of a task that was created at the start, if it is the parent of others.
    pub fn note_created(&mut self, index: u32, pid: u32) {
        if self.parents.contains(&index) {
            self.created.insert(index, pid);
        }
    }

    /// Returns a number for a process that is created by fork.
    pub fn new_process(&mut self) -> u32 {
        self.forked += 1;
        u32::MAX - self.forked
    }

    /// Takes the memory of a message from the kernel's caches. Returns the further cost in ns if the
    /// caches have no memory left.
    pub(crate) fn allocate(&mut self, costs: MessageCosts) -> u64 {
        if self.uncached >= costs.cached {
            return costs.alloc_ns.into();
        }
        self.uncached += 1;
        0
    }

    /// Puts the memory of a message into the kernel's caches. Returns the further cost in ns if the
    /// caches are full.
    pub(crate) fn free(&mut self, costs: MessageCosts) -> u64 {
        if self.uncached == 0 {
            return costs.free_ns.into();
        }
        self.uncached -= 1;
        0
    }

    pub(crate) fn at(&mut self, id: u32) -> &mut Shared {
        &mut self.resources[id as usize]
    }
}
