// SPDX-License-Identifier: GPL-2.0-only
//! CPUs without a tick while they run a single task (NO_HZ_FULL, kernel/time/tick-sched.c).
//!
//! The tick of such a CPU stops if the CPU needs no tick to divide its time
//! ([`Machine::can_stop_tick`]): after the next tick, no further tick is scheduled. When the CPU
//! switches to another task, or another CPU queues a task there, the tick starts again. All other
//! CPUs are housekeeping CPUs. They handle the timers that nohz_full CPUs arm for tasks and
//! policies. Once per second, they also do the work of the tick for each nohz_full CPU whose tick
//! is stopped (sched_tick_remote).
//!
//! Not modelled: the cost of tracking entries into the kernel (context tracking), and other work
//! that needs a tick, such as RCU and POSIX CPU timers.

pub mod state;

use crate::layout::SCHED_RR;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::timeline::LockId;

/// Interval of the remote tick, which a housekeeping CPU handles for a CPU whose own tick is
/// stopped (HZ in sched_tick_remote), ns.
const REMOTE_TICK_NS: u64 = 1_000_000_000;

impl Machine {
    /// Schedules the first remote tick of each nohz_full CPU.
    pub(crate) fn start_remote_ticks(&mut self) {
        for cpu in self.cpus() {
            if self.nohz_full.contains(cpu) {
                self.events.push(REMOTE_TICK_NS, Event::RemoteTick { cpu });
            }
        }
    }

    /// Returns whether a CPU needs no tick for its queued tasks (sched_can_stop_tick).
    pub(crate) fn can_stop_tick(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu];
        if rq.rt.has_deadline() {
            return false;
        }
        if rq.rt.nr_running > 0 {
            // Real-time tasks need the tick only if several SCHED_RR tasks take turns.
            return rq.rt.nr_round_robin <= 1;
        }
        rq.fair.cfs.h_nr_queued <= 1 && self.scx_can_stop_tick(cpu) && !self.is_bandwidth_limited(rq.curr)
    }

    /// Returns whether sched_ext needs no tick on a CPU (scx_can_stop_tick). A task of a policy needs
    /// no tick if its slice is infinite.
    fn scx_can_stop_tick(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu];
        if !self.ext.enabled {
            return true;
        }
        let sched = match self.class_of(rq.curr) {
            Class::Ext => self.tasks[rq.curr].ext.sched,
            _ => SchedId::ROOT,
        };
        self.ext.bypass_depth_of(sched) == 0 && (self.class_of(rq.curr) != Class::Ext || rq.ext.can_stop_tick)
    }

    /// Starts the tick of a nohz_full CPU again, if a task was queued there and the CPU now needs a
    /// tick (sched_update_tick_dependency).
    #[inline]
    pub(crate) fn update_tick_dependency(&mut self, cpu: CpuId) {
        if self.nohz_full.contains(cpu) {
            self.kick_tick(cpu);
        }
    }

    fn kick_tick(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu];
        if rq.tick_armed || rq.idle() || self.can_stop_tick(cpu) {
            return;
        }
        if cpu == self.this_cpu {
            self.arm_tick(cpu);
        } else if !self.nohz_full.kicked.contains(cpu) {
            self.nohz_full.kicked.insert(cpu);
            self.interrupt_cpu(cpu, Event::TickKick { cpu });
        }
    }

    /// Handles the IPI that starts the tick of a nohz_full CPU again (tick_nohz_full_kick_cpu).
    pub(crate) fn tick_kick(&mut self, cpu: CpuId) {
        self.nohz_full.kicked.remove(cpu);
        self.enter_irq(cpu, u64::from(self.spec.costs.ipi_receive_ns));
        self.arm_tick(cpu);
    }

    /// Does the work of the tick for a nohz_full CPU whose tick is stopped (sched_tick_remote). It
    /// runs on a housekeeping CPU.
    pub(crate) fn remote_tick(&mut self, cpu: CpuId) {
        self.events.push(self.now + REMOTE_TICK_NS, Event::RemoteTick { cpu });
        let here = self.timer_target(cpu);
        self.enter_timer_irq(here);
        self.charge(here, u64::from(self.spec.costs.softirq_ns));
        let rq = &self.rqs[cpu];
        if rq.tick_armed || rq.idle() || !rq.online {
            return;
        }
        self.charge(here, u64::from(self.spec.costs.tick_ns));
        self.update_curr(cpu);
        self.lock(LockId::Rq(cpu));
        self.class_task_tick(cpu);
        self.unlock(LockId::Rq(cpu));
    }

    /// Returns the CPU that handles the timers which `cpu` arms (get_nohz_timer_target). This is
    /// `cpu` itself, unless `cpu` is a nohz_full CPU. Then it is the nearest busy housekeeping CPU
    /// or, if all of them are idle, the nearest one.
    #[inline]
    pub(crate) fn timer_target(&self, cpu: CpuId) -> CpuId {
        if !self.nohz_full.contains(cpu) {
            return cpu;
        }
        let keeps = |other: &CpuId| !self.nohz_full.contains(*other) && self.online_cpus.contains(*other);
        let nearest = |busy: bool| {
            let all = self.cpus().filter(keeps);
            all.filter(|&other| !busy || !self.rqs[other].idle())
                .min_by_key(|&other| (self.distance(cpu, other), other))
        };
        nearest(true).or_else(|| nearest(false)).unwrap_or(cpu)
    }

    /// Returns the CPU whose interrupt wakes a task at the end of its sleep. Without a `timer_cpu`,
    /// this is the task's CPU, which cannot change while the task sleeps.
    #[inline(always)]
    pub(crate) fn wake_cpu(&self, task: TaskId) -> CpuId {
        let t = &self.tasks[task];
        t.rare.timer_cpu.unwrap_or(t.cpu())
    }

    /// Returns whether a task counts toward `nr_round_robin`.
    pub(crate) fn is_round_robin(&self, task: TaskId) -> bool {
        self.tasks[task].policy() == SCHED_RR
    }
}
