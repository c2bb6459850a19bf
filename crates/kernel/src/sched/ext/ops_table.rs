// SPDX-License-Identifier: GPL-2.0-only
//! The callbacks that a policy has (struct sched_ext_ops), and what a call may do meanwhile (kf_mask).

use crate::machine::Machine;
use crate::policy::callbacks::OPS;
pub use crate::policy::callbacks::{NAMES, NR_OPS, Op, kf};
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Vm;

/// No function.
pub(crate) const ABSENT: u32 = u32::MAX;

/// No CPU's runqueue is locked by the callback's caller.

/// A policy's struct sched_ext_ops.
#[derive(Clone, Debug)]
pub struct OpsTable {
    pub(crate) functions: [u32; NR_OPS],
    pub flags: u64,
    /// 0: the longest.
    pub timeout_ms: u32,
    /// 0: 32 KiB.
    pub exit_dump_len: u32,
    /// Number of hotplug events the policy was written against; 0: it does not care.
    pub hotplug_seq: u64,
    /// 0: 32.
    pub dispatch_max_batch: u32,
    /// The cgroup of a sub-scheduler; 0: the whole machine.
    pub sub_cgroup_id: u64,
    pub(crate) name: String,
}

/// The table while no policy is loaded: no callbacks.
pub(super) static NO_OPS: OpsTable = OpsTable {
    functions: [ABSENT; NR_OPS],
    flags: 0,
    timeout_ms: 0,
    exit_dump_len: 0,
    hotplug_seq: 0,
    dispatch_max_batch: 0,
    sub_cgroup_id: 0,
    name: String::new(),
};

impl Default for OpsTable {
    fn default() -> OpsTable {
        NO_OPS.clone()
    }
}

impl OpsTable {
    /// Sets a callback: an index into the policy's functions.
    pub fn set(&mut self, op: Op, function: usize) {
        self.functions[op as usize] = function as u32;
    }

    pub fn remove(&mut self, op: Op) {
        self.functions[op as usize] = ABSENT;
    }

    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does the policy have this callback at all?
    pub fn defines(&self, op: Op) -> bool {
        self.functions[op as usize] != ABSENT
    }

    /// Its function, if the policy has this callback.
    pub(crate) fn function(&self, op: Op) -> Option<usize> {
        self.defines(op).then(|| self.functions[op as usize] as usize)
    }
}

/// The callbacks that are enabled once ops.init() has succeeded.
pub(super) fn hotplug_ops() -> impl Iterator<Item = Op> {
    [Op::CpuOnline, Op::CpuOffline].into_iter()
}

/// The callbacks enabled when tasks are about to come under the policy.
pub(super) fn normal_ops() -> impl Iterator<Item = Op> {
    OPS.into_iter().filter(|&op| op < Op::CpuOnline)
}

/// A policy ready to be loaded: its code and its callbacks.
pub struct Policy {
    pub vm: Vm<Machine>,
    pub ops: OpsTable,
    /// It is a struct sched_ext_ops_cid.
    pub cid: bool,
}

/// How often a callback was called, and what it executed itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Called {
    pub count: u64,
    pub insns_max: u64,
    pub insns: u64,
}

impl Called {
    pub(crate) fn add(&mut self, insns: u64) {
        self.count += 1;
        self.insns += insns;
        self.insns_max = self.insns_max.max(insns);
    }
}

/// The call that is on the way.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// What is being called; `None` outside of callbacks.
    pub op: Option<Op>,
    /// CPU whose runqueue the caller holds locked, if any (scx_locked_rq).
    pub locked_cpu: Option<CpuId>,
    /// The task the call is about (current->scx.kf_tasks), or IDLE.
    pub task: TaskId,
    /// Instructions executed by calls inside this one.
    pub(crate) nested: u64,
}

impl Frame {
    /// No runqueue locked, about no task.
    pub const NONE: Frame = Frame {
        op: None,
        locked_cpu: None,
        task: IDLE,
        nested: 0,
    };

    /// With a CPU's runqueue locked.
    pub fn locked(cpu: CpuId) -> Frame {
        Frame {
            locked_cpu: Some(cpu),
            ..Frame::NONE
        }
    }

    /// About a task on `cpu`, whose runqueue the caller holds locked; `None` if it holds none.
    pub fn about(task: TaskId, cpu: Option<CpuId>) -> Frame {
        Frame {
            locked_cpu: cpu,
            task,
            ..Frame::NONE
        }
    }
}
