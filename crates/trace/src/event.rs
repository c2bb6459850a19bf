// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of events that a run can record. Events identify tasks by pid. Pid 0 is the idle task.
//!
//! Detail records are records of events inside one scheduling decision. They exist only if they are
//! requested.

/// State of a task when a CPU switches from it to another task (`prev_state` of the sched_switch
/// tracepoint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Still runnable: the task was preempted, yielded or has used up its slice.
    Running,
    /// TASK_INTERRUPTIBLE
    Interruptible,
    /// TASK_UNINTERRUPTIBLE (block I/O)
    Uninterruptible,
    /// Exiting.
    Dead,
}

/// Reason why a task was moved to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrateReason {
    /// select_task_rq at wake-up
    Wakeup,
    /// select_task_rq at fork
    Fork,
    /// select_task_rq at exec
    Exec,
    /// Pulled or pushed by load balancing, or moved to another CPU by a policy's dispatch.
    Balance,
    /// Affinity change or hotplug
    Affinity,
}

/// Reason why a task needs a CPU for longer than it would need the fastest CPU of the machine, alone
/// on its core, with its data in the cache and without the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slowdown {
    /// The CPU is slower than the fastest one, for example an E core.
    Capacity,
    /// The CPU does not run at its highest frequency.
    Frequency,
    /// Other hardware threads of the core are busy.
    Siblings,
    /// The task's memory is remote, or it shares a cache or the memory's bandwidth with others.
    Memory,
    /// After a switch, the task's data is loaded into the caches again.
    Reload,
    /// The kernel and the policy use the CPU, including their waits for locks.
    Kernel,
}

impl Slowdown {
    pub const ALL: [Slowdown; 6] = [
        Slowdown::Capacity,
        Slowdown::Frequency,
        Slowdown::Siblings,
        Slowdown::Memory,
        Slowdown::Reload,
        Slowdown::Kernel,
    ];
}

/// Value of `parent` for kernel threads of the background work (noise). No task has this pid.
pub const KTHREADD: u32 = u32::MAX;

// The kind of event. Every sink (consumer of records) branches on it. `repr(u8)` makes this fast,
// because the kind is then stored in a byte of its own. By default, Rust encodes the kind in unused
// values of another field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A task was created. `prio` is the kernel's priority from 0 to 139. Nice 0 is 120. `parent`
    /// is 0 if the workload started the task, and [`KTHREADD`] if the task is background work.
    TaskNew {
        pid: u32,
        tgid: u32,
        parent: u32,
        prio: i32,
        comm: String,
    },
    /// A task changed its name (sched_process_exec, task_rename).
    TaskRename { pid: u32, comm: String },
    /// A task exited.
    TaskExit { pid: u32 },
    /// `Record::cpu` switched from task `prev` to task `next` (sched_switch).
    Switch {
        prev: u32,
        prev_state: TaskState,
        next: u32,
    },
    /// Task `waker` is about to wake task `pid` (sched_waking). `Record::cpu` is the waker's CPU.
    /// `waker` is 0 if an interrupt handler wakes the task.
    Waking { pid: u32, waker: u32 },
    /// A woken or new task was put on the runqueue of CPU `target` (sched_wakeup,
    /// sched_wakeup_new).
    Wakeup { pid: u32, target: u32, new: bool },
    /// A task moved to another CPU (sched_migrate_task).
    Migrate {
        pid: u32,
        from: u32,
        to: u32,
        reason: MigrateReason,
    },
    /// A task's nice value, scheduling policy or weight changed. `prio` is as in `TaskNew`.
    Prio { pid: u32, prio: i32 },
    /// `Record::cpu` came online or went offline.
    Hotplug { online: bool },
    /// On `Record::cpu`, the kernel and the policy used `ns` nanoseconds since the previous
    /// `Overhead` record of this CPU.
    Overhead { ns: u64 },
    /// A callback of the policy returned. `op` is an index into
    /// [`Header::ops`](crate::Header::ops). The callback began at the record's time plus `after`
    /// and took `ns`. `ns` includes nested callbacks and lock waits. `insns` counts only the
    /// instructions of this callback itself.
    Callback { op: u16, insns: u32, after: u32, ns: u32 },
    /// `Record::cpu` sent an inter-processor interrupt (IPI) to CPU `target`.
    Ipi { target: u32 },
    /// `Record::cpu` waited `ns` for a lock. The wait began at the record's time plus `after`.
    /// `lock` is the lock's number within the run.
    LockWait { lock: u32, after: u32, ns: u64 },
    /// Name of a lock. This record precedes the first record of a wait for the lock.
    LockName { lock: u32, name: String },
    /// A dispatch queue (DSQ) now contains `nr` tasks. `dsq` is the id of a policy's DSQ, or the
    /// number that [`built_in_dsq`] returns for a built-in DSQ.
    DsqLength { dsq: u64, nr: u32 },
    /// Since task `pid` got `Record::cpu`, `ns` nanoseconds of its time there were lost to one kind
    /// of slowdown. The record precedes the switch away from the task.
    Slowed { pid: u32, by: Slowdown, ns: u64 },
    /// Load balancing ran and moved this many tasks.
    Balance { moved: u32 },
    /// The program of a task completed `count` operations (`Op::Done`). `response_ns` is the time
    /// since its request began (`Op::Begin`), or 0 if no request had begun.
    Done { pid: u32, count: u32, response_ns: u64 },
    /// A task entered another phase of its rt-app program.
    Phase { pid: u32, phase: u32 },
    /// The policy printed a line with bpf_printk.
    Printk { text: String },
    /// The policy was loaded (`true`) or ended (`false`).
    Policy { loaded: bool },
}

