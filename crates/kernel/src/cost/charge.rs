// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of the time of CPUs, and charging CPUs for the work of the kernel and of the policy.
//!
//! The simulated time does not advance while an event handler runs. Instead, the cost of the
//! handler is added to the debt of its CPU (`rq.debt()`), which is the kernel time that the CPU
//! still has to spend. The debt then decreases as simulated time passes. The task on the CPU makes
//! no progress until the debt is 0. `rq.clock` is the time up to which the CPU's time has been
//! accounted, and `rq.free_at` the time at which the debt will be 0.
//!
//! As in Linux, a task is charged for the kernel work on its CPU: its runtime, vruntime and slice
//! include this work. schedule() charges the previous task for all work up to that point
//! ([`Machine::update_rq_clock`]). The rest of schedule() and the switch are charged to the next
//! task.

use crate::machine::Machine;
use crate::simulation::event::Event as Arrival;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use machine::Distance;
use machine::smt::FULL_SPEED;
use trace::{Event, Slowdown};

impl Machine {
    /// Accounts the time of `cpu` since the last call. The time first reduces the debt. The rest
    /// belongs to the running task or is idle time.
    #[inline]
    pub(crate) fn account(&mut self, cpu: CpuId) {
        if self.rqs[cpu].clock != self.now {
            self.account_since(cpu);
        }
    }

    fn account_since(&mut self, cpu: CpuId) {
        if self.details || self.replays || self.stepped.is_some() {
            self.account_special(cpu);
        } else {
            self.account_with::<false>(cpu);
        }
    }

    #[inline(never)]
    fn account_special(&mut self, cpu: CpuId) {
        if self.stepped.is_some() {
            // Linux rounds the clock of the load averages whenever it updates the clock.
            self.update_clock_pelt(cpu);
        }
        self.account_with::<true>(cpu);
    }

    /// Performs [`Machine::account`]. `SPECIAL` includes what only replays and runs with detail records
    /// need. Without it, the function saves no registers.
    #[inline(always)]
    fn account_with<const SPECIAL: bool>(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        let elapsed = now - rq.clock;
        let debt = rq.debt();
        rq.clock = now;
        let progressed = std::mem::take(&mut rq.progressed);
        if !rq.online {
            rq.set_debt(debt);
            rq.time.offline_ns += elapsed;
            return;
        }
        let worked_off = elapsed.min(debt);
        rq.free_at = rq.free_at.max(now);
        let uncharged = worked_off.min(rq.charged);
        rq.charged -= uncharged;
        let kernel = if rq.spinning { elapsed } else { worked_off };
        rq.time.overhead_ns += kernel;
        rq.uncharged += elapsed - uncharged;
        let rest = elapsed - kernel;
        let curr = rq.curr;
        if curr == IDLE {
            rq.time.idle_ns += rest;
            return;
        }
        if SPECIAL && self.replays {
            self.tasks[curr].program.credit(kernel.saturating_sub(uncharged));
        }
        if rest > 0 {
            rq.time.tasks_ns += rest;
            let (ns, speed) = (rest.saturating_sub(progressed), rq.speed);
            if SPECIAL {
                self.consume(cpu, curr, ns);
            } else if speed != 0 {
                self.tasks[curr].program.consume(ns, speed);
            }
        }
    }

    /// Charges the running task for the time that it has run (update_curr). The scheduler does this
    /// only before it uses or changes the state of the task's queue, so an interrupt alone does not
    /// change the task's runtime.
    #[inline]
    pub(crate) fn update_curr(&mut self, cpu: CpuId) {
        self.account(cpu);
        let ns = std::mem::take(&mut self.rqs[cpu].uncharged);
        if ns > 0 {
            self.charge_curr(cpu, ns);
        }
    }

    /// Charges the running task for the kernel work that is part of the CPU's debt and that the
    /// task has not been charged for yet. Afterwards the task is charged up to the local time of
    /// the CPU ([`Machine::local_time`]). Linux updates the clock of the runqueue at the same
    /// points: when schedule() begins, and before a running task leaves its queue.
    pub(crate) fn update_rq_clock(&mut self, cpu: CpuId) {
        self.account(cpu);
        let rq = &mut self.rqs[cpu];
        let debt = rq.debt() - rq.charged;
        rq.charged = rq.debt();
        let ns = std::mem::take(&mut rq.uncharged);
        let ns = if rq.curr == IDLE { ns } else { ns + debt };
        self.charge_curr(cpu, ns);
    }

