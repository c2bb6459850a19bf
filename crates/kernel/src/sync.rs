// SPDX-License-Identifier: GPL-2.0-only
//! What tasks wait for: mutexes, conditions, barriers, semaphores, pipes and sockets.
//!
//! Woken tasks try again, as futexes and pipes do: a lock may be taken by a third task in between. A mutex with priority
//! inheritance is handed to its highest waiter instead; the owner is not boosted meanwhile.

use crate::class::flags::WF_SYNC;
use crate::machine::Machine;
use crate::task::TaskId;
use crate::tracepoint;
use std::collections::{BTreeMap, VecDeque};
use workload::{Channel, Resource};

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    bytes: u32,
    /// Where it was written.
    cpu: u32,
    /// Cache lines of its bookkeeping.
    lines: u64,
}

#[derive(Default)]
pub struct Sync {
    /// Spawn events under way.
    pub pending_spawns: u32,
    /// Round robin over the CPUs for tasks without a start CPU.
    pub next_start: u32,
    leaders: BTreeMap<u32, u32>,
    /// Processes made by fork, counted down from the top so that they differ from the workload's.
    forked: u32,
    resources: Vec<Shared>,
}

/// The state of a resource. What it holds depends on its kind; who waits is common to all.
#[derive(Default)]
struct Shared {
    owner: Option<TaskId>,
    /// Hand the mutex over on unlock.
    hand_over: bool,
    /// Semaphore value, barrier arrivals, or 1 for a resume nobody waited for.
    value: u32,
    /// Barrier participants.
    participants: u32,
    /// Bytes a channel takes and holds, and the messages in it.
    capacity: u64,
    used: u64,
    messages: VecDeque<Message>,
    kind: Channel,
    /// The CPU that used the channel last.
    last_cpu: u32,
    waiters: VecDeque<TaskId>,
    /// Writers waiting for room.
    writers: VecDeque<TaskId>,
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

    fn at(&mut self, id: u32) -> &mut Shared {
        &mut self.resources[id as usize]
    }
}

/// Each returns whether the running task `task` got what it wanted; if not it has been queued as a waiter and must sleep.
impl Machine {
    pub(crate) fn mutex_lock(&mut self, id: u32, task: TaskId) -> bool {
        let mutex = self.sync.at(id);
        match mutex.owner {
            None => {
                mutex.owner = Some(task);
                true
            }
            // Handed over while it slept.
            Some(owner) if owner == task => true,
            Some(_) => {
                mutex.waiters.push_back(task);
                false
            }
        }
    }

    pub(crate) fn mutex_unlock(&mut self, id: u32) {
        let tasks = &self.tasks;
        let mutex = &mut self.sync.resources[id as usize];
        mutex.owner = None;
        if mutex.waiters.is_empty() {
            return;
        }
        let mut first = 0;
        if mutex.hand_over {
            let prio = |at: usize| tasks[mutex.waiters[at] as usize].prio();
            first = (0..mutex.waiters.len()).min_by_key(|&at| (prio(at), at)).unwrap_or(0);
        }
        let Some(waiter) = mutex.waiters.remove(first) else {
            return;
        };
        if mutex.hand_over {
            mutex.owner = Some(waiter);
        }
        tracepoint::futex_wake(self, waiter);
        self.try_to_wake_up(waiter, 0);
        tracepoint::futex_woken(self);
    }

    /// Waits on a condition; the caller has released the mutex.
    pub(crate) fn cond_wait(&mut self, id: u32, task: TaskId) {
        self.sync.at(id).waiters.push_back(task);
    }

    /// Wakes one waiter of a condition, or all of them.
    pub(crate) fn cond_signal(&mut self, id: u32, all: bool) {
        while let Some(waiter) = self.sync.at(id).waiters.pop_front() {
            tracepoint::futex_wake(self, waiter);
            self.try_to_wake_up(waiter, 0);
            tracepoint::futex_woken(self);
            if !all {
                break;
            }
        }
    }

    pub(crate) fn barrier_wait(&mut self, id: u32, task: TaskId) -> bool {
        let barrier = self.sync.at(id);
        barrier.value += 1;
        if barrier.value < barrier.participants {
            barrier.waiters.push_back(task);
            return false;
        }
        barrier.value = 0;
        self.cond_signal(id, true);
        true
    }

    pub(crate) fn sem_wait(&mut self, id: u32, task: TaskId) -> bool {
        let semaphore = self.sync.at(id);
        if semaphore.value > 0 {
            semaphore.value -= 1;
            return true;
        }
        semaphore.waiters.push_back(task);
        false
    }

