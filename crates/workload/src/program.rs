// SPDX-License-Identifier: GPL-2.0-only
//! The vocabulary of tasks.

use crate::disturbance::Disturbance;

/// Index into [`Workload::programs`].
pub type ProgramId = u32;
/// Index into [`Workload::resources`].
pub type ResourceId = u32;
/// Index into [`Workload::tasks`].
pub type TaskId = u32;

/// The phase with which the measurement begins: throughput and score leave out what was before.
pub const MEASURED: u32 = u32::MAX;

/// A length of time in ns, fixed or drawn from the machine's seeded generator at each use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dist {
    Fixed(u64),
    /// Uniform in `lo..=hi`.
    Uniform {
        lo: u64,
        hi: u64,
    },
    Exponential {
        mean: u64,
    },
    /// Two exponentials: `mean_a` with a probability of `permille_a`/1000, else `mean_b`.
    HyperExponential {
        permille_a: u32,
        mean_a: u64,
        mean_b: u64,
    },
    /// Bounded Pareto with shape `alpha_milli`/1000.
    Pareto {
        lo: u64,
        hi: u64,
        alpha_milli: u32,
    },
    /// Values in turn, starting again at the end; position is kept per task and op.
    Trace(Vec<u64>),
}

/// SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE, SCHED_EXT, SCHED_FIFO, SCHED_RR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nice -20..=19.
    Normal {
        nice: i32,
    },
    Batch {
        nice: i32,
    },
    Idle,
    Ext {
        nice: i32,
    },
    /// SCHED_DEADLINE, before all others; its program keeps to its runtime by itself. Only disturbances have it.
    Deadline,
    /// rt_priority 1..=99, 99 highest.
    Fifo {
        rt_priority: u32,
    },
    RoundRobin {
        rt_priority: u32,
    },
}

/// One step of a program. Steps take no time but what they say and what the kernel charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compute: ns of work at capacity 1024; slower CPUs take longer.
    Run(Dist),
    /// Stay on the CPU until this many ns of CPU time were used, whatever the CPU's speed (rt-app `runtime`).
    Runtime(Dist),
    /// Sleep for a time.
    Sleep(Dist),
    /// Sleep until `period` after the last expiry of this task's timer `timer` (rt-app `timer`). `absolute`: missed
    /// expiries are made up for; otherwise the timer restarts from now when it was missed. A timer first used starts now.
    Timer {
        timer: u32,
        period: u64,
        absolute: bool,
    },
    /// Sleep until a length drawn anew has passed since the last expiry of timer `timer`, as an absolute [`Op::Timer`]:
    /// arrivals that what the task does in between does not delay.
    Interval {
        timer: u32,
        length: Dist,
    },
    /// Write through `bytes` of memory, then go on (rt-app `mem`).
    Mem {
        bytes: u64,
    },
    /// Write `bytes` to a block device and wait for it (rt-app `iorun`).
    Io {
        bytes: u64,
    },
    Lock(ResourceId),
    Unlock(ResourceId),
    /// pthread_cond_wait on a condition, releasing and re-taking the mutex.
    CondWait {
        cond: ResourceId,
        mutex: ResourceId,
    },
    Signal(ResourceId),
    Broadcast(ResourceId),
    /// rt-app `sync`: signal the condition, then wait on it.
    Sync {
        cond: ResourceId,
        mutex: ResourceId,
    },
    Barrier(ResourceId),
    SemPost(ResourceId),
    SemWait(ResourceId),
    /// Stop until some task resumes this resource (rt-app `suspend`); at once if it was resumed before, once.
    Suspend(ResourceId),
    Resume(ResourceId),
    /// Write `bytes` as one message to a pipe or socket; blocks while it is full.
    Send {
        channel: ResourceId,
        bytes: u32,
    },
    /// Read one message; blocks while there is none.
    Recv(ResourceId),
    Yield,
    /// Create a task as `Workload::tasks[task]` describes it (its `start_ns` counts from now). A thread shares the
    /// parent's process.
    Fork {
        task: TaskId,
        thread: bool,
    },
    /// Wait until all children of this task have exited.
    WaitChildren,
    /// Wait until at most `left` children of this task have not exited.
    WaitChild {
        left: u32,
    },
    /// Replace the process image: the exec placement and tracepoint happen, the task gets this name.
    Exec {
        comm: String,
    },
    Exit,
    /// Change the own affinity; `None` = all CPUs.
    SetAffinity(Option<Vec<u32>>),
    SetPolicy(Policy),
    /// Move to a cgroup: index into [`Workload::cgroups`].
    SetCgroup(u32),
    /// A request starts here: response time counts from now (or from when the task was created, if `arrival`).
    Begin {
        arrival: bool,
    },
    /// A request starts here: response time counts from when the task was woken last.
    BeginWoken,
    /// `count` operations were completed; ends the request begun last.
    Done {
        count: u32,
    },
    /// The next phase of an rt-app program starts (for reports only), or what is [`MEASURED`].
    Phase(u32),
    /// Set loop counter `counter` to 0. Counters are per task.
    LoopInit {
        counter: u32,
    },
    /// Count `counter` up; jump to `target` while it is below `times` (None: always).
    LoopBack {
        counter: u32,
        times: Option<u64>,
        target: u32,
    },
}

