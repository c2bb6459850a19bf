// SPDX-License-Identifier: GPL-2.0-only
//! Operations of a policy on DSQs (scx_bpf_dsq_*): inserting and moving tasks, and creating,
//! destroying and querying DSQs.
//!
//! The functions here identify a task by its number. Policies identify a task by its address. The
//! kfuncs (in `policy::kfuncs`) translate the addresses.
//!
//! Insertions are not performed immediately. In ops.select_cpu() and ops.enqueue(), an insertion is
//! stored in the task and performed after the callback has returned. In ops.dispatch(), it is
//! stored in the dispatch buffer. The buffered insertions are performed after the callback has
//! returned, or earlier if the callback moves a task to the local DSQ (scx_bpf_dsq_move_to_local).

use super::enqueue::find_dsq_for_dispatch;
use super::ops::{self};
use super::{cid, deferred, dispatch, exit};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::ext::state::core::{DirectDispatch, Pending};
use crate::sched::ext::state::dsq::{DsqRef, NO_DSQ};
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::{HeldLock, LockId};
use crate::watch::state::observed::DecisionKind;
use bpf::errno::{EEXIST, EINVAL, ENOENT};
use bpf::fault::Fault;
use bpf::memory::Use;

/// Checks the flags of an insertion, and adds the flags that the kernel adds for local DSQs
/// (scx_vet_enq_flags).
#[inline(always)]
fn vet(m: &mut Machine, dsq_id: u64, enq_flags: u64) -> Option<u64> {
    let local = dsq_id == SCX_DSQ_LOCAL || dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON;
    if enq_flags & SCX_ENQ_IMMED != 0 && !local {
        refuse_immed(m, dsq_id);
        return None;
    }
    let always = m.ext.loaded().ops.flags & SCX_OPS_ALWAYS_ENQ_IMMED != 0 && local;
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

/// Describes a move between DSQs for the log of decisions. The task's new slice and vtime have
/// already been set.
#[cold]
fn move_decision(m: &Machine, task: TaskId, dsq_id: u64, home: u32, enq_flags: u64) -> DecisionKind {
    let vtime = (enq_flags & SCX_ENQ_DSQ_PRIQ != 0).then(|| m.scx_entity(task).dsq_vtime);
    DecisionKind::insert(m.pid_of(task), (dsq_id, home), 0, vtime, enq_flags)
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
fn note_inserter(m: &mut Machine, task: TaskId) {
    let pc = m.ext.loaded().vm.pc() as u32;
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
    let moved = dispatch::consume_dispatch_q(m, cpu, dsq, enq_flags);
    m.ext.dsp.nr_tasks += u32::from(moved);
    moved
}

/// Creates a DSQ (scx_bpf_create_dsq). Returns 0 or a negative errno. Linux allocates the DSQ's
/// memory on `node` if possible. Here `node` is only checked.
///
/// # Errors
/// A fault if the run has reached its memory limit.
pub(crate) fn create(m: &mut Machine, dsq_id: u64, node: i32) -> Result<i32, Fault> {
    let nr_nodes = m.spec.topology.nodes.len() as i32;
    if node >= nr_nodes || node < -1 || dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
        return Ok(-EINVAL);
    }
    if m.ext.dsqs.find(dsq_id).is_some() {
        return Ok(-EEXIST);
    }
    // Counts two records against the memory limit: one for the DSQ, and one for the statistics of
    // its lock, which are kept until the end of the run.
    m.region.memory().charge_record(Use::Queues)?;
    m.region.memory().charge_record(Use::Queues)?;
    m.ext.dsqs.create(dsq_id);
    Ok(0)
}

/// Destroys an empty DSQ (scx_bpf_destroy_dsq).
pub(crate) fn destroy(m: &mut Machine, dsq_id: u64) {
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else { return };
    let nr = m.ext.dsqs.nr(dsq);
    if nr > 0 {
        exit::error(m, format!("attempting to destroy in-use dsq 0x{dsq_id:016x} (nr={nr})"));
        return;
    }
    m.ext.charge_program(m.nr_cpus().into());
    for rq in &mut m.rqs {
        rq.ext.reenq_users.retain(|&(user, ..)| user != dsq);
    }
    m.ext.dsqs.destroy(dsq);
    m.region.memory().uncharge_records(Use::Queues, 1);
}

/// Returns the number of tasks on a DSQ, or -ENOENT (scx_bpf_dsq_nr_queued).
pub(crate) fn nr_queued(m: &mut Machine, dsq_id: u64) -> i32 {
    let dsq = if dsq_id == SCX_DSQ_LOCAL {
        m.ext.dsqs.local(locked_or_this(m))
    } else if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
        let cpu = cid::cpu_ret(m, (dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as i32);
        let Some(cpu) = exit::cpu_valid(m, cpu, "") else {
            return -ENOENT;
        };
        m.ext.dsqs.local(cpu)
    } else {
        match m.ext.dsqs.find(dsq_id) {
            Some(dsq) => dsq,
            None => return -ENOENT,
        }
    };
    m.ext.dsqs.nr(dsq) as i32
}

/// Returns the first task of one of the policy's DSQs (scx_bpf_dsq_peek).
pub(crate) fn peek(m: &mut Machine, dsq_id: u64) -> Option<TaskId> {
    if dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
        exit::error(m, format!("peek disallowed on builtin DSQ 0x{dsq_id:x}"));
        return None;
    }
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else {
        exit::no_such_dsq(m, &format!("peek on non-existent DSQ 0x{dsq_id:x}"), None);
        return None;
    };
    m.ext.dsqs.first(dsq)
}

