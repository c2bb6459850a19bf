// SPDX-License-Identifier: GPL-2.0-only
//! Calls the callbacks of the policy. [`callbacks`](crate::layout::callbacks) lists them.
//!
//! Before the call, the code here records which kfuncs are allowed and which task the callback
//! operates on. After the call, it charges the current CPU for the time of the callback, its
//! instructions and the functions that it called. If the BPF program faults, the policy ends with
//! an error.

use super::exit;
pub use crate::layout::callbacks::{Callback, NAMES, NR_OPS, kf};
use crate::machine::Machine;
use crate::sched::ext::state::ops_table::*;
use crate::sched::overlap;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Vm;
use bpf::fault::Fault;

/// Calls a callback that operates on no task, without a locked runqueue. Returns 0 if the callback
/// faults.
pub(crate) fn call<const N: usize>(m: &mut Machine, op: Callback, args: &[u64; N]) -> u64 {
    call_framed(m, op, Frame::NONE, args).unwrap_or(0)
}

/// Calls a callback with the runqueue of `cpu` locked (SCX_CALL_OP).
#[inline(always)]
pub(crate) fn call_locked<const N: usize>(m: &mut Machine, op: Callback, cpu: CpuId, args: &[u64; N]) -> u64 {
    call_framed(m, op, Frame::locked(cpu), args).unwrap_or(0)
}

/// Calls a callback that operates on `task`, with the task's runqueue locked (SCX_CALL_OP_TASK).
/// The first argument must be the task's address.
#[inline]
pub(crate) fn call_task<const N: usize>(m: &mut Machine, op: Callback, task: TaskId, args: &[u64; N]) -> u64 {
    let cpu = m.tasks[task].cpu();
    call_framed(m, op, Frame::about(task, Some(cpu)), args).unwrap_or(0)
}

/// Calls a callback like [`call_task`]. `cpu` is the task's CPU. The callbacks of every context
/// switch are called with this function, which is inlined, because an inlined call is about a sixth
/// shorter.
#[inline(always)]
pub(crate) fn call_on<const N: usize>(m: &mut Machine, op: Callback, cpu: CpuId, task: TaskId, args: &[u64; N]) -> u64 {
    debug_assert_eq!(cpu, m.tasks[task].cpu());
    call_framed(m, op, Frame::about(task, Some(cpu)), args).unwrap_or(0)
}

/// Calls a callback with two arguments: `first`, and a pointer to a struct whose content is
/// `bytes`.
pub(crate) fn call_with_struct(m: &mut Machine, op: Callback, frame: Frame, first: u64, bytes: &[u8]) -> Option<u64> {
    let called = Vm::with_stack(m, bytes, |m, addr| Ok(call_framed(m, op, frame, &[first, addr])));
    match called {
        Ok(result) => result,
        Err(fault) => {
            exit::fault(m, &format!("ops.{}()", op.name()), &fault);
            None
        }
    }
}

/// Calls a callback. If it faults, the policy ends and the result is `None`.
#[inline(always)]
pub(crate) fn call_framed<const N: usize>(m: &mut Machine, op: Callback, frame: Frame, args: &[u64; N]) -> Option<u64> {
    if m.ext.frame.op.is_some() {
        return call_nested(m, op, frame.locked_cpu, frame.task, *args);
    }
    let (result, _) = invoke(m, op, frame, args);
    // `nested` is not reset, because it is read only while a callback runs.
    let running = &mut m.ext.frame;
    running.op = None;
    running.locked_cpu = None;
    running.task = IDLE;
    result
}

/// Calls a callback while another callback is running.
#[inline(never)]
fn call_nested<const N: usize>(
    m: &mut Machine,
    op: Callback,
    locked_cpu: Option<CpuId>,
    task: TaskId,
    args: [u64; N],
) -> Option<u64> {
    // Charges the instructions that the outer callback has executed so far.
    settle(m);
    let outer = m.ext.frame;
    let (result, insns) = invoke(m, op, Frame::about(task, locked_cpu), &args);
    m.ext.frame = outer;
    m.ext.frame.nested += insns;
    result
}

