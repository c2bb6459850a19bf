// SPDX-License-Identifier: GPL-2.0-only
//! Types that describe a workload: tasks, their programs, and the resources they share.

use crate::disturbance::Disturbance;
use crate::task_specs::TaskSpecs;
use serde::Serialize;
use std::path::PathBuf;

/// Index into [`Workload::programs`].
pub type ProgramId = u32;
/// Index into [`Workload::resources`].
pub type ResourceId = u32;
/// Index into [`Workload::tasks`].
pub type TaskId = u32;

/// Phase number that starts the measurement. Throughput and score count only operations after it.
pub const MEASURED: u32 = u32::MAX;

/// A distribution of times in ns. Each use of a random distribution takes a new sample from the
/// machine's seeded random generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Dist {
    Fixed(u64),
    /// Uniformly distributed in `lo..=hi`.
    Uniform {
        lo: u64,
        hi: u64,
    },
    Exponential {
        mean: u64,
    },
    /// A mixture of two exponential distributions: with probability `permille_a`/1000 the one with
    /// mean `mean_a`, otherwise the one with mean `mean_b`.
    HyperExponential {
        permille_a: u32,
        mean_a: u64,
        mean_b: u64,
    },
    /// A bounded Pareto distribution with shape `alpha_milli`/1000.
    Pareto {
        lo: u64,
        hi: u64,
        alpha_milli: u32,
    },
    /// These values in order, starting again after the last one. Each step of each task keeps its
    /// own position in the list.
    Trace(Vec<u64>),
}

/// A scheduling policy: SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE, SCHED_EXT, SCHED_FIFO or SCHED_RR.
/// `nice` is -20..=19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SchedPolicy {
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
    /// SCHED_DEADLINE, which precedes all other policies. The simulated kernel does not limit the
    /// runtime of such tasks, so their programs must do so. Only tasks of disturbances have this
    /// policy. `bandwidth` is the reserved share of the CPU's time in 1/1024 (runtime / period).
    Deadline {
        bandwidth: u32,
    },
    /// rt_priority is 1..=99; 99 is the highest.
    Fifo {
        rt_priority: u32,
    },
    RoundRobin {
        rt_priority: u32,
    },
}

