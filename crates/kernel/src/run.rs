// SPDX-License-Identifier: GPL-2.0-only
//! The event loop, which takes events from the queue in order and executes their handlers.

use crate::machine::*;
use crate::policy::bpf_world;
use crate::programs::native;
use crate::sched::state::rq::Entry;
use crate::sched::{deadline, ext, fair, rt};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};
use crate::watch::state::observed::Transition;
use bpf::memory::Use;
use trace::Sink;
use workload::Action;

/// Latest possible end of a run, about 73 years. No duration in a workload is longer than half of
/// this, so sums of times cannot overflow.
const MAX_TIME: u64 = 2 * workload::MAX_NS;
/// In builds with debug assertions, the machine verifies its consistency each time it has handled
/// this number of events.
const VERIFY_EVERY: u64 = 256;

impl Machine {
    /// Takes the next event, if its time is not later than `until`.
    #[inline(always)]
    fn next_event<const PLAIN: bool>(&mut self, until: u64) -> Option<(u64, Event)> {
        if PLAIN {
            return self.events.pop(until);
        }
        match &mut self.overlap {
            None => self.next_of_turn().or_else(|| self.events.pop(until)),
            Some(overlap) => overlap.next.take().or_else(|| self.events.pop(until)),
        }
    }

    /// Runs the machine until the time `until` (ns) and ends the run. Passes all trace records to
    /// `sink`. Returns the reason why the run ended.
    pub fn run(&mut self, until: u64, sink: &mut dyn Sink) -> Ended {
        let ended = self.advance(until, sink).unwrap_or(Ended::Time);
        self.finish(&ended, until, sink);
        ended
    }

    /// Handles all events up to and including the time `until` (ns). Returns `None` if the run can
    /// continue. A run that is divided into several such calls has the same result as a run in one
    /// call.
    ///
    /// If callbacks overlap, all handlers that are suspended at `until` end before this function
    /// returns. A division into several calls then changes the result.
    pub fn advance(&mut self, until: u64, sink: &mut dyn Sink) -> Option<Ended> {
        let ended = self.handle_events(until.min(MAX_TIME), sink);
        if self.overlap.is_some() {
            self.end_handlers();
            self.flush(sink);
        }
        ended
    }

    fn handle_events(&mut self, until: u64, sink: &mut dyn Sink) -> Option<Ended> {
        if self.overlap.is_none() && self.turns.is_none() {
            self.handle_events_of::<true>(until, sink)
        } else {
            self.handle_events_of::<false>(until, sink)
        }
    }

    /// Performs [`Machine::handle_events`]. With `PLAIN`, callbacks do not overlap, and all CPUs run at
    /// the same time. The loop of such a machine then contains no code for the other cases.
    fn handle_events_of<const PLAIN: bool>(&mut self, until: u64, sink: &mut dyn Sink) -> Option<Ended> {
        loop {
            let Some((mut time, event)) = self.next_event::<PLAIN>(until) else {
                return self.events.is_empty().then(|| self.end_without_events());
            };
            debug_assert!(!PLAIN || self.overlap.is_none() && self.turns.is_none());
            if !PLAIN && self.overlap.is_some() {
                // The end of suspended handlers may have delayed earlier events.
                time = time.max(self.now);
            }
            assert!(
                time >= self.now,
                "the event at {time} ns is earlier than the current time, {} ns",
                self.now
            );
            self.now = time;
            if !PLAIN && self.overlap.is_some() && !self.admit(event) {
                continue;
            }
            if !PLAIN && self.turns.is_some() && !self.take_turn(event) {
                continue;
            }
            if let Event::Step { cpu } = event {
                let due = self.step_due(cpu);
                if due > time {
                    // More work was charged to the CPU after this event had been scheduled, so the
                    // task finishes its work later.
                    self.events.arm_step(cpu, due);
                    continue;
                }
            }
            self.prefetch(&event);
            // A CPU with a step event is not idle.
            if !matches!(event, Event::Step { .. })
                && let Some(awake) = self.wakes_for(&event)
            {
                // The CPU must leave its idle state before it can handle the event, so the event is
                // delayed.
                self.events.push(awake, event);
                continue;
            }
            if PLAIN {
                self.handle(event);
            } else {
                self.handle_rare(event);
            }
            if cfg!(debug_assertions) {
                self.nr_events += 1;
                if self.nr_events.is_multiple_of(VERIFY_EVERY) && !self.is_any_suspended() {
                    self.verify();
                }
            }
            if self.records.len() >= BATCH {
                self.flush(sink);
            }
            if self.stopped {
                return Some(Ended::Policy);
            }
            // The tasks of the background work never exit. While they sleep, each of them has one
            // event that wakes it.
            if self.nr_alive + self.sync.pending_spawns == self.noise.nr_tasks {
                return Some(Ended::AllExited);
            }
            // The threads of a program are counted, too, but they may sleep without an event.
            if self.events.wakers() == u64::from(self.noise.nr_tasks)
                && self.all_asleep()
                && !self.is_any_suspended()
                && !self.any_waits_for_turn()
                && self.native.is_none()
            {
                return Some(self.end_without_events());
            }
        }
    }