    /// Begins the execution of an interrupt handler on `cpu`. Entry and exit of the interrupt cost
    /// `ns`.
    pub(crate) fn enter_irq(&mut self, cpu: CpuId, ns: u64) {
        self.enter(cpu);
        let rq = &mut self.rqs[cpu];
        self.entry.irq_from = Some(rq.debt());
        rq.free_at += ns;
    }

    /// Begins the execution of a timer's handler on `cpu`. One interrupt handles all timers that
    /// expire at the same time, so its cost is charged only once (hrtimer_interrupt).
    pub(crate) fn enter_timer_irq(&mut self, cpu: CpuId) {
        let now = self.now;
        let first = std::mem::replace(&mut self.rqs[cpu].timer_irq_at, now) != now;
        let ns = if first { self.spec.costs.timer_irq_ns } else { 0 };
        self.enter_irq(cpu, ns.into());
    }

    /// Ends an interrupt that began when the debt of `cpu` was `from` ns. With IRQ_TIME_ACCOUNTING,
    /// the debt that the interrupt added does not count as runtime of the running task. Without it,
    /// the task is charged for the interrupt.
    pub(crate) fn end_irq(&mut self, cpu: CpuId, from: u64) {
        if self.spec.kernel.irq_time_accounting {
            let rq = &mut self.rqs[cpu];
            rq.charged = rq.debt().min(rq.charged + rq.debt().saturating_sub(from));
        }
    }

    /// Subtracts the work that the running task has done since the last update, at the speed of
    /// `cpu` that is about to change, for example because a sibling becomes busy. Does not update
    /// the task's runtime: in Linux, a change of speed does not enter the scheduler on this CPU, so
    /// the scheduling class must not notice here that a slice has ended.
    pub(crate) fn progress(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        if rq.curr == IDLE || rq.spinning {
            return;
        }
        let task_time = now.saturating_sub(rq.free_at);
        let ns = task_time.saturating_sub(rq.progressed);
        rq.progressed += ns;
        let curr = rq.curr;
        self.consume(cpu, curr, ns);
    }

    /// Subtracts `ns` of CPU time from the work of the task that runs on `cpu`.
    #[inline]
    fn consume(&mut self, cpu: CpuId, curr: TaskId, ns: u64) {
        if self.details {
            self.count_slowdown(cpu, curr, ns);
        }
        let speed = self.rqs[cpu].speed;
        if speed == 0 {
            // The CPU waits for its turn.
            return;
        }
        self.tasks[curr].program.consume(ns, speed);
    }

    /// Counts how much of the next `ns` of CPU time of a task each kind of slowdown takes.
    #[cold]
    fn count_slowdown(&mut self, cpu: CpuId, curr: TaskId, ns: u64) {
        let speed = self.rqs[cpu].speed;
        let (reload, work) = self.tasks[curr].program.split(ns, speed);
        // The work per ns, from the fastest CPU of the machine down to the actual speed.
        let nominal = u64::from(self.spec.speed(cpu.nr()));
        let speeds = [
            u64::from(FULL_SPEED),
            nominal,
            self.rqs[cpu].capacity,
            self.base_speed(cpu),
            speed,
        ];
        let lost = &mut self.rqs[cpu].slowed;
        for (lost, pair) in lost.iter_mut().zip(speeds.windows(2)) {
            *lost += work * pair[0].saturating_sub(pair[1]);
        }
        lost[Slowdown::Reload as usize] += reload * u64::from(FULL_SPEED);
    }

    /// Emits trace records with the time that `task`, which leaves `cpu`, has lost there. A turn ends
    /// at the local time of the CPU, so the debt of a CPU that switches belongs to the task. At the
    /// end of the run, `debt` is 0, because the CPU does not work it off any more.
    pub(crate) fn record_slowdown(&mut self, cpu: CpuId, task: TaskId, debt: u64) {
        let rq = &mut self.rqs[cpu];
        let lost = std::mem::take(&mut rq.slowed);
        let until = rq.time.overhead_ns + debt;
        let overhead = until.saturating_sub(rq.switch_overhead_ns);
        rq.switch_overhead_ns = until;
        if task == IDLE {
            return;
        }
        let pid = self.pid_of(task);
        let slowed = lost.map(|lost| lost / u64::from(FULL_SPEED)).into_iter();
        for (by, ns) in Slowdown::ALL.into_iter().zip(slowed.chain([overhead])) {
            if ns > 0 {
                self.trace(cpu, Event::Slowed { pid, by, ns });
            }
        }
    }

