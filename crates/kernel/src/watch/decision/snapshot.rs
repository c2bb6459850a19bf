// SPDX-License-Identifier: GPL-2.0-only
//! What a policy could see of the machine at one instant, as plain data.

use crate::hardware::cpuset::CpuSet;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// ns since the run's start.
    pub time: u64,
    pub cpus: Vec<CpuState>,
    /// Those that are not empty.
    pub queues: Vec<Queue>,
    /// Runnable ones and the one that the decision is about, by pid.
    pub tasks: BTreeMap<u32, TaskState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// Pid of what runs there, 0: idle.
    pub curr: u32,
    pub online: bool,
    /// In the mask of idle CPUs that a policy sees: an idle CPU which has been claimed is not.
    pub idle: bool,
    /// Queued tasks of all classes, the running one included.
    pub nr_running: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// The CPU whose queue it is; `None`: any CPU's.
    pub cpu: Option<u32>,
    /// Pids, first to run first.
    pub tasks: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    pub comm: String,
    pub cpu: u32,
    pub weight: u32,
    /// What is left of its slice, ns: of the fair class up to its deadline.
    pub slice: u64,
    /// dsq_vtime, or vruntime of the fair class.
    pub vtime: i64,
    /// Since when it waits to run, ns; `None`: it runs or sleeps.
    pub waiting_since: Option<u64>,
    /// `None`: all.
    pub cpus: Option<CpuSet>,
}
