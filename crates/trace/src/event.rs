// SPDX-License-Identifier: GPL-2.0-only
//! The closed set of events. Tasks are named by pid, 0 is the idle task.

/// What a task is in when it is switched out (`prev_state` of sched_switch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Still runnable: preempted, yielded or out of slice.
    Running,
    /// TASK_INTERRUPTIBLE
    Interruptible,
    /// TASK_UNINTERRUPTIBLE (block I/O)
    Uninterruptible,
    /// Exiting.
    Dead,
}

/// How far a task was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrateReason {
    /// select_task_rq at wake-up
    Wakeup,
    /// select_task_rq at fork
    Fork,
    /// select_task_rq at exec
    Exec,
    /// Pulled or pushed by a balancer, or moved between CPUs by a policy's dispatch
    Balance,
    /// Affinity change or hotplug
    Affinity,
}

// The kind as a byte of its own, not hidden in a text's length: every sink looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A task exists from now on. `prio` is the kernel's 0..139 (nice 0 = 120).
    TaskNew {
        pid: u32,
        tgid: u32,
        parent: u32,
        prio: i32,
        comm: String,
    },
    /// sched_process_exec / task_rename
    TaskRename {
        pid: u32,
        comm: String,
    },
    TaskExit {
        pid: u32,
    },
    /// sched_switch on `Record::cpu`.
    Switch {
        prev: u32,
        prev_state: TaskState,
        next: u32,
    },
    /// sched_waking: `Record::cpu` is the waker's CPU; `waker` 0: an interrupt, a timer's or a device's.
    Waking {
        pid: u32,
        waker: u32,
    },
    /// sched_wakeup / sched_wakeup_new: the task is queued; `target` is its CPU.
    Wakeup {
        pid: u32,
        target: u32,
        new: bool,
    },
    /// sched_migrate_task
    Migrate {
        pid: u32,
        from: u32,
        to: u32,
        reason: MigrateReason,
    },
    /// A task's nice, policy or weight changed; `prio` as above.
    Prio {
        pid: u32,
        prio: i32,
    },
    /// The CPU came online or went offline.
    Hotplug {
        online: bool,
    },
    /// Time the kernel and the policy took on `Record::cpu`, ns, since the last such record of this CPU.
    Overhead {
        ns: u64,
    },
    /// A policy callback ended. `op` indexes the run's callback name table. It began `after` ns past the record's time, which is
    /// when the kernel was entered, and took `ns`, with the callbacks and waits within it; `insns` are its own.
    Callback {
        op: u16,
        insns: u32,
        after: u32,
        ns: u32,
    },
    /// An IPI was sent from `Record::cpu`.
    Ipi {
        target: u32,
    },
    /// A lock was waited for, from `after` ns past the record's time on. `lock` numbers the locks of a run.
    LockWait {
        lock: u32,
        after: u32,
        ns: u64,
    },
    /// What a lock is called; comes before its first wait.
    LockName {
        lock: u32,
        name: String,
    },
    /// So many tasks are on a DSQ now: a policy's by its id, a built-in one by [`built_in_dsq`].
    DsqLength {
        dsq: u64,
        nr: u32,
    },
    /// Tasks moved by one run of a balancer.
    Balance {
        moved: u32,
    },
    /// Work::Begin and Work::Done of programs: operations completed, and the response time of a request (0 if none was begun).
    Done {
        pid: u32,
        count: u32,
        response_ns: u64,
    },
    /// An rt-app phase starts.
    Phase {
        pid: u32,
        phase: u32,
    },
    /// A line from bpf_printk.
    Printk {
        text: String,
    },
    /// The policy was loaded (`true`) or has ended (`false`).
    Policy {
        loaded: bool,
    },
}

impl Event {
    /// Detail records tell of work inside one decision. A run makes them only for those who want them, so they are no part of
    /// the trace hash; what they do shows in the times of all others.
    #[inline]
    pub fn is_detail(&self) -> bool {
        matches!(
            self,
            Event::Callback { .. } | Event::LockWait { .. } | Event::LockName { .. } | Event::DsqLength { .. }
        )
    }
}

/// SCX_DSQ_FLAG_BUILTIN
const BUILT_IN: u64 = 1 << 63;

/// The number in records of a built-in DSQ: its kind's id (`SCX_DSQ_LOCAL`), and which of them by CPU or node.
pub fn built_in_dsq(id: u64, which: u32) -> u64 {
    debug_assert!(id & BUILT_IN != 0 && id & !BUILT_IN < 8);
    id | u64::from(which) << 8
}

/// What a DSQ of records is called: `local 3` (of CPU 3), `bypass 3`, `global 0` (of node 0), `dsq 7`.
pub fn dsq_name(dsq: u64) -> String {
    let which = (dsq & !BUILT_IN) >> 8;
    match (dsq & BUILT_IN != 0, dsq & 7) {
        (true, 1) => format!("global {which}"),
        (true, 2) => format!("local {which}"),
        (true, 3) => format!("bypass {which}"),
        _ if dsq < 1 << 20 => format!("dsq {dsq}"),
        _ => format!("dsq {dsq:#x}"),
    }
}

/// An event with its time (ns since the run's start) and CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub time: u64,
    pub cpu: u32,
    pub event: Event,
}

/// Takes records in time order, a batch at a time.
pub trait Sink {
    fn take(&mut self, records: &[Record]);
}
