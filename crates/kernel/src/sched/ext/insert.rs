// SPDX-License-Identifier: GPL-2.0-only
//! Insertions into DSQs that a policy requests (scx_bpf_dsq_insert, scx_bpf_dsq_move_to_local).
//!
//! The functions here identify a task by its number. Policies identify a task by its address. The
//! kfuncs (in `policy::kfuncs`) translate the addresses.
//!
//! Insertions are not performed immediately. In ops.select_cpu() and ops.enqueue(), an insertion is
//! stored in the task and performed after the callback has returned. In ops.dispatch(), it is
//! stored in the dispatch buffer. The buffered insertions are performed after the callback has
//! returned, or earlier if the callback moves a task to the local DSQ (scx_bpf_dsq_move_to_local).

use super::migrate::consume_dispatch_q;
use super::{dispatch, exit};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::ext::state::core::{DirectDispatch, Pending};
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::{IDLE, TaskId};
use crate::watch::state::observed::DecisionKind;

/// Checks the flags of an insertion, and adds the flags that the kernel adds for local DSQs
/// (scx_vet_enq_flags).
#[inline(always)]
pub(super) fn vet(m: &mut Machine, dsq_id: u64, enq_flags: u64) -> Option<u64> {
    let local = dsq_id == SCX_DSQ_LOCAL || dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON;
    if enq_flags & SCX_ENQ_IMMED != 0 && !local {
        refuse_immed(m, dsq_id);
        return None;
    }
    let always = m.ext.ops_flags() & SCX_OPS_ALWAYS_ENQ_IMMED != 0 && local;
    Some(if always { enq_flags | SCX_ENQ_IMMED } else { enq_flags })
}

#[cold]
fn refuse_immed(m: &mut Machine, dsq_id: u64) {
    exit::error(m, format!("SCX_ENQ_IMMED on a non-local DSQ 0x{dsq_id:x}"));
}

/// Requests the insertion of a task into the DSQ `dsq_id` (scx_bpf_dsq_insert). The task gets a
/// slice of `slice` ns. If `slice` is 0, the task keeps the rest of its slice.
///
/// Returns false if the policy does not own the task, or if the arguments are invalid. Invalid
/// arguments end the policy with an error.
pub(crate) fn insert(m: &mut Machine, task: Option<TaskId>, dsq_id: u64, slice: u64, enq_flags: u64) -> bool {
    let Some((task, enq_flags)) = preamble(m, task, dsq_id, enq_flags) else {
        return false;
    };
    m.record_decision(|m| insert_decision(m, task, dsq_id, slice, None, enq_flags));
    if !m.ext.is_linux_7_3 {
        set_slice(m, task, slice);
    }
    commit(m, task, dsq_id, (slice, 0), enq_flags);
    true
}

/// Requests an insertion like [`insert`], but at the position that `vtime` determines
/// (scx_bpf_dsq_insert_vtime).
pub(crate) fn insert_vtime(
    m: &mut Machine,
    task: Option<TaskId>,
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    enq_flags: u64,
) -> bool {
    let Some((task, enq_flags)) = preamble(m, task, dsq_id, enq_flags) else {
        return false;
    };
    m.record_decision(|m| insert_decision(m, task, dsq_id, slice, Some(vtime), enq_flags));
    if !m.ext.is_linux_7_3 {
        set_slice(m, task, slice);
        m.scx_entity_mut(task).dsq_vtime = vtime;
    }
    commit(m, task, dsq_id, (slice, vtime), enq_flags | SCX_ENQ_DSQ_PRIQ);
    true
}

/// Describes an insertion for the log of decisions (`watch::state::decision`).
#[cold]
fn insert_decision(
    m: &Machine,
    task: TaskId,
    dsq_id: u64,
    slice: u64,
    vtime: Option<u64>,
    enq_flags: u64,
) -> DecisionKind {
    // `home` is the CPU whose local DSQ SCX_DSQ_LOCAL denotes. In ops.dispatch() this is the CPU
    // that needs tasks. In ops.select_cpu() the CPU is not known yet.
    let home = match m.ext.frame.op {
        Some(Callback::Dispatch) => m.ext.dsp.cpu.nr(),
        Some(Callback::SelectCpu) => u32::MAX,
        _ => m.tasks[task].cpu().nr(),
    };
    DecisionKind::insert(m.pid_of(task), (dsq_id, home), slice, vtime, enq_flags)
}

/// Sets a task's slice in ns. If `slice` is 0, the task keeps the rest of its slice.
fn set_slice(m: &mut Machine, task: TaskId, slice: u64) {
    let scx = m.scx_entity_mut(task);
    scx.slice = if slice != 0 { slice } else { scx.slice.max(1) };
}

