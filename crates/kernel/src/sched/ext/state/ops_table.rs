// SPDX-License-Identifier: GPL-2.0-only
//! The table of the callbacks of a policy, which is a struct sched_ext_ops, and information about
//! the callback that is running.

use crate::layout::callbacks::OPS;
pub use crate::layout::callbacks::{Callback, NR_OPS};
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Vm;
use bpf::memory::Region;
use std::rc::Rc;

/// Value of `functions` for a callback that the policy does not define.
pub(crate) const ABSENT: u32 = u32::MAX;

/// The content of a policy's struct sched_ext_ops.
#[derive(Clone, Debug)]
pub struct OpsTable {
    pub(crate) functions: [u32; NR_OPS],
    pub flags: u64,
    /// ops.timeout_ms; 0 stands for the maximum.
    pub timeout_ms: u32,
    /// ops.exit_dump_len, bytes; 0 stands for 32 KiB.
    pub exit_dump_len: u32,
    /// ops.hotplug_seq: number of CPU hotplug events at the time when user space opened the policy.
    /// If there have been more events when the policy is enabled, enabling fails. 0 turns this
    /// check off.
    pub hotplug_seq: u64,
    /// ops.dispatch_max_batch; 0 stands for 32.
    pub dispatch_max_batch: u32,
    /// ops.cid_shard_size: number of cids in a shard; 0 stands for 24.
    pub cid_shard_size: u32,
    /// ops.rescue_bandwidth_ppt: share of a CPU's time that rescues may use, in thousandths. 0 stands
    /// for 20.
    pub rescue_bandwidth_ppt: u32,
    /// ops.rescue_quantum_us: CPU time of a rescue, us. 0 stands for 5000.
    pub rescue_quantum_us: u32,
    /// Cgroup of a sub-scheduler; 0 stands for the whole machine.
    pub sub_cgroup_id: u64,
    pub(crate) name: String,
}

/// The table that is used while no policy is loaded. It contains no callbacks.
pub(crate) static NO_OPS: OpsTable = OpsTable {
    functions: [ABSENT; NR_OPS],
    flags: 0,
    timeout_ms: 0,
    exit_dump_len: 0,
    hotplug_seq: 0,
    dispatch_max_batch: 0,
    cid_shard_size: 0,
    rescue_bandwidth_ppt: 0,
    rescue_quantum_us: 0,
    sub_cgroup_id: 0,
    name: String::new(),
};

impl Default for OpsTable {
    fn default() -> OpsTable {
        NO_OPS.clone()
    }
}

impl OpsTable {
    /// Sets the function of a callback. `function` is an index into the policy's functions.
    pub fn set(&mut self, op: Callback, function: usize) {
        self.functions[op as usize] = function as u32;
    }

    pub fn remove(&mut self, op: Callback) {
        self.functions[op as usize] = ABSENT;
    }

    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the policy defines this callback.
    pub fn defines(&self, op: Callback) -> bool {
        self.functions[op as usize] != ABSENT
    }

    /// Returns the function of a callback, or `None` if the policy does not define the callback.
    pub fn function(&self, op: Callback) -> Option<usize> {
        self.defines(op).then(|| self.functions[op as usize] as usize)
    }
}

/// Returns the callbacks that become allowed when ops.init() has succeeded.
pub(crate) fn hotplug_ops() -> impl Iterator<Item = Callback> {
    [Callback::CpuOnline, Callback::CpuOffline].into_iter()
}

/// Returns the callbacks that become allowed just before the policy receives the existing tasks.
pub(crate) fn normal_ops() -> impl Iterator<Item = Callback> {
    let about_caps = |op| matches!(op, Callback::SubCapsUpdated | Callback::SubEcapsUpdated);
    OPS.into_iter()
        .filter(move |&op| op < Callback::CpuOnline || about_caps(op))
}

/// A policy that is ready to be loaded: its code and its callbacks.
///
/// Its code has been compiled for the memory of one machine, so no other machine can load it.
pub struct PreparedPolicy {
    pub(crate) vm: Vm<Machine>,
    pub(crate) region: Rc<Region>,
    pub ops: OpsTable,
    /// Whether the policy is defined with a struct sched_ext_ops_cid.
    pub cid: bool,
}

impl PreparedPolicy {
    /// Returns the code and maps of the policy.
    pub fn vm(&self) -> &Vm<Machine> {
        &self.vm
    }

    /// Returns the parts of the policy: its code, its callbacks, and whether it uses cids.
    ///
    /// # Panics
    /// If the policy was opened for a different machine.
    pub(crate) fn into_parts(self, m: &Machine) -> (Vm<Machine>, OpsTable, bool) {
        assert!(
            Rc::ptr_eq(&self.region, &m.region),
            "the policy was opened for a different machine"
        );
        (self.vm, self.ops, self.cid)
    }
}

/// Number of calls of a callback, and number of instructions that these calls executed, without the
/// instructions of nested callbacks.
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

/// The callback that is running, the task it operates on, and the runqueue lock that its caller
/// holds.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The callback; `None` outside of callbacks.
    pub op: Option<Callback>,
    /// CPU whose runqueue the caller has locked, if any (scx_locked_rq).
    pub locked_cpu: Option<CpuId>,
    /// Task on which the callback operates (current->scx.kf_tasks), or IDLE.
    pub task: TaskId,
    /// Whether this is the callback of a BPF timer. Interrupts are enabled there, so a kick takes
    /// effect at once.
    pub interruptible: bool,
    /// Number of instructions executed by nested callbacks, which were called while this callback
    /// was running.
    pub(crate) nested: u64,
}

impl Frame {
    /// The frame of a callback that is called without a locked runqueue and for no task.
    pub const NONE: Frame = Frame {
        op: None,
        locked_cpu: None,
        task: IDLE,
        interruptible: false,
        nested: 0,
    };

    /// Returns the frame of a callback that is called with the runqueue of `cpu` locked.
    pub(crate) fn locked(cpu: CpuId) -> Frame {
        Frame {
            locked_cpu: Some(cpu),
            ..Frame::NONE
        }
    }

    /// Returns the frame of a callback that operates on `task`. `cpu` is the CPU whose runqueue the
    /// caller has locked, if any.
    pub(crate) fn about(task: TaskId, cpu: Option<CpuId>) -> Frame {
        Frame {
            locked_cpu: cpu,
            task,
            ..Frame::NONE
        }
    }
}
