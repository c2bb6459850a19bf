// SPDX-License-Identifier: GPL-2.0-only
//! The runqueue of a CPU: its running task, its queued tasks, and the accounting of its time.
//!
//! The simulator executes kernel code and BPF code in zero simulated time. It adds the cost of the
//! code to the CPU's debt, and the CPU then spends simulated time until its debt is 0
//! (`cost::charge`).

use crate::sched::class::state::Class;
use crate::sched::deadline::state::DlServers;
use crate::sched::ext::state::core::ScxRq;
use crate::sched::fair::state::entity::FairRq;
use crate::sched::rt::state::queue::RtRq;
use crate::simulation::event::NEVER;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use trace::Slowdown;

/// A CPU's runqueue. The fields that every simulated event uses come first, so that an event
/// accesses few cache lines of the host.
#[repr(C, align(64))]
pub struct Rq {
    /// Time up to which the CPU's time has been accounted (rq_clock), ns.
    pub clock: u64,
    /// Time at which the CPU will have finished the kernel and BPF code that was executed on it,
    /// ns. The difference to `clock` is the CPU's debt. The running task makes no progress until
    /// the debt is 0. This time is never before `clock`.
    pub free_at: u64,
    /// Part of the debt that is not added to the runtime of the running task, ns. One part of it
    /// was already charged to a task. No task is charged for the rest, for example for interrupts
    /// if the kernel accounts their time separately. The CPU spends time on `charged` before the
    /// other debt.
    pub charged: u64,
    /// Time that the running task has run and that is not part of its runtime yet, ns.
    pub uncharged: u64,
    /// BPF execution time, less than 1 ns, that has not been added to the debt yet, ps.
    pub carry_ps: u64,
    /// Work that a task does on this CPU per ns. It is `capacity`, reduced if other busy CPUs slow
    /// this CPU (`hardware::smt`) or if the task waits for caches and memory (`hardware::memory`).
    pub speed: u64,
    /// Part of the time since `clock` for which the running task's progress has already been
    /// recorded, ns. Progress is recorded early whenever `speed` changes.
    pub progressed: u64,
    pub curr: TaskId,
    /// Highest class among those of `curr` and of the tasks that have become runnable since the CPU
    /// picked `curr`. While the CPU picks a task, this is the class that is being asked for a task.
    pub next_class: Class,
    /// Generation number of the pending Tick event. Events of older generations are ignored.
    pub tick_generation: u32,
    /// Number of queued tasks of all classes, including the running task and delayed sleepers.
    pub nr_running: u32,
    pub cpu: CpuId,
    pub online: bool,
    /// Whether schedule() must run on this CPU soon. If another CPU sets this, it also sends an
    /// IPI.
    pub need_resched: bool,
    /// Whether schedule() must run when the CPU next returns to user space, or at the next tick
    /// (TIF_NEED_RESCHED_LAZY). No IPI is sent for it.
    pub need_resched_lazy: bool,
    /// CPU that the last search on this CPU for any CPU of a mask has found.
    pub(crate) distribute_cpu_mask_prev: CpuId,
    /// Whether a reschedule is deferred until the CPU has finished its kernel work. Other CPUs send
    /// no further IPI meanwhile, as in Linux, where `need_resched` stays set.
    pub resched_deferred: bool,
    /// Whether the CPU spins in the kernel until other CPUs have rescheduled (SCX_KICK_WAIT). While
    /// it spins, the running task makes no progress.
    pub spinning: bool,
    /// Whether the stopper thread has interrupted `curr`, which has already been put back into its
    /// queue.
    pub(crate) stopping: bool,
    /// Whether schedule() runs because a reschedule was requested.
    pub(crate) rescheduling: bool,
    /// Whether the next schedule() does not update the clock (RQCF_REQ_SKIP). Only on a stepped machine.
    pub(crate) skip_clock: bool,
    /// Whether the current task sleeps without an update of the clock, so load averages change up to
    /// `clock_updated`.
    pub(crate) clock_lags: bool,
    /// Time of the last update of the clock outside of ticks. Only scripts use it.
    pub(crate) clock_updated: u64,
    /// Whether `curr` has left its queue since the stopper has interrupted it, and has been queued on
    /// this CPU again.
    pub(crate) returned: bool,
    /// Whether `curr` has left the CPU, because stop_machine() has stopped it.
    pub(crate) departed: bool,
    pub tick_armed: bool,
    /// Whether timers of the CPU expire only at ticks, because it has had no tick since it came online
    /// (hrtimer_switch_to_hres). Only scripts use it.
    pub(crate) coarse_timers: bool,
    /// Work that the CPU does per ns at its frequency while the other hardware threads of its core
    /// are idle. It is 1024 on the machine's fastest CPU.
    pub capacity: u64,
    /// Capacity at the CPU's frequency as the kernel knows it. The load averages are scaled by it.
    pub known_capacity: u64,
    /// End of the device interrupt that the CPU is handling. Other interrupts, including the
    /// timer's, wait until then.
    pub irqs_off_until: u64,
    /// Time of the CPU's last timer interrupt, ns, or [`NEVER`].
    pub timer_irq_at: u64,
    /// Woken tasks that this CPU will add to its queues itself (TTWU_QUEUE).
    pub wake_list: Vec<Waking>,
    pub time: CpuTime,
    pub nr_switches: u64,
    /// Time at which the CPU last became idle; 0 if it has been idle since the kernel started.
    pub idle_since: u64,
    /// Overhead that has already been reported in `Overhead` trace records, ns.
    pub recorded_overhead_ns: u64,
    /// Time that the running task has lost to each [`trace::Slowdown`] since it got the CPU, in
    /// ns/1024. Counted only if detail records are wanted.
    pub slowed: [u64; Slowdown::Kernel as usize],
    /// Value of `time.overhead_ns` at the last switch, if detail records are wanted.
    pub switch_overhead_ns: u64,
    /// Time of the pending event for a deferred reschedule, ns, or [`NEVER`].
    pub resched_event_at: u64,
    pub ext: ScxRq,
    pub servers: DlServers,
    pub rt: RtRq,
    pub fair: FairRq,
}