    /// Ends a run at the time `until`, or at the current time if the run ended by itself. Accounts
    /// the time of all CPUs, verifies the consistency of the machine, and passes the last trace
    /// records to `sink`.
    pub fn finish(&mut self, ended: &Ended, until: u64, sink: &mut dyn Sink) {
        if *ended == Ended::Time {
            self.now = self.now.max(until.min(MAX_TIME));
        }
        for cpu in self.cpus() {
            self.update_curr(cpu);
            self.record_overhead(cpu);
            if self.details {
                self.record_slowdown(cpu, self.rqs[cpu].curr, 0);
            }
        }
        self.finish_idle();
        self.finish_frequencies();
        self.observe(Transition::End);
        self.verify();
        self.record_waiting_tasks();
        self.flush(sink);
        if self.stopped {
            // The run has stopped as soon as the policy had a reason to end. The debug dump and the
            // call of ops.exit() may still be missing, so they follow now. Their trace records are
            // dropped, because they would come after the end of the run.
            ext::enable::end_now(self);
            self.records.clear();
        }
    }

    /// Stops the run if [`Options::stop_with_policy`] is set. Called when the policy has a reason
    /// to end, for example an error.
    pub(crate) fn policy_ended(&mut self) {
        self.stopped = self.options.stop_with_policy;
    }

    /// Passes the lines that a policy printed to a sink, if the run does not begin because the
    /// policy was refused. Discards all other records.
    pub fn pass_printed_lines(&mut self, sink: &mut dyn Sink) {
        self.records
            .retain(|record| matches!(record.event, trace::Event::Printk { .. }));
        self.flush(sink);
    }

    /// Passes the pending trace records to `sink`.
    fn flush(&mut self, sink: &mut dyn Sink) {
        sink.take(&self.records);
        if std::mem::take(&mut self.texts) {
            self.records.clear();
            let bytes = std::mem::take(&mut self.texts_bytes);
            self.region.memory().uncharge(Use::Texts, bytes);
        } else {
            // SAFETY: `texts` is false, so no record owns memory and none has to be dropped.
            // `clear` would test each record, which costs about 2 % of the instructions of an
            // event.
            unsafe { self.records.set_len(0) };
        }
    }

    /// Calls the handler of an event, on a machine whose callbacks overlap or whose CPUs run in turn.
    #[inline(never)]
    fn handle_rare(&mut self, event: Event) {
        if self.overlap.is_none() {
            self.handle(event);
        } else {
            self.handle_overlapped(event);
        }
        if self.turns.is_some() {
            self.after_event_in_turn();
        }
    }

    #[inline(always)]
    pub(crate) fn handle(&mut self, event: Event) {
        if self.dispatch(event) {
            self.leave();
        }
    }