    /// Emits a trace record with the overhead of `cpu` since the previous record of this kind.
    pub(crate) fn record_overhead(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        let ns = rq.time.overhead_ns - rq.recorded_overhead_ns;
        rq.recorded_overhead_ns = rq.time.overhead_ns;
        if ns > 0 {
            self.trace(cpu, Event::Overhead { ns });
        }
    }

    /// Adds `ns` of scheduler overhead to the debt of `cpu`.
    #[inline(always)]
    pub(crate) fn charge(&mut self, cpu: CpuId, ns: u64) {
        self.rqs[cpu].free_at += ns;
    }

    /// Adds `ns` of scheduler overhead to the debt of the current CPU.
    #[inline(always)]
    pub(crate) fn charge_here(&mut self, ns: u64) {
        self.charge(self.this_cpu, ns);
    }

    /// Charges `cpu` with `ns` of kernel work and with the execution of `insns` BPF instructions.
    #[inline]
    pub(crate) fn charge_bpf(&mut self, cpu: CpuId, ns: u64, insns: u64) {
        let rq = &mut self.rqs[cpu];
        let ps = rq.carry_ps + insns * u64::from(self.spec.costs.bpf_insn_ps);
        rq.carry_ps = ps % 1000;
        let insns_ns = ps / 1000;
        rq.free_at += ns + insns_ns;
    }

    /// Returns the time at which `cpu` will have reduced its debt to 0. In an event handler, this
    /// is the local time of the CPU: the time at which the handler's next instruction would run on
    /// a real CPU.
    #[inline(always)]
    pub(crate) fn local_time(&self, cpu: CpuId) -> u64 {
        self.rqs[cpu].free_at.max(self.now)
    }

    /// Converts a local time to the number of ns since the current handler began. Some trace
    /// records contain this number.
    pub(crate) fn after(&self, local: u64) -> u32 {
        local.saturating_sub(self.now).min(u64::from(u32::MAX)) as u32
    }

    pub(crate) fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        self.spec.topology.distance(a.nr(), b.nr())
    }

    /// Makes the CPU `target` handle the event `arrival`, and charges the current CPU for notifying
    /// it (resched_curr(), call_function_single_prep_ipi()).
    ///
    /// An idle CPU that polls notices a write to its flags (TIF_NEED_RESCHED) and needs no IPI. The
    /// write costs the transfer of a cache line, and the target needs another transfer to read the
    /// flags. Every other CPU gets an IPI, whose latency depends on the distance. The time to leave
    /// the idle state is added when `arrival` is handled. Returns the time of `arrival`, ns.
    pub(crate) fn interrupt_cpu(&mut self, target: CpuId, arrival: Arrival) -> u64 {
        let from = self.this_cpu;
        let (costs, distance) = (&self.spec.costs, self.distance(from, target));
        if self.polls(target) {
            let line = costs.cache_line.at(distance);
            self.charge(from, line);
            let at = self.local_time(from) + line;
            self.events.push(at, arrival);
            return at;
        }
        let (send, latency) = (costs.ipi_send_ns, costs.ipi_latency.at(distance));
        self.charge(from, u64::from(send));
        let at = self.local_time(from) + latency;
        self.trace(from, Event::Ipi { target: target.nr() });
        self.events.push(at, arrival);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Bed, MS, cpu_id, hog};
    use machine::MachineSpec;

    #[test]
    fn the_debt_of_a_switch_belongs_to_the_task_that_leaves() {
        let mut bed = Bed::default();
        bed.pinned(0, hog());
        let (mut m, _) = bed.run(MachineSpec::smp(1).free(), MS);
        let task = m.tasks.numbered().map(|(task, _)| task).find(|&task| task != IDLE);
        let (cpu, task) = (cpu_id(0), task.expect("the task exists"));
        m.records.clear();
        let lost = |m: &mut Machine, task, debt| {
            m.record_slowdown(cpu, task, debt);
            let records = std::mem::take(&mut m.records);
            let kernel = records.iter().filter_map(|record| match record.event {
                Event::Slowed {
                    by: Slowdown::Kernel,
                    ns,
                    ..
                } => Some(ns),
                _ => None,
            });
            kernel.sum::<u64>()
        };
        m.rqs[cpu].slowed = Default::default();
        lost(&mut m, task, 0);
        // schedule() has charged 500 ns when the task leaves. They pass while the next task is current.
        assert_eq!(lost(&mut m, task, 500), 500);
        m.rqs[cpu].time.overhead_ns += 500 + 30;
        assert_eq!(lost(&mut m, task, 0), 30, "only the rest is lost by the next task");
    }
}