/// Passes the tasks on this CPU's local DSQ back to the policy and returns their number
/// (scx_bpf_reenqueue_local). Only ops.cpu_release() may call it.
pub(crate) fn reenqueue_local(m: &mut Machine) -> u32 {
    let cpu = m.this_cpu;
    deferred::reenq_local(m, cpu, SCX_REENQ_ANY)
}

/// Schedules a re-enqueue of the tasks on a DSQ (scx_bpf_dsq_reenq).
pub(crate) fn dsq_reenq(m: &mut Machine, dsq_id: u64, reenq_flags: u64) {
    if reenq_flags & !__SCX_REENQ_USER_MASK != 0 {
        exit::error(m, format!("invalid SCX_REENQ flags 0x{reenq_flags:x}"));
        return;
    }
    let reenq_flags = if reenq_flags & __SCX_REENQ_FILTER_MASK == 0 {
        SCX_REENQ_ANY
    } else {
        reenq_flags
    };
    let (cpu, locked) = (locked_or_this(m), m.ext.frame.locked_cpu);
    let dsq = find_dsq_for_dispatch(m, cpu, dsq_id, m.this_cpu, None);
    deferred::schedule_dsq_reenq(m, dsq, reenq_flags, locked);
}

/// Returns the CPU whose runqueue was locked when the running callback was called. If no runqueue
/// was locked, returns the current CPU (scx_locked_rq() ?: this_rq()).
fn locked_or_this(m: &Machine) -> CpuId {
    m.ext.frame.locked_cpu.unwrap_or(m.this_cpu)
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

/// A struct bpf_iter_scx_dsq on the BPF stack. It has six words, of which four are used.
struct Iter {
    addr: u64,
}

/// Index of the word that contains the number of the iteration plus 1. The word is 0 if there is no
/// iteration.
const CURSOR: u64 = 0;
/// Index of the word that contains the slice for the next move.
const SLICE: u64 = 1;
/// Index of the word that contains the vtime for the next move.
const VTIME: u64 = 2;
/// Index of the word whose flags say whether the slice and the vtime are set.
const SET: u64 = 3;
const HAS_SLICE: u64 = 1;
const HAS_VTIME: u64 = 2;
/// Flag that requests an iteration from the last task to the first (SCX_DSQ_ITER_REV).
const ITER_REV: u64 = 1 << 16;

impl Iter {
    fn get(&self, m: &Machine, word: u64) -> Result<u64, Fault> {
        m.region.load(self.addr + 8 * word)
    }

    fn set(&self, m: &Machine, word: u64, value: u64) -> Result<(), Fault> {
        m.region.store(self.addr + 8 * word, value)
    }

    fn cursor(&self, m: &Machine) -> Result<Option<u32>, Fault> {
        let cursor = self.get(m, CURSOR)?;
        Ok(cursor
            .checked_sub(1)
            .map(|cursor| cursor as u32)
            .filter(|&cursor| m.ext.dsqs.cursor_dsq(cursor).is_some()))
    }
}

/// Number of instructions by which the budget of the running BPF program is reduced for the start
/// and for each step of an iteration. The start searches for a free iterator, and a step acquires a
/// lock.
const STEP: u64 = 16;

/// Maximum number of iterators that can exist at the same time. A program's stack has room for far
/// fewer, so a program that reaches this number does not destroy its iterators.
const MAX_ITERATORS: usize = 256;

/// Starts an iteration over a DSQ (bpf_iter_scx_dsq_new). `iter` is the iterator's address. Returns
/// 0 or a negative errno.
pub(crate) fn iter_new(m: &mut Machine, iter: u64, dsq_id: u64, flags: u64) -> Result<i32, Fault> {
    let iter = Iter { addr: iter };
    iter.set(m, CURSOR, 0)?;
    iter.set(m, SET, 0)?;
    if flags & !ITER_REV != 0 {
        return Ok(-EINVAL);
    }
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else {
        return Ok(-ENOENT);
    };
    m.ext.charge_program(STEP);
    if m.ext.dsqs.nr_cursors() == MAX_ITERATORS {
        return Err(Fault::func(format!(
            "more than {MAX_ITERATORS} bpf_iter_scx_dsq at a time: the program does not call bpf_iter_scx_dsq_destroy()"
        )));
    }
    let cursor = m.ext.dsqs.cursor_new(dsq, flags & ITER_REV != 0);
    iter.set(m, CURSOR, u64::from(cursor) + 1)?;
    Ok(0)
}

/// Returns the next task of an iteration (bpf_iter_scx_dsq_next).
pub(crate) fn iter_next(m: &mut Machine, iter: u64) -> Result<Option<TaskId>, Fault> {
    let Some(cursor) = (Iter { addr: iter }).cursor(m)? else {
        return Ok(None);
    };
    m.ext.charge_program(STEP);
    let lock = m.ext.dsqs.cursor_dsq(cursor).map(|dsq| lock_dsq(m, dsq));
    let next = m.ext.dsqs.cursor_next(cursor);
    if let Some(task) = next {
        m.charge_dsq_step(task);
    }
    if let Some(lock) = lock {
        m.release(lock);
    }
    Ok(next)
}

/// Ends an iteration (bpf_iter_scx_dsq_destroy).
pub(crate) fn iter_destroy(m: &mut Machine, iter: u64) -> Result<(), Fault> {
    let iter = Iter { addr: iter };
    if let Some(cursor) = iter.cursor(m)? {
        m.ext.dsqs.cursor_drop(cursor);
    }
    iter.set(m, CURSOR, 0)
}

/// Sets the slice for the next move (scx_bpf_dsq_move_set_slice).
pub(crate) fn move_set_slice(m: &mut Machine, iter: u64, slice: u64) -> Result<(), Fault> {
    let iter = Iter { addr: iter };
    iter.set(m, SLICE, slice)?;
    iter.set(m, SET, iter.get(m, SET)? | HAS_SLICE)
}

/// Sets the vtime for the next move (scx_bpf_dsq_move_set_vtime).
pub(crate) fn move_set_vtime(m: &mut Machine, iter: u64, vtime: u64) -> Result<(), Fault> {
    let iter = Iter { addr: iter };
    iter.set(m, VTIME, vtime)?;
    iter.set(m, SET, iter.get(m, SET)? | HAS_VTIME)
}

/// Moves a task from the DSQ of an iteration to another DSQ (scx_bpf_dsq_move). With
/// SCX_ENQ_DSQ_PRIQ in `enq_flags`, this is scx_bpf_dsq_move_vtime(). Returns false if the task is
/// no longer on the iteration's DSQ.
pub(crate) fn dsq_move(m: &mut Machine, iter: u64, task: TaskId, dsq_id: u64, enq_flags: u64) -> Result<bool, Fault> {
    let iter = Iter { addr: iter };
    let Some(cursor) = iter.cursor(m)? else {
        return Ok(false);
    };
    let Some(enq_flags) = vet(m, dsq_id, enq_flags) else {
        return Ok(false);
    };
    if m.ext.exit.is_some() {
        return Ok(false);
    }
    let (src_cpu, locked) = (m.tasks[task].cpu(), m.ext.frame.locked_cpu);
    if locked != Some(src_cpu) {
        ops::settle(m);
        if let Some(cpu) = locked {
            m.unlock(LockId::Rq(cpu));
        }
        m.lock(LockId::Rq(src_cpu));
    }
    let mut at = src_cpu;
    let there = m.ext.dsqs.cursor_has(cursor, task);
    if there {
        note_inserter(m, task);
        let set = iter.get(m, SET)?;
        let here = locked.unwrap_or(m.this_cpu);
        let dst = find_dsq_for_dispatch(m, here, dsq_id, src_cpu, None);
        if set & HAS_VTIME != 0 {
            m.scx_entity_mut(task).dsq_vtime = iter.get(m, VTIME)?;
        }
        if set & HAS_SLICE != 0 {
            m.scx_entity_mut(task).slice = iter.get(m, SLICE)?;
        }
        m.record_decision(|m| move_decision(m, task, dsq_id, here.nr(), enq_flags));
        let src = m.ext.dsqs.current(task);
        at = dispatch::move_task_between_dsqs(m, task, enq_flags, src, dst);
    }
    if locked != Some(at) {
        m.unlock(LockId::Rq(at));
        if let Some(cpu) = locked {
            m.lock(LockId::Rq(cpu));
        }
    }
    iter.set(m, SET, 0)?;
    Ok(there)
}

/// Acquires the lock of a DSQ. `Machine::release` releases it. A local DSQ has no lock of its own,
/// because its runqueue's lock protects it.
pub(super) fn lock_dsq(m: &mut Machine, dsq: DsqRef) -> HeldLock {
    debug_assert_ne!(dsq, NO_DSQ);
    ops::settle(m);
    match m.ext.dsqs.lock(dsq) {
        Some(index) => m.reacquire(index),
        None => {
            let id = m.ext.dsqs.lock_id(dsq);
            let slot = m.ext.dsqs.slot(dsq);
            let held = m.lock_held(LockId::Dsq { slot, id });
            m.ext.dsqs.set_lock(dsq, held.index());
            held
        }
    }
}
