// SPDX-License-Identifier: GPL-2.0-only
//! The machine's state at one instant as far as a policy could see it, as plain data.

use crate::hardware::cpuset::CpuSet;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time since the run's start, ns.
    pub time: u64,
    pub cpus: Vec<CpuState>,
    /// Queues that are not empty.
    pub queues: Vec<Queue>,
    /// Runnable tasks, and the task that the decision is about, by pid.
    pub tasks: BTreeMap<u32, TaskState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// Pid of the running task, 0 if the CPU is idle.
    pub curr: u32,
    pub online: bool,
    /// Whether the CPU is in the mask of idle CPUs that the policy sees. A claimed idle CPU is not
    /// in it.
    pub idle: bool,
    /// Number of runnable tasks of all classes, including the running one.
    pub nr_running: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// CPU that the queue belongs to; `None` if it belongs to no single CPU.
    pub cpu: Option<u32>,
    /// Pids, in the order in which the tasks will run.
    pub tasks: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    pub comm: String,
    pub cpu: u32,
    pub weight: u32,
    /// Remaining slice, ns. For a fair task, the distance to its deadline.
    pub slice: u64,
    /// dsq_vtime; for a fair task, its vruntime.
    pub vtime: i64,
    /// Time at which the task began to wait, ns; `None` if it runs or sleeps.
    pub waiting_since: Option<u64>,
    /// Allowed CPUs; `None` if all are allowed.
    pub cpus: Option<CpuSet>,
}
