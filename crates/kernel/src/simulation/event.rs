// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of events, such as interrupts and the expiry of timers.

use crate::simulation::id::{CpuId, Server, TaskId};

/// Value of a time field that contains no time. It is later than any time.
pub const NEVER: u64 = u64::MAX;

/// An event that will be handled at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The running task of the CPU has finished its current work. If more work was charged to the
    /// CPU after the event had been scheduled, the event is scheduled again.
    Step { cpu: CpuId },
    /// A reschedule IPI arrives at the CPU.
    Resched { cpu: CpuId },
    /// A reschedule of the CPU was deferred until the end of its kernel work. This work is now
    /// done.
    WorkDone { cpu: CpuId },
    /// An IPI arrives that announces tasks on the CPU's wake list.
    Wakeups { cpu: CpuId },
    /// A scheduler tick of the CPU is due.
    Tick { cpu: CpuId, generation: u32 },
    /// The high-resolution tick of the CPU is due, because the slice of the running fair task ends.
    Hrtick { cpu: CpuId },
    /// An IPI arrives that makes the CPU start its high-resolution tick.
    HrtickStart { cpu: CpuId },
    /// A period of a cgroup's limit (cpu.max) ends.
    CfsPeriod { group: u32, generation: u32 },
    /// Runtime that CPUs returned to the pool of a cgroup (cpu.max) is distributed to its throttled
    /// queues.
    CfsSlack { group: u32, generation: u32 },
    /// An IPI arrives that asks the CPU to unthrottle queues of limited cgroups (cpu.max).
    CfsUnthrottle { cpu: CpuId },
    /// A timer or I/O of a sleeping task completes.
    Wake { task: TaskId, generation: u32 },
    /// A task of the workload is created.
    Spawn { index: u32, parent: TaskId, thread: bool },
    /// A BPF timer fires. `timer` is its index in the machine's table of timers.
    BpfTimer { timer: u32, generation: u32 },
    /// The sched_ext watchdog looks for tasks that have not run for too long.
    Watchdog,
    /// A disturbance of the workload takes place, such as an interrupt or a change of a cgroup.
    /// `index` is its index in the workload's list.
    Disturb { index: u32 },
    /// An interrupt of the background work arrives. `source` is its index in `Noise::interrupts`.
    Noise { source: u32 },
    /// The CPUs of a frequency domain change to the frequency that schedutil requested. `domain` is
    /// its index in `Schedutil::domains`.
    Frequency { domain: u32 },
    /// An IPI arrives that starts the tick of the CPU again (NO_HZ_FULL).
    TickKick { cpu: CpuId },
    /// A housekeeping CPU does the work of the tick for a CPU whose tick is stopped (NO_HZ_FULL).
    RemoteTick { cpu: CpuId },
    /// A CPU goes online or offline.
    Hotplug { cpu: CpuId, online: bool },
    /// A request for hotplug that has waited may be served now.
    HotplugWait,
    /// An IPI arrives that makes the CPU do nohz idle balancing or start its stopper thread.
    NohzBalance { cpu: CpuId },
    /// The stopper moves the running real-time task of a CPU away.
    RtPush { cpu: CpuId },
    /// The timer of one of a CPU's deadline servers fires.
    DlServer { cpu: CpuId, server: Server },
    /// Deferred sched_ext work of a CPU is due (irq_work, deferred local DSQ moves).
    ExtDeferred { cpu: CpuId },
    /// The timer that drives the rescues of the CPU fires (`sched::ext::rescue`).
    ExtRescue { cpu: CpuId },
    /// Work for the program outside of the simulator is due on the CPU, for example to wake a
    /// thread that waits for a ring buffer.
    Native { cpu: CpuId },
    /// The turn of a CPU ends (`hardware::turns`).
    Turn { generation: u32 },
    /// A suspended handler continues, unless it has already done so (`sched::overlap`).
    Resume { slot: u32, generation: u32 },
}

impl Event {
    /// Returns whether the event can make a task runnable.
    pub(super) fn wakes(&self) -> bool {
        matches!(
            self,
            Event::Wake { .. }
                | Event::Wakeups { .. }
                | Event::Spawn { .. }
                | Event::Native { .. }
                | Event::CfsPeriod { .. }
                | Event::CfsSlack { .. }
                | Event::CfsUnthrottle { .. }
        )
    }
}
