// SPDX-License-Identifier: GPL-2.0-only
//! Operations on the objects that tasks wait for ("resources"): mutexes, condition variables,
//! barriers, semaphores, pipes, sockets and eventfds. The last three are called channels.
//!
//! As with futexes and pipes in Linux, a woken task tries its operation again. Another task may
//! have acquired the mutex in the meantime. A mutex with priority inheritance works differently: it
//! is handed directly to the waiter with the highest priority. Boosting the priority of its owner
//! is not modelled.

use crate::machine::Machine;
use crate::programs::state::resource::*;
use crate::sched::class::state::flags::WF_SYNC;
use crate::sched::tracepoint;
use crate::simulation::id::{CpuId, TaskId};
use machine::MessageCosts;
use workload::Channel;

/// Operations of the running task, `task`, on the resource with the number `id`. An operation that
/// can block returns true if it succeeded. Otherwise it has added the task to the waiters, and the
/// task must go to sleep. Each operation charges its cost to `task`.
impl Machine {
    pub(crate) fn mutex_lock(&mut self, id: u32, task: TaskId) -> bool {
        self.charge_user_lock(id, task);
        let mutex = self.sync.at(id);
        match mutex.owner {
            None => {
                mutex.owner = Some(task);
                true
            }
            // The mutex was handed to the task while the task slept.
            Some(owner) if owner == task => true,
            Some(_) => self.futex_wait(id, task),
        }
    }

    pub(crate) fn mutex_unlock(&mut self, id: u32, task: TaskId) {
        self.charge_user_lock(id, task);
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
        self.charge_futex_wake(task);
        self.wake_futex_waiter(waiter);
    }

    /// Adds the task to the waiters of a condition variable. The caller has released the mutex.
    pub(crate) fn cond_wait(&mut self, id: u32, task: TaskId) {
        self.charge_user_lock(id, task);
        self.futex_wait(id, task);
    }

    /// Wakes the first waiter of a condition variable. With `all`, wakes all waiters.
    pub(crate) fn cond_signal(&mut self, id: u32, all: bool, task: TaskId) {
        self.charge_user_lock(id, task);
        self.wake_futex_waiters(id, all, task);
    }

    pub(crate) fn barrier_wait(&mut self, id: u32, task: TaskId) -> bool {
        self.charge_user_lock(id, task);
        let barrier = self.sync.at(id);
        barrier.value += 1;
        if barrier.value < barrier.participants {
            return self.futex_wait(id, task);
        }
        barrier.value = 0;
        self.wake_futex_waiters(id, true, task);
        true
    }

    pub(crate) fn sem_wait(&mut self, id: u32, task: TaskId) -> bool {
        self.charge_user_lock(id, task);
        let semaphore = self.sync.at(id);
        if semaphore.value > 0 {
            semaphore.value -= 1;
            if let Some(posted) = semaphore.posts.pop_front() {
                self.tasks[task].program.set_posted(posted);
            }
            return true;
        }
        self.futex_wait(id, task)
    }

    pub(crate) fn sem_post(&mut self, id: u32, task: TaskId) {
        let at = self.task_time(task);
        self.sem_post_at(id, at, task);
    }

    /// Posts a semaphore. `at` is the time from which a response to this post counts.
    fn sem_post_at(&mut self, id: u32, at: u64, task: TaskId) {
        let semaphore = self.sync.at(id);
        semaphore.value += 1;
        semaphore.posts.push_back(at);
        self.cond_signal(id, false, task);
    }

    /// Executes a part of [`workload::Op::Relay`]: takes the whole value of semaphore `from`, or
    /// performs one of the posts of semaphore `to`. Returns `None` if the task has to sleep, and
    /// otherwise whether the step is complete.
    pub(crate) fn relay(&mut self, from: u32, to: u32, task: TaskId) -> Option<bool> {
        if self.tasks[task].program.relay().0 == 0 {
            self.charge_user_lock(from, task);
            let semaphore = self.sync.at(from);
            if semaphore.value == 0 {
                self.futex_wait(from, task);
                return None;
            }
            let taken = std::mem::take(&mut semaphore.value);
            semaphore.posts.clear();
            let began = self.task_time(task);
            self.tasks[task].program.set_relay(taken, began);
        }
        let (left, at) = self.tasks[task].program.relay();
        self.sem_post_at(to, at, task);
        self.tasks[task].program.set_relay(left - 1, at);
        Some(left == 1)
    }

    /// Returns the time at which the running task, `task`, will have spent the time that it has
    /// been charged with.
    fn task_time(&self, task: TaskId) -> u64 {
        self.local_time(self.this_cpu) + self.tasks[task].program.time_before_work()
    }