/// Calls a callback. Returns its result and the number of instructions that it executed. Afterwards
/// `m.ext.frame` still has the values of this call.
#[inline(always)]
fn invoke<const N: usize>(m: &mut Machine, op: Callback, frame: Frame, args: &[u64; N]) -> (Option<u64>, u64) {
    // SAFETY: the callers have found the callback in the table of the loaded policy (`has_op`,
    // `ops`). Without a policy, the table is empty.
    let function = unsafe { m.ext.loaded() }.ops.functions[op as usize];
    debug_assert_ne!(function, ABSENT, "the policy does not define ops.{}()", op.name());
    // Sets the fields one by one, which is faster than a copy of the whole frame. Such a copy reads
    // several fields at once, shortly after each field was written separately. This stalls the CPU
    // of the host (failed store forwarding).
    let running = &mut m.ext.frame;
    running.op = Some(op);
    running.locked_cpu = frame.locked_cpu;
    running.task = frame.task;
    running.nested = 0;
    if m.details || m.overlap.is_some() {
        return match m.overlap {
            Some(_) => invoke_overlapped(m, op, function as usize, args),
            None => invoke_recorded(m, op, function as usize, args),
        };
    }
    let before = m.ext.settled_insns;
    let (result, insns, _) = execute(m, op, function as usize, args, before);
    (result, insns)
}

/// Executes the function of a callback for [`invoke`], if callbacks overlap.
#[inline(never)]
fn invoke_overlapped<const N: usize>(
    m: &mut Machine,
    op: Callback,
    function: usize,
    args: &[u64; N],
) -> (Option<u64>, u64) {
    let frame = m.ext.frame;
    // Instructions that other CPUs execute while the callback waits for a lock count as nested.
    let before = m.ext.settled_insns;
    let begun = overlap::begin_callback(m, frame, overlap::subject(m, op, args));
    let (result, insns, _) = execute(m, op, function, args, before);
    overlap::end_callback(m, begun);
    (result, insns)
}

/// Executes the function of a callback. `before` is the number of settled instructions when the
/// callback began. Returns three values: its result, the number of instructions that were executed
/// since then, and the same number without nested callbacks.
#[inline(always)]
fn execute<const N: usize>(
    m: &mut Machine,
    op: Callback,
    function: usize,
    args: &[u64; N],
    before: u64,
) -> (Option<u64>, u64, u64) {
    let current = m.current();
    pin(m, current, 1);
    let result = Vm::call_args_in(m, op.contexts(), function, args);
    pin(m, current, -1);
    settle_with(m, u64::from(m.spec.costs.callback_ns));
    if result.is_none() {
        failed(m, op);
    }
    let insns = m.ext.settled_insns - before;
    let own = insns - m.ext.frame.nested;
    m.ext.called[op as usize].add(own);
    (result, insns, own)
}

/// Keeps the running task on its CPU while a callback is executed (__bpf_prog_enter, and for -1
/// __bpf_prog_exit). The callback sees it in the task's `migration_disabled`.
#[inline(always)]
fn pin(m: &mut Machine, current: TaskId, by: i16) {
    if current != IDLE {
        let disabled = &mut m.tasks[current].task_struct.migration_disabled;
        *disabled = disabled.wrapping_add_signed(by);
    }
}

/// Executes the function of a callback for [`invoke`] and emits a trace record of the call. It is
/// used if the trace contains details.
#[inline(never)]
fn invoke_recorded<const N: usize>(
    m: &mut Machine,
    op: Callback,
    function: usize,
    args: &[u64; N],
) -> (Option<u64>, u64) {
    if m.stepped.is_some() {
        m.note_step(|m| super::step_log::call(m, op, args));
    }
    if m.locks.contention.is_some() {
        m.note_lock_user(op, m.ext.frame.locked_cpu);
    }
    let began = m.local_time(m.this_cpu);
    let before = m.ext.settled_insns;
    let (result, insns, own) = execute(m, op, function, args, before);
    if m.stepped.is_some() {
        super::step_log::note_result(m, op, result.unwrap_or(0));
    }
    record_call(m, op, own, began);
    (result, insns)
}