    pub(crate) fn sem_post(&mut self, id: u32) {
        self.sync.at(id).value += 1;
        self.cond_signal(id, false);
    }

    /// Stops until resumed; a resume that came before lets it pass once.
    pub(crate) fn suspend(&mut self, id: u32, task: TaskId) -> bool {
        let gate = self.sync.at(id);
        if gate.value > 0 {
            gate.value = 0;
            return true;
        }
        gate.waiters.push_back(task);
        false
    }

    pub(crate) fn resume(&mut self, id: u32) {
        let gate = self.sync.at(id);
        if gate.waiters.is_empty() {
            gate.value = 1;
        }
        self.cond_signal(id, true);
    }

    /// What it takes this CPU to get cache lines that another one wrote last, ns of the running task: the channel's own (its
    /// lock, the ends of its queue), and those of a message: its data, of a pipe the pipe_buffer, of a socket the four of
    /// an sk_buff, its shared info, and the two slabs that both are freed to. Of TCP's, the messages of a segment share the latter.
    fn channel_lines(&mut self, id: u32, task: TaskId, message: Option<Message>) {
        let cpu = self.this_cpu;
        let channel = self.sync.at(id);
        let own = std::mem::replace(&mut channel.last_cpu, cpu);
        let line = |from| self.spec.costs.cache_line.at(self.distance(from, cpu));
        let mut ns = line(own);
        if let Some(message) = message {
            ns += line(message.cpu) * (message.lines + u64::from(message.bytes).div_ceil(64));
        }
        self.tasks[task as usize].program.add_time(ns);
    }

    /// A message that finds a TCP connection idle is a segment of its own, and what follows joins the next one. A reader that has
    /// read all acknowledges it, which is half of the work of a segment with data.
    fn tcp_segment(&mut self, task: TaskId, acknowledgement: bool) {
        let ns = u64::from(self.spec.costs.tcp_segment_ns);
        let ns = if acknowledgement { ns / 2 } else { ns };
        self.tasks[task as usize].program.add_time(ns);
    }

    /// Writes a message. A message larger than the whole buffer passes when the buffer is empty.
    pub(crate) fn channel_send(&mut self, id: u32, bytes: u32, task: TaskId) -> bool {
        let cpu = self.this_cpu;
        let channel = self.sync.at(id);
        if channel.used > 0 && channel.used + u64::from(bytes) > channel.capacity {
            channel.writers.push_back(task);
            return false;
        }
        channel.used += u64::from(bytes);
        let idle = channel.messages.is_empty();
        let lines = match channel.kind {
            Channel::Pipe => 1,
            Channel::Tcp if !idle => 0,
            Channel::Socket | Channel::Tcp => 7,
        };
        channel.messages.push_back(Message { bytes, cpu, lines });
        let kind = channel.kind;
        let reader = channel.waiters.pop_front();
        self.channel_lines(id, task, None);
        if kind == Channel::Tcp && idle {
            self.tcp_segment(task, false);
        }
        let socket = kind != Channel::Pipe;
        if let Some(reader) = reader {
            if socket {
                tracepoint::sock_def_readable(self, reader);
            } else {
                tracepoint::pipe_wake(self, reader);
            }
            self.try_to_wake_up(reader, WF_SYNC);
            tracepoint::message_woken(self, socket);
        }
        true
    }

    pub(crate) fn channel_recv(&mut self, id: u32, task: TaskId) -> bool {
        let channel = self.sync.at(id);
        let Some(message) = channel.messages.pop_front() else {
            channel.waiters.push_back(task);
            return false;
        };
        channel.used -= u64::from(message.bytes);
        // A socket tells all its writers, but AF_UNIX's not before three quarters of it are free (unix_write_space), TCP's not
        // before a third is (sk_stream_write_space).
        let nr_woken = match channel.kind {
            Channel::Pipe => 1,
            Channel::Socket if channel.used * 4 > channel.capacity => 0,
            Channel::Tcp if channel.used * 3 > channel.capacity * 2 => 0,
            Channel::Socket | Channel::Tcp => channel.writers.len(),
        };
        let read_all = channel.kind == Channel::Tcp && channel.messages.is_empty();
        self.channel_lines(id, task, Some(message));
        if read_all {
            self.tcp_segment(task, true);
        }
        for _ in 0..nr_woken {
            let Some(writer) = self.sync.at(id).writers.pop_front() else {
                break;
            };
            self.try_to_wake_up(writer, WF_SYNC);
        }
        true
    }
}
