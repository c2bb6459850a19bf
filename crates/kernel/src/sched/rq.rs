// SPDX-License-Identifier: GPL-2.0-only
//! The runqueue of one CPU: its running task, its queued tasks and the accounting of its time.

use crate::sched::ext::core::ScxRq;
use crate::sched::fair::entity::FairRq;
use crate::sched::rt::queue::RtRq;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// A CPU's runqueue. The fields that every event touches come first, so that they lie in few host
/// cache lines.
#[repr(C, align(64))]
pub struct Rq {
    /// Time up to which the CPU's time has been accounted (rq_clock), ns.
    pub clock: u64,
    /// Kernel and policy work that was charged to this CPU and not yet worked off, ns. The running
    /// task makes no progress until the debt is worked off.
    pub debt: u64,
    /// Charged BPF time that is less than a nanosecond, ps.
    pub carry_ps: u64,
    /// Work that a task does here per ns: the capacity, less what busy siblings take.
    pub speed: u64,
    /// Task time since `clock` for which the running task's work was already done, at other speeds
    /// than now, ns.
    pub progressed: u64,
    pub curr: TaskId,
    /// Generation number of the pending Tick event. Events of older generations are ignored.
    pub tick_generation: u32,
    /// Number of queued tasks of all classes, including the running task.
    pub nr_running: u32,
    pub cpu: CpuId,
    pub online: bool,
    /// Whether schedule() must run on this CPU soon. Another CPU that sets it also sends an IPI.
    pub need_resched: bool,
    /// Whether a reschedule IPI is waking the CPU from idle. The IPI's latency then includes the
    /// idle exit.
    pub leaving_idle: bool,
    /// Whether a reschedule IPI is deferred until the CPU has finished its kernel work.
    pub resched_deferred: bool,
    /// Whether the CPU spins in the kernel until other CPUs have rescheduled (SCX_KICK_WAIT). Its
    /// task makes no progress.
    pub spinning: bool,
    pub tick_armed: bool,
    /// Work that the CPU does per ns at its frequency while its siblings are idle; 1024 on the
    /// machine's fastest CPU.
    pub capacity: u64,
    /// End of the device interrupt that the CPU is handling. Other interrupts, including the
    /// timer's, wait until then.
    pub irqs_off_until: u64,
    pub time: CpuTime,
    pub nr_switches: u64,
    /// Time at which the CPU last became idle.
    pub idle_since: u64,
    /// Overhead that `Overhead` records have already reported, ns.
    pub recorded_overhead_ns: u64,
    /// Deferred reschedule IPIs: the time at which they are handled, ns, and their number.
    pub deferred_ipis: Vec<(u64, u32)>,
    pub ext: ScxRq,
    pub rt: RtRq,
    pub fair: FairRq,
}

/// A CPU's time by use, ns. The parts add up to the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub tasks_ns: u64,
    pub idle_ns: u64,
    /// Time used for scheduling: core, policy, switches, ticks, IPIs and lock waits.
    pub overhead_ns: u64,
    /// Time during which the CPU was offline.
    pub offline_ns: u64,
}

impl CpuTime {
    pub fn total(&self) -> u64 {
        self.tasks_ns + self.idle_ns + self.overhead_ns + self.offline_ns
    }
}

impl Rq {
    /// Returns the number of reschedule IPIs that arrive at `now`: the IPIs deferred until `now`,
    /// or one if none was deferred.
    pub fn take_deferred_ipis(&mut self, now: u64) -> u32 {
        let deferred = self.deferred_ipis.iter().position(|&(at, _)| at == now);
        deferred.map_or(1, |place| self.deferred_ipis.swap_remove(place).1)
    }

    pub fn new(cpu: CpuId, capacity: u64) -> Rq {
        Rq {
            capacity,
            speed: capacity,
            progressed: 0,
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
            recorded_overhead_ns: 0,
            nr_switches: 0,
        }
    }

    pub fn idle(&self) -> bool {
        self.curr == IDLE
    }
}