#[cold]
fn record_call(m: &mut Machine, op: Callback, insns: u64, began: u64) {
    let (op, insns) = (op as u16, insns.min(u64::from(u32::MAX)) as u32);
    let after = m.after(began);
    let ns = m.after(m.local_time(m.this_cpu)).saturating_sub(after);
    m.trace(m.this_cpu, trace::Event::Callback { op, insns, after, ns });
}

#[cold]
fn failed(m: &mut Machine, op: Callback) {
    let fault = Vm::take_fault(m);
    m.ext.dsqs.cursors_drop_all();
    exit::fault(m, &format!("ops.{}()", op.name()), &fault);
}

/// Runs BPF code that is not a callback, and charges the current CPU for it. `contexts` is a bit
/// set that determines which kfuncs are allowed. Returns the result and the number of executed
/// instructions, including those of nested calls.
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

/// Charges the current CPU for the BPF code that was executed since the last charge. Functions that
/// need the exact time on this CPU, for example for locks and IPIs, call this first. They run only
/// while a policy is loaded. Code that can run without a policy calls [`settle_any`].
#[inline]
pub(crate) fn settle(m: &mut Machine) {
    // SAFETY: the callers handle a task or a DSQ of the class, or a program has called them.
    let policy = unsafe { m.ext.loaded() };
    if policy.vm.executed() != m.ext.settled_insns {
        settle_with(m, 0);
    }
}

/// Does the work of [`settle`] if a policy is loaded.
#[inline]
pub(crate) fn settle_any(m: &mut Machine) {
    if m.ext.has_policy() {
        settle(m);
    }
}

/// Charges the current CPU for the BPF code that was executed since the last charge, plus `ns`.
#[inline]
fn settle_with(m: &mut Machine, ns: u64) {
    // SAFETY: as in `settle`.
    let vm = &unsafe { m.ext.loaded() }.vm;
    let (executed, cost) = (vm.executed(), vm.cost());
    let insns = executed - m.ext.settled_insns;
    let ns = ns + cost - m.ext.settled_cost;
    m.ext.settled_insns = executed;
    m.ext.settled_cost = cost;
    m.charge_bpf(m.this_cpu, ns, insns);
}

/// Returns the time in ns that a call of [`settle`] would charge now.
pub(crate) fn unsettled_ns(m: &Machine) -> u64 {
    let Some(policy) = &m.ext.policy else {
        return 0;
    };
    let vm = &policy.vm;
    let insns = vm.executed() - m.ext.settled_insns;
    (vm.cost() - m.ext.settled_cost) + insns * u64::from(m.spec.costs.bpf_insn_ps) / 1000
}

/// Returns whether the running callback was called for this task (scx_kf_arg_task_ok). If it was
/// not, ends the policy with an error.
pub(crate) fn arg_task_ok(m: &mut Machine, task: TaskId) -> bool {
    let ok = m.ext.frame.task == task && task != IDLE;
    if !ok {
        exit::error(m, "called on a task not being operated on");
    }
    ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_have_the_names_and_order_of_the_kernel() {
        assert_eq!(NR_OPS, 40);
        assert_eq!(Callback::by_name("select_cpu"), Some(Callback::SelectCpu));
        assert_eq!(Callback::by_name("exit").map(|op| op as usize), Some(36));
        assert_eq!(Callback::by_name("select_cid"), None);
        assert_eq!(normal_ops().filter(|&op| op < Callback::CpuOnline).count(), 33);
        assert_eq!(normal_ops().count(), 35);
    }
}