    /// Calls the handler of an event. Returns whether the handler began kernel code, which has to end
    /// with [`Machine::leave`]. An obsolete event, such as that of a timer that has been cancelled since,
    /// begins none.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, event: Event) -> bool {
        self.domains.begin_event(matches!(event, Event::Spawn { .. }));
        match event {
            Event::Step { cpu } => {
                self.enter(cpu);
                // A step is not an interrupt. The CPU returns to user space only if the task makes
                // a system call in this step, which sets this field again.
                self.entry.to_user = false;
                self.step(cpu);
            }
            Event::Resched { cpu } => self.resched_ipi(cpu),
            Event::WorkDone { cpu } => self.work_done(cpu),
            Event::Wakeups { cpu } => self.wakeups(cpu),
            Event::Tick { cpu, generation } => {
                if self.rqs[cpu].tick_generation != generation {
                    return false;
                }
                self.tick(cpu);
            }
            Event::Wake { task, generation } => return self.timer_wake(task, generation),
            Event::Spawn { index, parent, thread } => self.spawn(index, parent, thread),
            Event::BpfTimer { timer, generation } => return bpf_world::timer_fired(self, timer, generation),
            Event::Watchdog => ext::watchdog(self),
            Event::Hotplug { cpu, online } => self.request_hotplug(cpu, online),
            Event::HotplugWait => self.serve_hotplug_requests(),
            Event::Disturb { index } => {
                self.disturb(index);
                return false;
            }
            Event::Frequency { domain } => {
                self.frequency_changes(domain);
                return false;
            }
            Event::Noise { source } => {
                self.noise_interrupt(source);
                return false;
            }
            Event::TickKick { cpu } => self.tick_kick(cpu),
            Event::RemoteTick { cpu } => self.remote_tick(cpu),
            Event::Hrtick { cpu } => return fair::hrtick(self, cpu),
            Event::HrtickStart { cpu } => fair::hrtick_start_ipi(self, cpu),
            Event::CfsPeriod { group, generation } => return fair::period_timer(self, group, generation),
            Event::CfsSlack { group, generation } => return fair::slack_timer(self, group, generation),
            Event::CfsUnthrottle { cpu } => fair::unthrottle_ipi(self, cpu),
            Event::DlServer { cpu, server } => {
                if !deadline::timer(self, cpu, server) {
                    return false;
                }
            }
            Event::NohzBalance { cpu } => fair::nohz_balance(self, cpu),
            Event::RtPush { cpu } => rt::push_cpu_stop(self, cpu),
            Event::ExtDeferred { cpu } => ext::deferred(self, cpu),
            Event::ExtRescue { cpu } => return ext::rescue_timer(self, cpu),
            Event::Native { cpu } => return native::event(self, cpu),
            Event::Resume { .. } | Event::Turn { .. } => return false,
        }
        true
    }

    /// Begins the execution of kernel code on `cpu`.
    pub(crate) fn enter(&mut self, cpu: CpuId) {
        self.this_cpu = cpu;
        // An interrupt alone does not update the clocks of its CPU. That matters only if they are rounded.
        if self.stepped.is_none() {
            self.account(cpu);
        }
        let rq = &self.rqs[cpu];
        self.entry = Entry {
            irq_from: None,
            to_user: rq.debt() == 0 && !rq.spinning,
        };
    }

    /// Ends the execution of kernel code on `this_cpu`. Reschedules if this was requested.
    pub(crate) fn leave(&mut self) {
        let cpu = self.this_cpu;
        if let Some(from) = self.entry.irq_from.take() {
            self.end_irq(cpu, from);
        }
        ext::irq_work(self);
        if self.rqs[cpu].need_resched_lazy {
            if self.entry.to_user && !self.runs_in_kernel(cpu) {
                self.rqs[cpu].need_resched = true;
            } else if self.rqs[cpu].debt() > 0 {
                self.notify_work_done(cpu);
            }
        }
        if !self.rqs[cpu].need_resched || !self.rqs[cpu].online {
            if self.rqs[cpu].idle() {
                self.enter_idle(cpu);
                return;
            }
            if !self.resume_user_mode_work(cpu) {
                return;
            }
        }
        if !self.rqs[cpu].spinning {
            self.schedule(cpu);
            self.return_to_user(cpu);
            ext::irq_work(self);
            if self.rqs[cpu].need_resched_lazy {
                self.notify_work_done(cpu);
            }
        }
        // A reschedule was requested during schedule(), or while the CPU waits in the kernel for
        // other CPUs (SCX_KICK_WAIT). schedule() runs again when the CPU has finished its current
        // kernel work.
        let rq = &mut self.rqs[cpu];
        if rq.need_resched {
            rq.need_resched = false;
            rq.resched_deferred = true;
            if !rq.spinning {
                self.defer_resched(cpu);
            }
        }
    }

    /// Lets a task that schedule() has picked return to user space. A throttled task is dequeued there, and
    /// so is each one that is picked next.
    pub(crate) fn return_to_user(&mut self, cpu: CpuId) {
        while self.resume_user_mode_work(cpu) {
            self.schedule(cpu);
        }
    }

    /// Does what a task does before it returns to user space. Returns whether the CPU has to reschedule.
    #[inline]
    fn resume_user_mode_work(&mut self, cpu: CpuId) -> bool {
        (self.task_groups.limited() || self.sched_cache.nr_works > 0) && self.task_work(cpu)
    }

    /// Searches for the preferred LLC of the running task, if that was requested. Dequeues the task if its
    /// group is throttled. Returns whether the CPU has to reschedule.
    #[cold]
    fn task_work(&mut self, cpu: CpuId) -> bool {
        let curr = self.rqs[cpu].curr;
        if curr == IDLE || self.runs_in_kernel(cpu) {
            return false;
        }
        if self.tasks[curr].cache_work {
            fair::sched_cache::work(self, cpu, curr);
        }
        if !self.tasks[curr].fair.throttle_work {
            return false;
        }
        fair::throttle_work(self, cpu);
        self.rqs[cpu].need_resched
    }

    /// Returns whether the running task of a CPU is a kernel thread or is in a section of the kernel
    /// in which it must not migrate. A lazy reschedule request then waits for the next tick.
    #[cold]
    fn runs_in_kernel(&self, cpu: CpuId) -> bool {
        let curr = self.rqs[cpu].curr;
        curr != IDLE && (self.tasks[curr].is_kthread() || self.tasks[curr].migration_disabled() > 0)
    }

    /// Performs a disturbance of the workload, such as an interrupt or a change of a cgroup.
    fn disturb(&mut self, index: u32) {
        let disturbance = &self.workload.disturbances[index as usize];
        match disturbance.action.clone() {
            Action::Irq {
                cpu,
                ns,
                period_ns,
                count,
            } => {
                let done = (self.now - disturbance.at_ns) / period_ns.max(1) + 1;
                if count.is_none_or(|count| done < count) {
                    self.events.push(self.now + period_ns, Event::Disturb { index });
                }
                self.interrupt(self.named_cpu(cpu), ns);
            }
            Action::Hotplug { cpu, online } => {
                self.request_hotplug(self.named_cpu(cpu), online);
                self.leave();
            }
            what => self.change_cgroup(&what),
        }
    }

    /// Performs a device interrupt that takes `ns` on a CPU. The time counts as overhead of the CPU
    /// and delays the task that runs there. Offline CPUs receive no interrupts.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, ns: u64) {
        if self.rqs[cpu].online {
            let rq = &mut self.rqs[cpu];
            rq.irqs_off_until = rq.irqs_off_until.max(self.now) + ns;
            self.enter_irq(cpu, ns);
            self.leave();
        }
    }

    /// Returns whether no task is runnable. Nothing can then happen until an event wakes a task.
    fn all_asleep(&self) -> bool {
        self.rqs.iter().all(|rq| rq.nr_running == 0)
    }

    /// Returns the reason for the end of a run in which no event is pending.
    fn end_without_events(&self) -> Ended {
        if self.nr_alive == self.noise.nr_tasks {
            return Ended::AllExited;
        }
        Ended::Deadlock {
            blocked: self.blocked_tasks(),
        }
    }
}
