// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler tick: its handler and the time of the next one (sched_tick, tick_nohz_handler).

use crate::machine::Machine;
use crate::sched::{ext, fair};
use crate::simulation::id::CpuId;
use crate::simulation::timeline::LockId;

impl Machine {
    /// Handles the scheduler tick. An idle CPU has a tick only if the idle governor keeps it
    /// (NO_HZ_IDLE). A tick that arrives during another interrupt is handled when that interrupt
    /// ends. A lazy reschedule request that is still pending at the tick becomes a normal one.
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        let lazy = self.rqs[cpu].need_resched_lazy;
        self.enter_irq(cpu, 0);
        let rq = &mut self.rqs[cpu];
        if self.now < rq.irqs_off_until {
            let generation = rq.tick_generation;
            self.events.push_tick(rq.irqs_off_until, cpu, generation);
            return;
        }
        rq.tick_armed = false;
        let first = std::mem::take(&mut rq.coarse_timers);
        if !rq.online {
            return;
        }
        if rq.idle() {
            rq.clock_updated = self.now;
            let keeps_tick = self.idle_tick(cpu);
            // A CPU of a stepped machine stops its tick at the first tick after it has become idle, or at the
            // second one after it has come online.
            if keeps_tick || self.stepped.is_some() {
                self.charge(cpu, u64::from(self.spec.costs.tick_ns));
                self.run_soft_timers(cpu);
                // A timer that expired in the same interrupt may have woken a task (idle_cpu).
                if self.rqs[cpu].nr_running == 0 || self.ext.switching_all {
                    fair::idle_tick(self, cpu);
                } else {
                    fair::trigger_load_balance(self, cpu);
                }
                self.arm_tick(cpu);
            }
            if first {
                self.start_tick(cpu);
            } else if !keeps_tick && let Some(stepped) = self.stepped.as_deref_mut() {
                stepped.stops_tick = true;
            }
            return;
        }
        rq.timer_irq_at = self.now;
        self.charge(cpu, u64::from(self.spec.costs.tick_ns));
        self.lock(LockId::Rq(cpu));
        if lazy {
            self.resched_curr(cpu);
        }
        self.update_curr(cpu);
        self.class_task_tick(cpu);
        ext::tick(self, cpu);
        self.unlock(LockId::Rq(cpu));
        self.record_overhead(cpu);
        fair::trigger_load_balance(self, cpu);
        fair::numa::tick(self, cpu);
        self.run_soft_timers(cpu);
        self.arm_tick(cpu);
    }

    /// Schedules the next tick of `cpu`. All CPUs have their ticks at the same times, unless the
    /// kernel parameter skew_tick spreads the ticks over half of a tick period
    /// (tick_setup_sched_timer).
    #[inline(always)]
    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        if !self.rqs[cpu].tick_armed {
            self.arm_stopped_tick(cpu);
        }
    }

    fn arm_stopped_tick(&mut self, cpu: CpuId) {
        if self.rqs[cpu].idle() && !self.idle_tick(cpu) {
            return;
        }
        if self.nohz_full.contains(cpu) && !self.rqs[cpu].idle() && self.can_stop_tick(cpu) {
            return;
        }
        self.start_tick(cpu);
    }

    pub(super) fn start_tick(&mut self, cpu: CpuId) {
        let at = self.next_tick(cpu);
        let rq = &mut self.rqs[cpu];
        rq.tick_armed = true;
        rq.tick_generation = rq.tick_generation.wrapping_add(1);
        let generation = rq.tick_generation;
        self.events.push_tick(at, cpu, generation);
    }

    /// Returns the time of the next tick of `cpu` after now, ns.
    pub(crate) fn next_tick(&self, cpu: CpuId) -> u64 {
        let period = self.tick_ns();
        let skew = match self.spec.kernel.skew_tick {
            true => period / 2 * u64::from(cpu) / u64::from(self.nr_cpus()),
            false => 0,
        };
        let since_tick = self.now + self.since_tick_ns;
        (since_tick.saturating_sub(skew) / period + 1) * period + skew - self.since_tick_ns
    }
}