/// How a CPU entered the kernel for the current handler.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    /// Debt of the CPU when an interrupt began, ns. `None` if the handler is not an interrupt.
    pub irq_from: Option<u64>,
    /// Whether the CPU returns to user space at the end of the handler: the running task made a
    /// system call, or it was interrupted in user space. A lazy reschedule request takes effect
    /// then.
    pub to_user: bool,
}

/// A task on the wake list of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Waking {
    pub(crate) task: TaskId,
    /// Whether the task comes from another CPU (`p->sched_remote_wakeup`).
    pub(crate) migrated: bool,
}

/// Uses of a CPU's time, ns. The sum of all fields is the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub tasks_ns: u64,
    pub idle_ns: u64,
    /// Time spent on scheduling: the scheduler core, the BPF scheduler, context switches, ticks,
    /// IPIs and waits for locks. As in Linux, most of it also counts as runtime of tasks.
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
    /// Returns whether schedule() will run on this CPU soon.
    pub fn resched_pending(&self) -> bool {
        self.need_resched || self.resched_deferred
    }

    pub(crate) fn new(cpu: CpuId, capacity: u64, known_capacity: u64) -> Rq {
        Rq {
            capacity,
            known_capacity,
            speed: capacity,
            progressed: 0,
            cpu,
            online: true,
            curr: IDLE,
            next_class: Class::Idle,
            need_resched: false,
            need_resched_lazy: false,
            distribute_cpu_mask_prev: CpuId::BOOT,
            resched_deferred: false,
            resched_event_at: NEVER,
            spinning: false,
            stopping: false,
            rescheduling: false,
            skip_clock: false,
            clock_lags: false,
            clock_updated: 0,
            returned: false,
            departed: false,
            nr_running: 0,
            servers: Default::default(),
            rt: Default::default(),
            fair: Default::default(),
            ext: Default::default(),
            clock: 0,
            free_at: 0,
            charged: 0,
            uncharged: 0,
            carry_ps: 0,
            tick_generation: 0,
            tick_armed: false,
            coarse_timers: false,
            irqs_off_until: 0,
            timer_irq_at: NEVER,
            wake_list: Vec::new(),
            idle_since: 1,
            time: CpuTime::default(),
            recorded_overhead_ns: 0,
            slowed: [0; Slowdown::Kernel as usize],
            switch_overhead_ns: 0,
            nr_switches: 0,
        }
    }

    /// Cost of kernel and BPF code that was executed on this CPU and for which the CPU has not
    /// spent simulated time yet, ns.
    #[inline]
    pub fn debt(&self) -> u64 {
        self.free_at - self.clock
    }

    pub fn set_debt(&mut self, ns: u64) {
        self.free_at = self.clock + ns;
    }

    pub fn idle(&self) -> bool {
        self.curr == IDLE
    }
}