/// The steps of a task; past the last one the task exits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    pub ops: Vec<Op>,
    /// Loop counters used.
    pub counters: u32,
}

/// What messages pass through: which functions a policy may trace, when writers are told of room, and what messages cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    #[default]
    Pipe,
    /// AF_UNIX.
    Socket,
    /// A TCP connection within the host, with Nagle's algorithm: what is sent before the reader has read all is sent together.
    Tcp,
}

/// Something tasks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    Mutex {
        name: String,
        priority_inheritance: bool,
    },
    Cond {
        name: String,
    },
    Barrier {
        name: String,
        participants: u32,
    },
    Semaphore {
        name: String,
        value: u32,
    },
    Suspend {
        name: String,
    },
    /// The buffer of a pipe or socket, of `capacity` bytes.
    Channel {
        name: String,
        capacity: u64,
        kind: Channel,
    },
}

/// A task to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// At most 15 bytes are kept, as in the kernel.
    pub comm: String,
    pub program: ProgramId,
    pub policy: Policy,
    /// Allowed CPUs; `None` = all.
    pub cpus: Option<Vec<u32>>,
    /// The CPU it is created on (the creator's); `None`: round robin over allowed CPUs.
    pub start_cpu: Option<u32>,
    /// Creation time in ns after the workload's start, or after the fork that creates it.
    pub start_ns: u64,
    /// Tasks with the same process index are threads of one process.
    pub process: u32,
    /// Index into [`Workload::cgroups`].
    pub cgroup: u32,
    /// Created at the workload's start; otherwise only a template for [`Op::Fork`].
    pub spawn: bool,
    /// Working set in bytes, for cache reload costs; 0 = negligible.
    pub footprint_bytes: u64,
}

/// A cgroup; index 0 is always the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Path, "/" for the root.
    pub path: String,
    /// cpu.weight, 1..=10000, default 100.
    pub weight: u32,
}

/// What the result of a workload is, in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Score {
    /// Operations ([`Workload::unit`]) per second; more is better.
    #[default]
    OperationsPerSecond,
    /// Time until all tasks have exited.
    CompletionTime,
    /// Time of the run divided by the operations done.
    TimePerOperation,
    /// Context switches per second; more is better.
    SwitchesPerSecond,
    /// Mean response time of the requests.
    MeanResponse,
}

/// Everything a machine is given to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub name: String,
    pub tasks: Vec<TaskSpec>,
    pub programs: Vec<Program>,
    pub resources: Vec<Resource>,
    pub cgroups: Vec<Cgroup>,
    /// In the order of time.
    pub disturbances: Vec<Disturbance>,
    /// What one completed operation is called in results: "messages", "requests", "loops".
    pub unit: String,
    pub score: Score,
    /// Simulated time it asks for; `None`: until all tasks have exited.
    pub duration_ns: Option<u64>,
}