    /// Suspends the task until another task resumes it. If a resume happened earlier while no task
    /// was suspended, the task continues once without waiting.
    pub(crate) fn suspend(&mut self, id: u32, task: TaskId) -> bool {
        self.charge_user_lock(id, task);
        let gate = self.sync.at(id);
        if gate.value > 0 {
            gate.value = 0;
            return true;
        }
        self.futex_wait(id, task)
    }

    pub(crate) fn resume(&mut self, id: u32, task: TaskId) {
        let gate = self.sync.at(id);
        if gate.waiters.is_empty() {
            gate.value = 1;
        }
        self.cond_signal(id, true, task);
    }

    /// Adds the task to the waiters of an object and charges it for the system call FUTEX_WAIT. The
    /// task spends this time when it runs again. Returns false, because the task has to sleep.
    fn futex_wait(&mut self, id: u32, task: TaskId) -> bool {
        let ns = self.spec.costs.channel.futex.recv(0);
        self.tasks[task].program.add_time(ns);
        self.sync.at(id).waiters.push_back(task);
        false
    }

    /// Wakes the first waiter of an object, or all waiters.
    fn wake_futex_waiters(&mut self, id: u32, all: bool, task: TaskId) {
        if !self.sync.at(id).waiters.is_empty() {
            self.charge_futex_wake(task);
        }
        while let Some(waiter) = self.sync.at(id).waiters.pop_front() {
            self.wake_futex_waiter(waiter);
            if !all {
                break;
            }
        }
    }

    /// Wakes a waiter of a futex. Unlike a wake-up by a pipe, a wake-up by a futex does not set
    /// WF_SYNC (wake_up_q).
    fn wake_futex_waiter(&mut self, waiter: TaskId) {
        tracepoint::futex_wake(self, waiter);
        self.try_to_wake_up(waiter, 0);
        tracepoint::futex_woken(self);
    }

    /// Charges the task for the system call FUTEX_WAKE. The cost of the wake-ups is charged
    /// separately.
    fn charge_futex_wake(&mut self, task: TaskId) {
        let ns = self.spec.costs.channel.futex.send(0);
        self.tasks[task].program.add_time(ns);
    }

    /// Charges the task for the atomic operation on an object in user space. Also charges it for
    /// the transfer of the object's cache line from the CPU that used the object last.
    fn charge_user_lock(&mut self, id: u32, task: TaskId) {
        if self.replays {
            return;
        }
        let cpu = self.this_cpu;
        let from = std::mem::replace(&mut self.sync.at(id).last_cpu, cpu);
        let ns = u64::from(self.spec.costs.user_lock_ns) + self.spec.costs.cache_line.at(self.distance(from, cpu));
        self.tasks[task].program.add_time(ns);
    }

