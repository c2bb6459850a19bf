// SPDX-License-Identifier: GPL-2.0-only
//! Operations on the objects that tasks wait for: mutexes, conditions, barriers, semaphores, pipes
//! and sockets.
//!
//! A woken task tries its operation again, as with futexes and pipes. Another task may acquire the
//! lock in between. A mutex with priority inheritance is handed directly to its highest-priority
//! waiter instead. Its owner's priority is not boosted.

use super::resource::*;
use crate::machine::Machine;
use crate::policy::tracepoint;
use crate::sched::class::flags::WF_SYNC;
use crate::simulation::id::{CpuId, TaskId};
use workload::Channel;

/// Operations that can block return whether the running task `task` succeeded. If not, the task was
/// queued as a waiter and has to sleep.
impl Machine {
    pub(crate) fn mutex_lock(&mut self, id: u32, task: TaskId) -> bool {
        let mutex = self.sync.at(id);
        match mutex.owner {
            None => {
                mutex.owner = Some(task);
                true
            }
            // The mutex was handed to the task while it slept.
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
            let prio = |at: usize| tasks[mutex.waiters[at]].prio();
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

    /// Queues the task as a waiter of a condition. The caller has released the mutex.
    pub(crate) fn cond_wait(&mut self, id: u32, task: TaskId) {
        self.sync.at(id).waiters.push_back(task);
    }

    /// Wakes the first waiter of a condition, or all of them.
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

    /// Suspends the task until it is resumed. An earlier resume that found no waiter lets the task
    /// continue once.
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

    /// Adds to the running task's time the cost of fetching cache lines that another CPU wrote
    /// last.
    ///
    /// A channel has one cache line: its lock and the ends of its queue. A message has the cache
    /// lines of its data and of its bookkeeping. For a pipe that is the pipe_buffer. For a socket
    /// it is the four cache lines of an sk_buff, its shared info, and the two slabs to which both
    /// are freed. Messages in the same TCP segment share their bookkeeping. A TCP connection has
    /// one end for writers and one for the reader, and they share only segments.
    fn charge_channel_lines(&mut self, id: u32, task: TaskId, message: Option<Message>) {
        let cpu = self.this_cpu;
        let channel = self.sync.at(id);
        let tcp = channel.kind == Channel::Tcp;
        let line = |from: CpuId| {
            self.spec
                .costs
                .cache_line
                .at(self.spec.topology.distance(from.nr(), cpu.nr()))
        };
        let mut ns = 0;
        if !tcp || message.is_none() {
            let own = std::mem::replace(&mut channel.last_cpu, cpu);
            ns += line(own);
        }
        if let Some(message) = message {
            ns += line(message.cpu) * (message.lines + u64::from(message.bytes).div_ceil(64));
        }
        self.tasks[task].program.add_time(ns);
    }

    /// Adds the cost of TCP segments on the same host, softirqs included, to the task that causes
    /// them: a sender, or a reader that acknowledges and thereby releases messages held back.
    fn charge_tcp_segments(&mut self, task: TaskId, segments: u64, acknowledgements: u64) {
        let ns = u64::from(self.spec.costs.tcp_segment_ns);
        // An acknowledgement costs half as much as a segment with data.
        let ns = segments * ns + acknowledgements * (ns / 2);
        if ns > 0 {
            self.tasks[task].program.add_time(ns);
        }
    }

    /// Returns when a TCP connection becomes free, if another task writes to it at this CPU's local
    /// time (lock_sock()).
    pub(crate) fn channel_busy_until(&mut self, id: u32) -> Option<u64> {
        let now = self.local_time(self.this_cpu);
        let until = self.sync.at(id).busy_until;
        (until > now).then_some(until)
    }

    /// Reserves a TCP connection for the running task until its send is complete.
    pub(crate) fn reserve_channel(&mut self, id: u32, task: TaskId) {
        if self.sync.at(id).kind == Channel::Tcp {
            let until = self.local_time(self.this_cpu) + self.tasks[task].program.time();
            self.sync.at(id).busy_until = until;
        }
    }

    /// Sends a message, or queues the task as a writer if the buffer is full. A message larger than
    /// the whole buffer is accepted when the buffer is empty.
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
            Channel::Tcp if !idle && channel.held > 0 => 0,
            Channel::Socket | Channel::Tcp => 7,
        };
        channel.messages.push_back(Message { bytes, cpu, lines });
        let kind = channel.kind;
        let segments = match kind {
            Channel::Tcp => channel.send_segment(bytes, idle),
            Channel::Pipe | Channel::Socket => 0,
        };
        let reader = channel.waiters.pop_front();
        self.charge_channel_lines(id, task, None);
        self.charge_tcp_segments(task, segments, 0);
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

    /// Receives a message, or queues the task as a reader if the channel is empty. Wakes writers if
    /// there is enough room.
    pub(crate) fn channel_recv(&mut self, id: u32, task: TaskId) -> bool {
        let channel = self.sync.at(id);
        let Some(message) = channel.messages.pop_front() else {
            channel.waiters.push_back(task);
            return false;
        };
        channel.used -= u64::from(message.bytes);
        // A pipe wakes one writer. A socket wakes all its writers once enough of the buffer is
        // free: three quarters for AF_UNIX (unix_write_space()), a third for TCP
        // (sk_stream_write_space()).
        let nr_woken = match channel.kind {
            Channel::Pipe => 1,
            Channel::Socket if channel.used * 4 > channel.capacity => 0,
            Channel::Tcp if channel.used * 3 > channel.capacity * 2 => 0,
            Channel::Socket | Channel::Tcp => channel.writers.len(),
        };
        let (segments, acknowledgements) = match channel.kind {
            Channel::Tcp => channel.acknowledge(),
            Channel::Pipe | Channel::Socket => (0, 0),
        };
        self.charge_channel_lines(id, task, Some(message));
        self.charge_tcp_segments(task, segments, acknowledgements);
        for _ in 0..nr_woken {
            let Some(writer) = self.sync.at(id).writers.pop_front() else {
                break;
            };
            self.try_to_wake_up(writer, WF_SYNC);
        }
        true
    }
}
