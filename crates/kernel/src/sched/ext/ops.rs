// SPDX-License-Identifier: GPL-2.0-only
//! Calling the callbacks of a policy, which are the rows of [`callbacks`](crate::policy::callbacks).
//!
//! A call sets what the program may call meanwhile and which task it is about, runs it, and charges the CPU whose code is
//! running for the callback itself, the instructions executed and the functions called. A fault of the program is the
//! policy's error exit; the callback then has returned 0.

use super::exit;
use crate::machine::Machine;
use crate::policy::callbacks::OPS;
pub use crate::policy::callbacks::{NAMES, NR_OPS, Op, kf};
use crate::simulation::id::{IDLE, TaskId};
use bpf::engine::Vm;
use bpf::fault::Fault;

/// No function.
const ABSENT: u32 = u32::MAX;
/// No CPU's runqueue is locked by the callback's caller.
pub const UNLOCKED: u32 = u32::MAX;

/// A policy's struct sched_ext_ops.
#[derive(Clone, Debug)]
pub struct OpsTable {
    functions: [u32; NR_OPS],
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
    name: String,
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
    fn add(&mut self, insns: u64) {
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
    /// CPU whose runqueue the caller holds locked, or [`UNLOCKED`] (scx_locked_rq).
    pub locked_cpu: u32,
    /// The task the call is about (current->scx.kf_tasks), or IDLE.
    pub task: TaskId,
    /// Instructions executed by calls inside this one.
    nested: u64,
}

impl Frame {
    /// No runqueue locked, about no task.
    pub const NONE: Frame = Frame {
        op: None,
        locked_cpu: UNLOCKED,
        task: IDLE,
        nested: 0,
    };

    /// With a CPU's runqueue locked.
    pub fn locked(cpu: u32) -> Frame {
        Frame {
            locked_cpu: cpu,
            ..Frame::NONE
        }
    }