    /// Charges the running task with the time to fetch cache lines that another CPU wrote last. A
    /// send or a receive accesses these cache lines:
    ///
    /// - Each channel has one cache line with its lock and the ends of its queue.
    /// - Each message has the cache lines of its data and of the kernel's data about the message.
    /// - For a pipe, the kernel's data is the pipe_buffer.
    /// - For a socket, the kernel's data is seven cache lines: four of an sk_buff, one of its
    ///   shared info, and one of each of the two slabs to which the sk_buff and its data are freed.
    ///   Messages in the same TCP segment share these lines.
    /// - A TCP connection has separate ends for its writers and its reader, which share only the
    ///   segments.
    /// - An eventfd has only the first cache line, which contains its counter.
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
        if let Some(message) = message
            && channel.kind != Channel::Eventfd
        {
            ns += line(message.cpu) * (message.lines + u64::from(message.bytes).div_ceil(64));
        }
        self.tasks[task].program.add_time(ns);
    }

    /// Returns the costs of messages on a channel.
    fn message_costs(&self, id: u32) -> MessageCosts {
        let costs = &self.spec.costs.channel;
        match self.sync.resources[id as usize].kind {
            Channel::Pipe => costs.pipe,
            Channel::Socket => costs.unix_stream,
            Channel::Datagram => costs.unix_datagram,
            Channel::Tcp => costs.tcp,
            Channel::Eventfd => costs.eventfd,
        }
    }

    /// Charges `task` for TCP segments over the loopback device, including the softirqs that
    /// process them. The task is a sender or a reader. A reader causes segments when its
    /// acknowledgement releases messages that were held back.
    fn charge_tcp_segments(&mut self, task: TaskId, segments: u64, acknowledgements: u64) {
        let ns = u64::from(self.spec.costs.tcp_segment_ns);
        // An acknowledgement costs half as much as a segment with data.
        let ns = segments * ns + acknowledgements * (ns / 2);
        if ns > 0 {
            self.tasks[task].program.add_time(ns);
        }
    }

    /// Returns the time until which another task writes to a TCP connection (lock_sock()), or
    /// `None` if none does at the local time of this CPU. The local time is the current time plus
    /// the work that was charged to the CPU.
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
            Channel::Socket | Channel::Datagram | Channel::Tcp => 7,
            Channel::Eventfd => 0,
        };
        channel.messages.push_back(Message { bytes, cpu, lines });
        let kind = channel.kind;
        let (segments, acknowledgements) = match kind {
            Channel::Tcp => channel.send_segment(bytes),
            _ => (0, 0),
        };
        let nr_pollers = channel.pollers.len();
        // Readers of an eventfd wait without WQ_FLAG_EXCLUSIVE, so a message wakes all of them.
        let nr_readers = match kind {
            Channel::Eventfd => channel.waiters.len(),
            _ => channel.waiters.len().min(1),
        };
        let costs = self.message_costs(id);
        let ns = costs.send(bytes) + self.sync.allocate(costs);
        self.tasks[task].program.add_time(ns);
        self.charge_channel_lines(id, task, None);
        self.charge_tcp_segments(task, segments, acknowledgements);
        // Pollers are added to the head of the wait queue (add_wait_queue in __pollwait()), so the
        // last one is woken first.
        for _ in 0..nr_pollers {
            let poller = self.sync.at(id).pollers.pop_back();
            poller.into_iter().for_each(|poller| self.wake_reader(kind, poller));
        }
        for _ in 0..nr_readers {
            let reader = self.sync.at(id).waiters.pop_front();
            reader.into_iter().for_each(|reader| self.wake_reader(kind, reader));
        }
        true
    }

    /// Wakes a task that waits for a message. pipe_write() and sock_def_readable() pass WF_SYNC, a
    /// hint that the waker is about to sleep (wake_up_interruptible_sync_poll); eventfd_write()
    /// does not.
    fn wake_reader(&mut self, kind: Channel, reader: TaskId) {
        let (wake_flags, socket) = match kind {
            Channel::Eventfd => {
                self.try_to_wake_up(reader, 0);
                return;
            }
            Channel::Pipe => (WF_SYNC, false),
            Channel::Socket | Channel::Datagram | Channel::Tcp => (WF_SYNC, true),
        };
        if socket {
            tracepoint::sock_def_readable(self, reader);
        } else {
            tracepoint::pipe_wake(self, reader);
        }
        self.try_to_wake_up(reader, wake_flags);
        tracepoint::message_woken(self, socket);
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
        // A pipe, an eventfd and a datagram socket wake one writer. A stream socket wakes all its
        // writers once enough of the buffer is free: three quarters for AF_UNIX
        // (unix_write_space()), a third for TCP (sk_stream_write_space()).
        let nr_woken = match channel.kind {
            Channel::Pipe | Channel::Datagram | Channel::Eventfd => 1,
            Channel::Socket if channel.used * 4 > channel.capacity => 0,
            Channel::Tcp if channel.used * 3 > channel.capacity * 2 => 0,
            Channel::Socket | Channel::Tcp => channel.writers.len(),
        };
        // sk_stream_write_space() and eventfd_read() wake writers without WF_SYNC.
        let wake_flags = match channel.kind {
            Channel::Tcp | Channel::Eventfd => 0,
            Channel::Pipe | Channel::Socket | Channel::Datagram => WF_SYNC,
        };
        let last_first = matches!(channel.kind, Channel::Socket | Channel::Tcp);
        let (segments, acknowledgements) = match channel.kind {
            Channel::Tcp => channel.acknowledge(),
            _ => (0, 0),
        };
        let costs = self.message_costs(id);
        let ns = costs.recv(message.bytes) + self.sync.free(costs);
        self.tasks[task].program.add_time(ns);
        self.charge_channel_lines(id, task, Some(message));
        self.charge_tcp_segments(task, segments, acknowledgements);
        for _ in 0..nr_woken {
            let writers = &mut self.sync.at(id).writers;
            // Writers of a stream socket wait without WQ_FLAG_EXCLUSIVE, so they are added to the
            // head of the wait queue (sock_wait_for_wmem(), sk_stream_wait_memory()).
            let writer = if last_first {
                writers.pop_back()
            } else {
                writers.pop_front()
            };
            let Some(writer) = writer else { break };
            self.try_to_wake_up(writer, wake_flags);
        }
        true
    }

    /// Waits until the channel has a message, but does not receive it (poll).
    pub(crate) fn channel_poll(&mut self, id: u32, task: TaskId) -> bool {
        let channel = self.sync.at(id);
        if channel.messages.is_empty() {
            channel.pollers.push_back(task);
            return false;
        }
        true
    }
}
