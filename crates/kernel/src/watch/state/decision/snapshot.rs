// SPDX-License-Identifier: GPL-2.0-only
//! A copy of the machine's state at one time. It contains only state that a policy could have seen.

use crate::simulation::cpuset::CpuSet;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time since the run's start, ns.
    pub time: u64,
    pub cpus: Vec<CpuState>,
    /// Queues that are not empty.
    pub queues: Vec<Queue>,
    /// State of all runnable tasks and of the task that the decision is about, by pid.
    pub tasks: BTreeMap<u32, TaskState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// Pid of the running task, 0 if the CPU is idle.
    pub curr: u32,
    pub online: bool,
    /// Whether the CPU is in the mask of idle CPUs that the policy sees. An idle CPU that has been
    /// claimed is not in this mask.
    pub idle: bool,
    /// Number of runnable tasks of all classes, including the running one.
    pub nr_running: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// CPU to which the queue belongs. `None` if the queue does not belong to a single CPU.
    pub cpu: Option<u32>,
    /// Pids of the tasks, in the order in which they will run.
    pub tasks: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    pub comm: String,
    pub cpu: u32,
    pub weight: u32,
    /// Remaining slice, ns. For a fair task, the virtual time that is left until its deadline.
    pub slice: u64,
    /// Value of `dsq_vtime`. For a fair task, its vruntime.
    pub vtime: i64,
    /// Time at which the task began to wait for a CPU, ns. `None` if it is running or sleeping.
    pub waiting_since: Option<u64>,
    /// CPUs that the task may use. `None` if it may use all CPUs.
    pub cpus: Option<CpuSet>,
}