impl Event {
    /// Returns whether the event describes work inside one scheduling decision. Such detail records
    /// exist only if a sink requests them, so they are not part of the trace hash. The other
    /// records already include the time that such work takes.
    #[inline]
    pub fn is_detail(&self) -> bool {
        matches!(
            self,
            Event::Callback { .. }
                | Event::LockWait { .. }
                | Event::LockName { .. }
                | Event::DsqLength { .. }
                | Event::Slowed { .. }
        )
    }
}

/// SCX_DSQ_FLAG_BUILTIN
const BUILT_IN: u64 = 1 << 63;

/// Returns the number that records use for a built-in DSQ. `id` is the id of the kind of DSQ (such
/// as `SCX_DSQ_LOCAL`). `owner` is the CPU or node of the DSQ.
pub fn built_in_dsq(id: u64, owner: u32) -> u64 {
    debug_assert!(id & BUILT_IN != 0 && id & !BUILT_IN < 8);
    id | u64::from(owner) << 8
}

/// Returns the name of a DSQ in records: `local 3` (of CPU 3), `bypass 3` (of CPU 3), `global 0`
/// (of node 0), or `dsq 7` (of a policy).
pub fn dsq_name(dsq: u64) -> String {
    let owner = (dsq & !BUILT_IN) >> 8;
    match (dsq & BUILT_IN != 0, dsq & 7) {
        (true, 1) => format!("global {owner}"),
        (true, 2) => format!("local {owner}"),
        (true, 3) => format!("bypass {owner}"),
        _ if dsq < 1 << 20 => format!("dsq {dsq}"),
        _ => format!("dsq {dsq:#x}"),
    }
}

/// An event with its CPU and its time.
///
/// A simulated CPU handles an event at one instant, `time`, and is then charged for the time of the
/// work that the event causes. The CPU's own clock, [`Record::local_time`], is therefore ahead of
/// `time` by the time that was charged so far. The records of a run are ordered by `time`. The
/// records of one CPU are also ordered by their local times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time in ns since the start of the run at which the kernel was entered.
    pub time: u64,
    pub cpu: u32,
    /// Time in ns by which the local time of `cpu` is ahead of `time`. It is 0 in recordings of a
    /// real kernel, because their times are local times.
    pub after: u32,
    pub event: Event,
}

impl Record {
    /// Returns the local time of the CPU in ns. A tracepoint on a real machine would report this
    /// time.
    #[inline(always)]
    pub fn local_time(&self) -> u64 {
        self.time + u64::from(self.after)
    }
}

/// A consumer of records. It receives the records in batches, ordered by time.
pub trait Sink {
    fn take(&mut self, records: &[Record]);
}
