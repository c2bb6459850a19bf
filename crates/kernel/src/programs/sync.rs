// SPDX-License-Identifier: GPL-2.0-only
//! Operations on the objects that tasks wait for ("resources"): mutexes, condition variables,
//! barriers, semaphores, pipes and sockets. Pipes and sockets are also called channels.
//!
//! As with futexes and pipes in Linux, a woken task tries its operation again. Another task may
//! have acquired the mutex in the meantime. A mutex with priority inheritance works differently: it
//! is handed directly to the waiter with the highest priority. Boosting the priority of its owner
//! is not modelled.

use super::resource::*;
use crate::machine::Machine;
use crate::policy::tracepoint;
use crate::sched::class::flags::WF_SYNC;
use crate::simulation::id::{CpuId, TaskId};
use workload::Channel;

/// Operations on resources. Those that can block return whether the running task `task` succeeded.
/// If it did not, it has been added to the waiters and must go to sleep.
impl Machine {
    pub(crate) fn mutex_lock(&mut self, id: u32, task: TaskId) -> bool {
        let mutex = self.sync.at(id);
        match mutex.owner {
            None => {
                mutex.owner = Some(task);
                true
            }
            // The mutex was handed to the task while the task slept.
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

    /// Adds the task to the waiters of a condition variable. The caller has released the mutex.
    pub(crate) fn cond_wait(&mut self, id: u32, task: TaskId) {
        self.sync.at(id).waiters.push_back(task);
    }

    /// Wakes the first waiter of a condition variable. With `all`, wakes all waiters.
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

    /// Suspends the task until another task resumes it. If a resume happened earlier while no task
    /// was suspended, the task continues once without waiting.
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

    /// Charges the running task with the time to fetch cache lines that another CPU wrote last. A
    /// send or a receive accesses these cache lines:
    ///
    /// - Each channel has one cache line with its lock and the ends of its queue.
    /// - Each message has the cache lines of its data and of the kernel's data about the message.
    /// - For a pipe, the kernel's data is the pipe_buffer.
    /// - For a socket, the kernel's data is the four cache lines of an sk_buff, its shared info,
    ///   and the two slabs to which both are freed. Messages in the same TCP segment share this
    ///   data.
    /// - A TCP connection has separate ends for its writers and its reader, which share only the
    ///   segments.
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

    /// Adds the time for TCP segments between tasks on the same machine to the task that causes
    /// them, including the softirqs. This is either a sender or a reader. A reader causes segments
    /// when its acknowledgement releases messages that were held back.
    fn charge_tcp_segments(&mut self, task: TaskId, segments: u64, acknowledgements: u64) {
        let ns = u64::from(self.spec.costs.tcp_segment_ns);
        // An acknowledgement costs half as much as a segment with data.
        let ns = segments * ns + acknowledgements * (ns / 2);
        if ns > 0 {
            self.tasks[task].program.add_time(ns);
        }
    }

    /// Returns the time until which another task writes to a TCP connection, or `None` if the
    /// connection is free (lock_sock()). "Free" refers to the local time of this CPU: the current
    /// time plus the work that was charged to the CPU.
    pub(crate) fn channel_busy_until(&mut self, id: u32) -> Option<u64> {
        let now = self.local_time(self.this_cpu);
        let until = self.sync.at(id).busy_until;
        (until > now).then_some(until)
    }

    /// Reserves a TCP connection for the running task until the task has completed its send.
    pub(crate) fn reserve_channel(&mut self, id: u32, task: TaskId) {
        if self.sync.at(id).kind == Channel::Tcp {
            let until = self.local_time(self.this_cpu) + self.tasks[task].program.time();
            self.sync.at(id).busy_until = until;
        }
    }

    /// Sends a message. If the buffer is full, adds the task to the waiting writers. A message that
    /// is larger than the whole buffer is accepted when the buffer is empty.
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

    /// Receives a message. If the channel is empty, adds the task to the waiting readers. Wakes
    /// writers if there is enough room afterwards.
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