/// A step of a program. In addition to the time that a variant states, a step takes as long as the
/// kernel's work for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Op {
    /// Compute this many ns of work at capacity 1024. Slower CPUs take longer.
    Run(Dist),
    /// Run until this much CPU time is used, regardless of the CPU's speed (rt-app `runtime`).
    Runtime(Dist),
    /// Sleep for this long.
    Sleep(Dist),
    /// Sleep until `period` after the previous expiry of this task's timer `timer` (rt-app
    /// `timer`). If the task missed an expiry, an `absolute` timer keeps its original schedule. Any
    /// other timer is then restarted at the current time. A timer starts at its first use, not when
    /// the task is created: tasks with equal periods wake at the same time only if they first use
    /// their timers at the same time.
    Timer {
        timer: u32,
        period: u64,
        absolute: bool,
    },
    /// Sleep until a sampled length has passed since the previous expiry of timer `timer`, like an
    /// absolute [`Op::Timer`]. This models arrivals that the task's own work does not delay. The
    /// timer starts at its first use, except in background work.
    Interval {
        timer: u32,
        length: Dist,
    },
    /// Write to `bytes` of memory (rt-app `mem`).
    Mem {
        bytes: u64,
    },
    /// Write `bytes` to a block device and wait for completion (rt-app `iorun`).
    Io {
        bytes: u64,
    },
    Lock(ResourceId),
    Unlock(ResourceId),
    /// Release the mutex and wait for a condition, then acquire the mutex again
    /// (pthread_cond_wait).
    CondWait {
        cond: ResourceId,
        mutex: ResourceId,
    },
    Signal(ResourceId),
    Broadcast(ResourceId),
    /// Signal a condition, then wait for it (rt-app `sync`).
    Sync {
        cond: ResourceId,
        mutex: ResourceId,
    },
    Barrier(ResourceId),
    SemPost(ResourceId),
    SemWait(ResourceId),
    /// Wait until semaphore `from` is above 0 and take its whole value n. Then post semaphore `to`
    /// n times, one post after the other. All posts count as made at the time at which the value
    /// was taken ([`Op::BeginPosted`]). A server thus wakes all clients of a list, like the
    /// message threads of schbench.
    Relay {
        from: ResourceId,
        to: ResourceId,
    },
    /// Wait until another task resumes this resource. This is rt-app's `suspend`, except that a
    /// resume before the wait is not lost: the task then continues at once.
    Suspend(ResourceId),
    Resume(ResourceId),
    /// Write `bytes` as one message to a pipe or socket. Blocks while there is no room for it.
    Send {
        channel: ResourceId,
        bytes: u32,
    },
    /// Read one message. Blocks while the channel is empty.
    Recv(ResourceId),
    /// Wait until the channel has a message, and leave it there (poll).
    Poll(ResourceId),
    Yield,
    /// Continue the thread of a program outside of the simulator that this task stands for
    /// (a policy `exec:`), until the thread exits.
    Native,
    /// Create the task that `Workload::tasks[task]` describes. Its `start_ns` counts from this
    /// step. If `thread` is set, the task belongs to the parent's process.
    Fork {
        task: TaskId,
        thread: bool,
    },
    /// Wait until all of this task's children have exited.
    WaitChildren,
    /// Wait until at most `left` of this task's children are still running.
    WaitChild {
        left: u32,
    },
    /// Execute another program: the task gets this name and may be placed on another CPU, and the
    /// exec tracepoint fires.
    Exec {
        comm: String,
    },
    Exit,
    /// Change the task's own affinity; `None` allows all CPUs.
    SetAffinity(Option<Vec<u32>>),
    SetPolicy(SchedPolicy),
    /// Request a slice of this length in ns (sched_setattr() with sched_runtime). Only SCHED_OTHER,
    /// SCHED_BATCH and SCHED_EXT tasks may do this. The kernel limits the length to 0.1 to 100 ms;
    /// 0 requests the default slice.
    SetSlice(u64),
    /// Move the task to a cgroup, an index into [`Workload::cgroups`].
    SetCgroup(u32),
    /// Keep the task on its CPU until the matching [`Op::MigrateEnable`] (migrate_disable()). Nests.
    MigrateDisable,
    MigrateEnable,
    /// Begin a request. Its response time counts from this step, or from the creation of the task
    /// if `arrival` is set.
    Begin {
        arrival: bool,
    },
    /// Begin a request. Its response time counts from the task's last wake-up.
    BeginWoken,
    /// Begin a request. Its response time counts from the post of the semaphore that ended this
    /// task's last [`Op::SemWait`].
    BeginPosted,
    /// End the current request and count `count` completed operations.
    Done {
        count: u32,
    },
    /// Start the phase of an rt-app program with this number. Phases affect only reports, except
    /// that the phase [`MEASURED`] starts the measurement.
    Phase(u32),
    /// Set a loop counter to 0. Every task has its own counters.
    LoopInit {
        counter: u32,
    },
    /// Increment a loop counter, and jump to `target` if it is below `times`. If `times` is `None`,
    /// always jump.
    LoopBack {
        counter: u32,
        times: Option<u64>,
        target: u32,
    },
}

/// The steps of a task. The task exits after the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    pub ops: Vec<Op>,
    /// Number of loop counters that the steps use.
    pub counters: u32,
}

/// Kind of a channel. It determines the cost of a message, which of the waiting tasks are woken and
/// how, and the kernel functions that a policy can trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Channel {
    #[default]
    Pipe,
    /// An AF_UNIX stream socket.
    Socket,
    /// An AF_UNIX datagram socket.
    Datagram,
    /// A TCP connection within one host, with Nagle's algorithm: while sent data is unread, further
    /// data is collected and then transmitted together.
    Tcp,
    /// A counter that each message increments and each receive decrements (EFD_SEMAPHORE).
    Eventfd,
}

impl Channel {
    /// Kinds with their names in rt-app files.
    pub const NAMES: [(&'static str, Channel); 5] = [
        ("pipe", Channel::Pipe),
        ("socket", Channel::Socket),
        ("datagram", Channel::Datagram),
        ("tcp", Channel::Tcp),
        ("eventfd", Channel::Eventfd),
    ];

    /// Returns the kind's name in rt-app files.
    pub fn name(self) -> &'static str {
        let named = Channel::NAMES.iter().find(|(_, kind)| *kind == self);
        named.map_or("", |(name, _)| name)
    }

    /// Returns the kind that has the name `name` in rt-app files.
    pub fn named(name: &str) -> Option<Channel> {
        let named = Channel::NAMES.iter().find(|(other, _)| *other == name);
        named.map(|(_, kind)| *kind)
    }
}

/// A resource that tasks share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// The buffer of a pipe or socket with room for `capacity` bytes.
    Channel {
        name: String,
        capacity: u64,
        kind: Channel,
    },
}

impl Resource {
    /// Returns the resource's name.
    pub fn name(&self) -> &str {
        match self {
            Resource::Mutex { name, .. }
            | Resource::Cond { name }
            | Resource::Barrier { name, .. }
            | Resource::Semaphore { name, .. }
            | Resource::Suspend { name }
            | Resource::Channel { name, .. } => name,
        }
    }
}