/// Checks the arguments of an insertion (scx_dsq_insert_preamble).
#[inline(always)]
fn preamble(m: &mut Machine, task: Option<TaskId>, dsq_id: u64, enq_flags: u64) -> Option<(TaskId, u64)> {
    let Some(task) = task else {
        exit::error(m, "called with NULL task");
        return None;
    };
    if enq_flags & __SCX_ENQ_INTERNAL_MASK != 0 {
        invalid(m, enq_flags);
        return None;
    }
    if task == IDLE || !m.ext.owns(m.scx_state(task)) || m.tasks[task].ext.sched != m.ext.current_sched() {
        m.ext.stats.insert_not_owned += 1;
        return None;
    }
    Some((task, vet(m, dsq_id, enq_flags)?))
}

#[cold]
fn invalid(m: &mut Machine, enq_flags: u64) {
    exit::error(m, format!("invalid enq_flags 0x{enq_flags:x}"));
}

/// Records the running instruction as the one that inserts the task.
#[inline(always)]
pub(super) fn note_inserter(m: &mut Machine, task: TaskId) {
    // SAFETY: a program of the loaded policy has called the kfunc that inserts the task.
    let pc = unsafe { m.ext.loaded() }.vm.pc() as u32;
    m.tasks[task].ext.inserted_by = m.ext.frame.op.map(|op| (op, pc));
}

/// Stores the insertion in the task (direct dispatch) or in the dispatch buffer
/// (scx_dsq_insert_commit). In Linux 7.3, the insertion carries the slice and the vtime `carried`, which
/// the task gets when it is inserted.
#[inline(always)]
fn commit(m: &mut Machine, task: TaskId, dsq_id: u64, carried: (u64, u64), enq_flags: u64) {
    note_inserter(m, task);
    match m.ext.direct {
        DirectDispatch::Closed => {}
        expected => {
            if mark_direct_dispatch(m, expected, task, dsq_id, enq_flags) && m.ext.is_linux_7_3 {
                m.tasks[task].rare.linux_7_3.carried = carried;
            }
            return;
        }
    }
    if m.ext.dsp.buffer.len() >= m.ext.dsp_max_batch as usize {
        exit::error(m, "dispatch buffer overflow");
        return;
    }
    let entity = &m.tasks[task].ext;
    // A callback on a different CPU can insert the task while ops.enqueue() still runs. The
    // insertion is performed after ops.enqueue() has ended (SCX_OPSS_QUEUEING).
    let queued = match entity.ops_state {
        OpsState::Queued => true,
        OpsState::Queueing => m.overlap.is_some(),
        OpsState::None => false,
    };
    let pending = Pending {
        task,
        queued,
        qseq: entity.qseq,
        dsq_id,
        enq_flags,
        slice: carried.0,
        vtime: carried.1,
    };
    m.ext.dsp.buffer.push(pending);
}

#[inline(always)]
fn mark_direct_dispatch(m: &mut Machine, expected: DirectDispatch, task: TaskId, dsq_id: u64, enq_flags: u64) -> bool {
    m.ext.direct = DirectDispatch::Done;
    if expected != DirectDispatch::For(task) {
        refuse_direct_dispatch(m, expected, task);
        return false;
    }
    let scx = m.scx_entity_mut(task);
    scx.ddsp_dsq_id = dsq_id;
    scx.ddsp_enq_flags = enq_flags;
    true
}

#[cold]
fn refuse_direct_dispatch(m: &mut Machine, expected: DirectDispatch, task: TaskId) {
    let named = |task: TaskId| {
        let t = &m.tasks[task];
        format!("{}[{}]", t.comm(), t.pid())
    };
    let message = match expected {
        DirectDispatch::For(other) => {
            format!(
                "scheduling for {} but trying to direct-dispatch {}",
                named(other),
                named(task)
            )
        }
        _ => format!("{} already direct-dispatched", named(task)),
    };
    exit::error(m, message);
}

/// Returns the number of insertions for which the dispatch buffer still has room
/// (scx_bpf_dispatch_nr_slots).
pub(crate) fn dispatch_nr_slots(m: &Machine) -> u32 {
    m.ext.dsp_max_batch - m.ext.dsp.buffer.len() as u32
}

/// Removes the latest insertion from the dispatch buffer (scx_bpf_dispatch_cancel).
pub(crate) fn dispatch_cancel(m: &mut Machine) {
    if m.ext.dsp.buffer.pop().is_none() {
        exit::error(m, "dispatch buffer underflow");
    }
}

/// Moves a task from a DSQ to the local DSQ of the CPU for which ops.dispatch() runs
/// (scx_bpf_dsq_move_to_local). Takes the first task that may run on that CPU.
#[inline(always)]
pub(crate) fn move_to_local(m: &mut Machine, dsq_id: u64, enq_flags: u64) -> bool {
    let Some(enq_flags) = vet(m, SCX_DSQ_LOCAL, enq_flags) else {
        return false;
    };
    let cpu = m.ext.dsp.cpu;
    dispatch::flush_dispatch_buf(m, cpu);
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else {
        exit::error(m, format!("invalid DSQ ID 0x{dsq_id:016x}"));
        return false;
    };
    let moved = consume_dispatch_q(m, cpu, dsq, enq_flags);
    m.ext.dsp.nr_tasks += u32::from(moved);
    moved
}
