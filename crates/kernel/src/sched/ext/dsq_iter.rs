// SPDX-License-Identifier: GPL-2.0-only
//! Iterators over the tasks of a DSQ (bpf_iter_scx_dsq), and the moves of tasks that a policy reaches
//! with them (scx_bpf_dsq_move).

use super::dsq::{find_dsq_for_dispatch, lock_dsq};
use super::insert::{note_inserter, vet};
use super::migrate::move_task_between_dsqs;
use super::ops;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::simulation::id::TaskId;
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::DecisionKind;
use bpf::errno::{EINVAL, ENOENT};
use bpf::fault::Fault;

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
        at = move_task_between_dsqs(m, task, enq_flags, src, dst);
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

/// Describes a move between DSQs for the log of decisions. The task's new slice and vtime have
/// already been set.
#[cold]
fn move_decision(m: &Machine, task: TaskId, dsq_id: u64, home: u32, enq_flags: u64) -> DecisionKind {
    let vtime = (enq_flags & SCX_ENQ_DSQ_PRIQ != 0).then(|| m.scx_entity(task).dsq_vtime);
    DecisionKind::insert(m.pid_of(task), (dsq_id, home), 0, vtime, enq_flags)
}