/// Description of a task, apart from its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskKind {
    /// Name of the task. Only the first 15 bytes are used, as in the kernel.
    pub comm: String,
    pub program: ProgramId,
    pub policy: SchedPolicy,
    /// Allowed CPUs; `None` allows all.
    pub cpus: Option<Vec<u32>>,
    /// CPU on which the task is created. Tasks with `None` are distributed over the allowed CPUs in
    /// turn.
    pub start_cpu: Option<u32>,
    /// Time in ns at which the task is created, counted from the start of the workload or from the
    /// fork.
    pub start_ns: u64,
    /// Index into [`Workload::cgroups`].
    pub cgroup: u32,
    /// Whether the task is created at the start. Otherwise it is only a template for [`Op::Fork`].
    pub spawn: bool,
    /// Working set in bytes. It determines the cost of reloading caches after a switch, and how
    /// much the task is slowed if it shares caches and memory with others. With 0, there is
    /// neither.
    pub footprint_bytes: u64,
    /// Bytes of the working set that the task touches per us of its work (MB/s). `None` is the rate
    /// of the machine.
    pub touch_mbps: Option<u32>,
    pub attributes: Attributes,
}

/// Rare properties of a task. By default, the task has none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attributes {
    /// Parent of a task that is created at the start, an index into [`Workload::tasks`]. `None` is
    /// the kernel itself. A forked task always has the forking task as its parent.
    pub parent: Option<TaskId>,
    /// User id. `None` inherits the parent's; tasks without a parent belong to root.
    pub uid: Option<u32>,
    /// Whether the task is a kernel thread (PF_KTHREAD), which has no address space.
    pub kthread: bool,
    /// Time by which sleeps may end late, ns (PR_SET_TIMERSLACK). `None` inherits the parent's;
    /// tasks without a parent have 0.
    pub timer_slack_ns: Option<u64>,
    /// Slice in ns that the task requests when it starts ([`Op::SetSlice`]). `None` inherits the
    /// parent's; tasks without a parent have the default slice.
    pub slice_ns: Option<u64>,
}

/// A cgroup. Index 0 is always the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// Absolute path; the root is "/".
    pub path: String,
    /// cpu.weight, 1..=10000; the default is 100.
    pub weight: u32,
}

/// Kind of the score. The score is the single number that is the result of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Score {
    /// Operations ([`Workload::unit`]) per second. Higher is better.
    #[default]
    OperationsPerSecond,
    /// Time until all tasks have exited.
    CompletionTime,
    /// Time of the run divided by the number of operations. Lower is better.
    TimePerOperation,
    /// Context switches per second. Higher is better.
    SwitchesPerSecond,
    /// Mean response time of the requests.
    MeanResponse,
}

/// A workload: everything that a machine executes in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Workload {
    pub name: String,
    pub tasks: TaskSpecs,
    pub programs: Vec<Program>,
    pub resources: Vec<Resource>,
    pub cgroups: Vec<Cgroup>,
    /// Disturbances, ordered by time.
    pub disturbances: Vec<Disturbance>,
    /// Name of the operations in the plural, for results: "messages", "requests", "loops".
    pub unit: String,
    pub score: Score,
    /// Simulated time of a run; `None` means until all tasks have exited.
    pub duration_ns: Option<u64>,
    /// The machine of the recording that the workload replays. The times at which the tasks start
    /// are then measured, and the times of [`Op::Run`] contain the kernel's work.
    pub recorded_on: Option<RecordedMachine>,
}

/// What a recording says about the machine on which it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedMachine {
    /// Name of a simulated machine. Empty for real machines.
    pub name: String,
    pub nr_cpus: u32,
    /// The file of the recording.
    pub path: PathBuf,
    /// The scheduler: the name of a policy, or `eevdf`.
    pub policy: String,
    /// Scheduler ticks per second, or 0 if the recording does not say it.
    pub hz: u32,
    /// Release of the kernel. Empty if the recording does not say it.
    pub release: String,
    /// Whether the kernel has no high-resolution tick at the end of slices.
    pub no_hrtick: bool,
    /// What the recording lacks.
    pub lacks: Vec<Lack>,
}

impl RecordedMachine {
    /// Returns whether the recording says under which scheduler or kernel it was made. If it does
    /// not, `policy` is an assumption.
    pub fn names_scheduler(&self) -> bool {
        !self.name.is_empty() || !self.release.is_empty()
    }
}

/// Something that a recording lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What is missing, in a few words.
    pub what: &'static str,
    /// Its effect on a replay.
    pub effect: &'static str,
    /// How to record it.
    pub how: &'static str,
}
