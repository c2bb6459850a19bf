// SPDX-License-Identifier: GPL-2.0-only
//! One CPU's runqueue: what runs, what waits, and where its time goes.

use crate::sched::ext::core::ScxRq;
use crate::sched::fair::entity::FairRq;
use crate::sched::rt::queue::RtRq;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// What every event touches stands first, so that it takes few cache lines.
#[repr(C, align(64))]
pub struct Rq {
    /// rq_clock: up to when time has been attributed.
    pub clock: u64,
    /// Kernel and policy work charged to this CPU and not yet worked off, ns. It delays whatever runs here.
    pub debt: u64,
    /// Picoseconds of charged BPF time below a nanosecond.
    pub carry_ps: u64,
    /// Work done per ns, 1024 for the machine's fastest CPU.
    pub capacity: u64,
    pub curr: TaskId,
    /// Generation of the pending Tick event.
    pub tick_generation: u32,
    /// Queued tasks of all classes, the running one included.
    pub nr_running: u32,
    pub cpu: CpuId,
    pub online: bool,
    /// schedule() must run here soon; set together with an IPI when asked for from another CPU.
    pub need_resched: bool,
    /// A reschedule IPI is waking it from idle; the time that takes is part of the IPI's.
    pub leaving_idle: bool,
    /// A reschedule IPI found the CPU in kernel work and comes again when that is done.
    pub resched_deferred: bool,
    /// The CPU spins in the kernel until others have rescheduled (SCX_KICK_WAIT): what it runs makes no progress.
    pub spinning: bool,
    pub tick_armed: bool,
    /// Until then a device's interrupt is handled, and others, the timer's too, have to wait.
    pub irqs_off_until: u64,
    pub time: CpuTime,
    pub nr_switches: u64,
    /// When it last became idle.
    pub idle_since: u64,
    /// Overhead that `Overhead` records have told of.
    pub overhead_told: u64,
    /// Deferred reschedule IPIs: when they come again, ns, and how many.
    pub deferred_ipis: Vec<(u64, u32)>,
    pub ext: ScxRq,
    pub rt: RtRq,
    pub fair: FairRq,
}

/// Where a CPU's time went; the parts sum up to the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub tasks_ns: u64,
    pub idle_ns: u64,
    /// Scheduling: core, policy, switches, ticks, IPIs, lock waits.
    pub overhead_ns: u64,
    /// Not online.
    pub offline_ns: u64,
}

impl CpuTime {
    pub fn total(&self) -> u64 {
        self.tasks_ns + self.idle_ns + self.overhead_ns + self.offline_ns
    }
}

impl Rq {
    /// Returns how many reschedule IPIs arrive at `now`: those deferred until then, or one that was not deferred.
    pub fn take_deferred_ipis(&mut self, now: u64) -> u32 {
        let deferred = self.deferred_ipis.iter().position(|&(at, _)| at == now);
        deferred.map_or(1, |place| self.deferred_ipis.swap_remove(place).1)
    }

    pub fn new(cpu: CpuId, capacity: u64) -> Rq {
        Rq {
            capacity,
            cpu,
            online: true,
            curr: IDLE,
            need_resched: false,
            leaving_idle: false,
            resched_deferred: false,
            deferred_ipis: Vec::new(),
            spinning: false,
            nr_running: 0,
            rt: Default::default(),
            fair: Default::default(),
            ext: Default::default(),
            clock: 0,
            debt: 0,
            carry_ps: 0,
            tick_generation: 0,
            tick_armed: false,
            irqs_off_until: 0,
            idle_since: 0,
            time: CpuTime::default(),
            overhead_told: 0,
            nr_switches: 0,
        }
    }

    pub fn idle(&self) -> bool {
        self.curr == IDLE
    }
}
