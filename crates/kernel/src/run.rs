// SPDX-License-Identifier: GPL-2.0-only
//! The event loop: takes events in their order and hands each to the code that handles it.

use crate::machine::*;
use crate::sched::{ext, fair, rt};
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::watch::observe::Transition;
use bpf::memory::Use;
use trace::Sink;
use workload::Action;

/// A run ends here at the latest, after 73 years: times and sums of times do not overflow, as no length of a workload is longer.
const MAX_TIME: u64 = 2 * workload::MAX_NS;
/// Builds with debug assertions check the books every so many events.
const VERIFY_EVERY: u64 = 256;

impl Machine {
    /// Runs until `until` (ns) and ends the run, handing what happens to `sink`.
    pub fn run(&mut self, until: u64, sink: &mut dyn Sink) -> Ended {
        let ended = self.advance(until, sink).unwrap_or(Ended::Time);
        self.finish(&ended, until, sink);
        ended
    }

    /// Runs up to and with `until` (ns). `None`: there is more to come, and where the run was cut leaves no mark.
    pub fn advance(&mut self, until: u64, sink: &mut dyn Sink) -> Option<Ended> {
        let until = until.min(MAX_TIME);
        loop {
            let Some((time, event)) = self.events.pop(until) else {
                return self.events.is_empty().then(|| self.nothing_left());
            };
            assert!(time >= self.now, "time ran backwards: {time} after {}", self.now);
            self.now = time;
            if let Event::Step { cpu } = event {
                let due = self.step_due(cpu);
                if due > time {
                    // Charged since it was armed.
                    self.events.arm_step(cpu, due);
                    continue;
                }
            }
            self.prefetch(&event);
            self.handle(event);
            if cfg!(debug_assertions) {
                self.nr_events += 1;
                if self.nr_events.is_multiple_of(VERIFY_EVERY) {
                    self.verify();
                }
            }
            if self.records.len() >= BATCH {
                self.flush(sink);
            }
            if self.stopped {
                return Some(Ended::Policy);
            }
            if self.nr_alive == 0 && self.sync.pending_spawns == 0 {
                return Some(Ended::AllExited);
            }
            if self.events.nothing_wakes() && self.all_asleep() {
                return Some(self.nothing_left());
            }
        }
    }

    /// Ends a run at `until`, or now if it ended by itself: all time is accounted for, the books are checked, the last
    /// records handed over.
    pub fn finish(&mut self, ended: &Ended, until: u64, sink: &mut dyn Sink) {
        if *ended == Ended::Time {
            self.now = until.min(MAX_TIME);
        }
        for cpu in self.cpus() {
            self.account(cpu);
            self.tell_overhead(cpu);
        }
        self.observe(Transition::End);
        self.verify();
        self.waiting_at_end = self.waiting_tasks();
        self.flush(sink);
        if self.stopped {
            // The policy's dump and ops.exit(), which are not part of the run.
            ext::enable::end_now(self);
            self.records.clear();
        }
    }

    /// The loaded policy has a reason to end.
    pub(crate) fn policy_ended(&mut self) {
        self.stopped = self.stop_with_policy;
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        sink.take(&self.records);
        if std::mem::take(&mut self.texts) {
            self.records.clear();
            let bytes = std::mem::take(&mut self.texts_bytes);
            self.region.memory().give_back(Use::Texts, bytes);
        } else {
            // SAFETY: none of them owns anything: to look at each for that is two instructions of a hundred.
            unsafe { self.records.set_len(0) };
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Step { cpu } => {
                self.enter(cpu);
                self.step(cpu);
            }
            Event::Resched { cpu } => self.resched_ipi(cpu),
            Event::Tick { cpu, generation } => {
                if self.rqs[cpu].tick_generation == generation {
                    self.enter(cpu);
                    self.tick(cpu);
                }
            }
            Event::Wake { task, generation } => self.timer_wake(task, generation),
            Event::Spawn { index, parent, thread } => self.spawn(index, parent, thread),
            Event::BpfTimer { timer, generation } => ext::timer_fired(self, timer, generation),
            Event::Watchdog => ext::watchdog(self),
            Event::Hotplug { cpu, online } => self.hotplug(cpu, online),
            Event::Disturb { index } => return self.disturb(index),
            Event::Hrtick { cpu } => fair::hrtick(self, cpu),
            Event::CfsPeriod { group, generation } => fair::period_timer(self, group, generation),
            Event::CfsSlack { group, generation } => fair::slack_timer(self, group, generation),
            Event::DlServer { cpu } => rt::server_timer(self, cpu),
            Event::NohzBalance { cpu } => fair::nohz_balance(self, cpu),
            Event::ExtDeferred { cpu } => ext::deferred(self, cpu),
        }
        self.leave();
    }

    /// Kernel code starts to run on `cpu`.
    pub(crate) fn enter(&mut self, cpu: CpuId) {
        self.this_cpu = cpu;
        self.account(cpu);
    }

    /// Returning from the kernel on `this_cpu`: reschedule if asked for.
    pub(crate) fn leave(&mut self) {
        ext::irq_work(self);
        let cpu = self.this_cpu;
        if !self.rqs[cpu].need_resched || !self.rqs[cpu].online {
            return;
        }
        if !self.rqs[cpu].spinning {
            self.schedule(cpu);
            ext::irq_work(self);
        }
        // Asked for while it was scheduling, or spinning: schedule() runs again when the CPU is through with this.
        let rq = &mut self.rqs[cpu];
        if rq.need_resched {
            rq.need_resched = false;
            rq.resched_deferred = true;
            if !rq.spinning {
                self.defer_resched(cpu, 1);
            }
        }
    }

    /// What the workload names happens.
    fn disturb(&mut self, index: u32) {
        let disturbance = &self.workload.disturbances[index as usize];
        match disturbance.what.clone() {
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
                self.hotplug(self.named_cpu(cpu), online);
                self.leave();
            }
            what => self.change_cgroup(&what),
        }
    }

    /// An interrupt of `ns` on a CPU: overhead of it, and what runs there goes on later. None comes to a CPU that is offline.
    fn interrupt(&mut self, cpu: CpuId, ns: u64) {
        if self.rqs[cpu].online {
            let rq = &mut self.rqs[cpu];
            rq.irqs_off_until = rq.irqs_off_until.max(self.now) + ns;
            self.enter(cpu);
            self.charge(cpu, ns);
            self.leave();
        }
    }

    /// No CPU runs or has a task queued: only an event can get things going.
    fn all_asleep(&self) -> bool {
        self.rqs.iter().all(|rq| rq.nr_running == 0)
    }

    fn nothing_left(&self) -> Ended {
        if self.nr_alive == 0 {
            return Ended::AllExited;
        }
        let alive = self
            .tasks
            .iter()
            .filter(|task| task.state != crate::sched::task::State::Dead);
        Ended::Deadlock {
            waiting: alive.map(|task| task.pid).collect(),
        }
    }
}