    /// About a task on `cpu`, whose runqueue is locked unless it is [`UNLOCKED`].
    pub fn about(task: TaskId, cpu: u32) -> Frame {
        Frame {
            locked_cpu: cpu,
            task,
            ..Frame::NONE
        }
    }
}

/// Calls a callback that is about no task, with no runqueue locked. 0 if it faulted.
pub(crate) fn call<const N: usize>(m: &mut Machine, op: Op, args: &[u64; N]) -> u64 {
    call_framed(m, op, Frame::NONE, args).unwrap_or(0)
}

/// Calls a callback with `cpu`'s runqueue locked (SCX_CALL_OP).
#[inline]
pub(crate) fn call_locked<const N: usize>(m: &mut Machine, op: Op, cpu: u32, args: &[u64; N]) -> u64 {
    call_framed(m, op, Frame::locked(cpu), args).unwrap_or(0)
}

/// Calls a callback about `task` with the task's runqueue locked (SCX_CALL_OP_TASK). `args` starts with the task's address.
#[inline]
pub(crate) fn call_task<const N: usize>(m: &mut Machine, op: Op, task: TaskId, args: &[u64; N]) -> u64 {
    let cpu = m.tasks[task].cpu;
    call_framed(m, op, Frame::about(task, cpu), args).unwrap_or(0)
}

/// Calls a callback with two arguments: `first`, and a pointer to a struct of these bytes.
pub(crate) fn call_with_struct(m: &mut Machine, op: Op, frame: Frame, first: u64, bytes: &[u8]) -> Option<u64> {
    let called = Vm::with_stack(m, bytes, |m, addr| Ok(call_framed(m, op, frame, &[first, addr])));
    match called {
        Ok(result) => result,
        Err(fault) => {
            exit::fault(m, &format!("ops.{}()", op.name()), &fault);
            None
        }
    }
}

/// Calls a callback. `None`: it faulted, which is the policy's exit.
#[inline(always)]
pub(crate) fn call_framed<const N: usize>(m: &mut Machine, op: Op, frame: Frame, args: &[u64; N]) -> Option<u64> {
    if m.ext.frame.op.is_some() {
        return call_nested(m, op, frame.locked_cpu, frame.task, *args);
    }
    let (result, _) = invoke(m, op, frame, args);
    // The count of nested instructions means nothing outside.
    let running = &mut m.ext.frame;
    running.op = None;
    running.locked_cpu = UNLOCKED;
    running.task = IDLE;
    result
}

/// A callback while another one is on the way.
#[inline(never)]
fn call_nested<const N: usize>(m: &mut Machine, op: Op, locked_cpu: u32, task: TaskId, args: [u64; N]) -> Option<u64> {
    // The outer one's share.
    settle(m);
    let outer = m.ext.frame;
    let (result, insns) = invoke(m, op, Frame::about(task, locked_cpu), &args);
    m.ext.frame = outer;
    m.ext.frame.nested += insns;
    result
}

/// Calls a callback; returns its result and the instructions executed. The frame is left as it was for this call.
#[inline(always)]
fn invoke<const N: usize>(m: &mut Machine, op: Op, frame: Frame, args: &[u64; N]) -> (Option<u64>, u64) {
    let function = m.ext.loaded().ops.functions[op as usize];
    debug_assert_ne!(function, ABSENT, "ops.{} is not there", op.name());
    // Field by field: a copy would load as one what was just stored in parts, and wait for it.
    let running = &mut m.ext.frame;
    running.op = Some(op);
    running.locked_cpu = frame.locked_cpu;
    running.task = frame.task;
    running.nested = 0;
    if m.details {
        return invoke_told(m, op, function as usize, args);
    }
    let (result, insns, _) = execute(m, op, function as usize, args);
    (result, insns)
}

/// Executes a callback's function; returns its result, the instructions executed, and those of them that are its own.
#[inline(always)]
fn execute<const N: usize>(m: &mut Machine, op: Op, function: usize, args: &[u64; N]) -> (Option<u64>, u64, u64) {
    let before = m.ext.settled_insns;
    let result = Vm::call_args_in(m, op.contexts(), function, args);
    settle_with(m, u64::from(m.spec.costs.callback_ns));
    if result.is_none() {
        failed(m, op);
    }
    let insns = m.ext.settled_insns - before;
    let own = insns - m.ext.frame.nested;
    m.ext.called[op as usize].add(own);
    (result, insns, own)
}

/// The rest of [`invoke`] where somebody wants detail records.
#[inline(never)]
fn invoke_told<const N: usize>(m: &mut Machine, op: Op, function: usize, args: &[u64; N]) -> (Option<u64>, u64) {
    let began = m.local_time(m.this_cpu);
    let (result, insns, own) = execute(m, op, function, args);
    told(m, op, own, began);
    (result, insns)
}

#[cold]
fn told(m: &mut Machine, op: Op, insns: u64, began: u64) {
    let (op, insns) = (op as u16, insns.min(u64::from(u32::MAX)) as u32);
    let after = m.after(began);
    let ns = m.after(m.local_time(m.this_cpu)).saturating_sub(after);
    m.trace(m.this_cpu, trace::Event::Callback { op, insns, after, ns });
}

#[cold]
fn failed(m: &mut Machine, op: Op) {
    let fault = Vm::take_fault(m);
    m.ext.dsqs.cursors_drop_all();
    exit::fault(m, &format!("ops.{}()", op.name()), &fault);
}

/// Runs BPF code in a context and charges the running CPU for it. Returns its result and the instructions executed,
/// nested calls included. For other programs than callbacks, too.
#[inline]
pub(crate) fn run<R>(
    m: &mut Machine,
    contexts: u32,
    body: impl FnOnce(&mut Machine) -> Result<R, Fault>,
) -> (Result<R, Fault>, u64) {
    let outer = m.ext.vm().set_contexts(contexts);
    settle(m);
    let before = m.ext.settled_insns;
    let result = body(m);
    m.ext.vm().set_contexts(outer);
    settle(m);
    if result.is_err() {
        m.ext.dsqs.cursors_drop_all();
    }
    (result, m.ext.settled_insns - before)
}

/// Charges what BPF code has executed since the last time. Functions that look at the CPU's local time (locks, IPIs)
/// call it first.
#[inline]
pub(crate) fn settle(m: &mut Machine) {
    if m.ext.loaded().vm.executed() != m.ext.settled_insns {
        settle_with(m, 0);
    }
}

/// Charges what BPF code has executed since the last time, and `ns` beside it.
#[inline]
fn settle_with(m: &mut Machine, ns: u64) {
    let vm = &m.ext.loaded().vm;
    let (executed, cost) = (vm.executed(), vm.cost());
    let insns = executed - m.ext.settled_insns;
    let ns = ns + cost - m.ext.settled_cost;
    m.ext.settled_insns = executed;
    m.ext.settled_cost = cost;
    let cpu = m.this_cpu;
    m.charge(cpu, ns);
    m.charge_insns(cpu, insns);
}

/// What [`settle`] would charge now, ns.
pub(crate) fn unsettled_ns(m: &Machine) -> u64 {
    let Some(policy) = &m.ext.policy else {
        return 0;
    };
    let vm = &policy.vm;
    let insns = vm.executed() - m.ext.settled_insns;
    (vm.cost() - m.ext.settled_cost) + insns * u64::from(m.spec.costs.bpf_insn_ps) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_known_by_name_in_the_kernels_order() {
        assert_eq!(NR_OPS, 37);
        assert_eq!(Op::by_name("select_cpu"), Some(Op::SelectCpu));
        assert_eq!(Op::by_name("exit").map(|op| op as usize), Some(36));
        assert_eq!(Op::by_name("select_cid"), None);
        assert!(normal_ops().all(|op| op < Op::CpuOnline) && normal_ops().count() == 33);
    }
}
