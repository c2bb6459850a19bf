// SPDX-License-Identifier: GPL-2.0-only
//! The runqueue of a CPU: its running task, its queued tasks, and how its time is accounted.

use crate::sched::ext::core::ScxRq;
use crate::sched::fair::entity::FairRq;
use crate::sched::rt::queue::RtRq;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// A CPU's runqueue. The fields that every event uses come first, so that an event accesses few
/// cache lines of the computer that runs the simulation.
#[repr(C, align(64))]
pub struct Rq {
    /// Time up to which the use of the CPU's time has been accounted (rq_clock), ns.
    pub clock: u64,
    /// Time of kernel and policy work that was charged to this CPU and that the CPU has not spent
    /// yet, ns. The running task makes no progress until this debt is 0.
    pub debt: u64,
    /// Fraction of a nanosecond of BPF execution time that has not been charged yet, ps.
    pub carry_ps: u64,
    /// Speed of the CPU at its current frequency; 1024 is full speed of the machine's fastest CPU.
    pub capacity: u64,
    pub curr: TaskId,
    /// Generation number of the pending Tick event. Tick events with another number are ignored.
    pub tick_generation: u32,
    /// Number of queued tasks of all classes, including the running task.
    pub nr_running: u32,
    pub cpu: CpuId,
    pub online: bool,
    /// Whether schedule() must run on this CPU soon. If another CPU sets this, it also sends an
    /// IPI.
    pub need_resched: bool,
    /// Whether a reschedule IPI has been sent that wakes the CPU from idle. The latency of that IPI
    /// includes the time to leave idle.
    pub leaving_idle: bool,
    /// Whether a reschedule IPI is deferred until the CPU has finished its kernel work.
    pub resched_deferred: bool,
    /// Whether the CPU spins in the kernel until other CPUs have rescheduled (SCX_KICK_WAIT). The
    /// running task makes no progress meanwhile.
    pub spinning: bool,
    pub tick_armed: bool,
    /// Time at which the handling of the current device interrupt ends. Other interrupts, including
    /// the timer interrupt, wait until then.
    pub irqs_off_until: u64,
    pub time: CpuTime,
    pub nr_switches: u64,
    /// Time at which the CPU last became idle.
    pub idle_since: u64,
    /// Overhead that has already been reported in `Overhead` trace records, ns.
    pub recorded_overhead_ns: u64,
    /// Deferred reschedule IPIs: the time at which they will be handled, in ns, and how many they
    /// are.
    pub deferred_ipis: Vec<(u64, u32)>,
    pub ext: ScxRq,
    pub rt: RtRq,
    pub fair: FairRq,
}

/// How a CPU's time was used, ns. The sum of all parts is the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub tasks_ns: u64,
    pub idle_ns: u64,
    /// Time used for scheduling: the core, the policy, context switches, ticks, IPIs and waits for
    /// locks.
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
    /// Returns how many reschedule IPIs have to be handled at the time `now`. These are the IPIs
    /// that were deferred until `now`, or a single IPI if none was deferred until then.
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
            recorded_overhead_ns: 0,
            nr_switches: 0,
        }
    }

    pub fn idle(&self) -> bool {
        self.curr == IDLE
    }
}
