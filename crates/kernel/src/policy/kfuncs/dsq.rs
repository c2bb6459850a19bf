// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs about DSQs: making them, inserting and moving tasks, looking into them.

use super::{Kfunc, any_task, kfunc};
use crate::machine::Machine;
use crate::policy::layout::enums::{SCX_DSQ_LOCAL, SCX_ENQ_DSQ_PRIQ};
use crate::policy::layout::scx_bpf_dsq_insert_vtime_args;
use crate::sched::ext::insert as dsq;
use crate::sched::ext::ops::kf;
use crate::sched::task::{IDLE, TaskId};
use bpf::func::{ANY, Fault};

pub(super) fn table() -> Vec<Kfunc> {
    let mut table = present_table();
    table.extend(old_table());
    table
}

fn present_table() -> Vec<Kfunc> {
    let dispatch = kf::DISPATCH;
    let moves = kf::DISPATCH | kf::UNLOCKED;
    vec![
        kfunc(
            kf::UNLOCKED,
            "s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)",
            dsq::create,
        ),
        kfunc(ANY, "void scx_bpf_destroy_dsq(u64 dsq_id)", dsq::destroy),
        kfunc(ANY, "s32 scx_bpf_dsq_nr_queued(u64 dsq_id)", dsq::nr_queued),
        kfunc(
            ANY,
            "struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)",
            scx_bpf_dsq_peek,
        ),
        kfunc(
            kf::ENQUEUE,
            "void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)",
            scx_bpf_dsq_insert,
        ),
        kfunc(
            kf::ENQUEUE,
            "bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)",
            scx_bpf_dsq_insert,
        ),
        kfunc(
            kf::ENQUEUE,
            "void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)",
            scx_bpf_dsq_insert_vtime,
        ),
        kfunc(
            kf::ENQUEUE,
            "bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args)",
            __scx_bpf_dsq_insert_vtime,
        ),
        kfunc(
            dispatch,
            "u32 scx_bpf_dispatch_nr_slots(void)",
            scx_bpf_dispatch_nr_slots,
        ),
        kfunc(dispatch, "void scx_bpf_dispatch_cancel(void)", dsq::dispatch_cancel),
        kfunc(
            dispatch,
            "bool scx_bpf_dsq_move_to_local(u64 dsq_id)",
            scx_bpf_dsq_move_to_local,
        ),
        kfunc(
            dispatch,
            "bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags)",
            dsq::move_to_local,
        ),
        kfunc(
            moves,
            "void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice)",
            dsq::move_set_slice,
        ),
        kfunc(
            moves,
            "void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime)",
            dsq::move_set_vtime,
        ),
        kfunc(
            moves,
            "bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, u64 enq_flags)",
            scx_bpf_dsq_move,
        ),
        kfunc(
            moves,
            "bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
             u64 enq_flags)",
            scx_bpf_dsq_move_vtime,
        ),
        kfunc(
            dispatch,
            "bool scx_bpf_sub_dispatch(u64 cgroup_id)",
            scx_bpf_sub_dispatch,
        ),
        kfunc(
            kf::CPU_RELEASE,
            "u32 scx_bpf_reenqueue_local(void)",
            dsq::reenqueue_local,
        ),
        kfunc(
            ANY,
            "void scx_bpf_reenqueue_local___v2(void)",
            scx_bpf_reenqueue_local_v2,
        ),
        kfunc(
            ANY,
            "void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags)",
            dsq::dsq_reenq,
        ),
        kfunc(
            ANY,
            "int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags)",
            dsq::iter_new,
        ),
        kfunc(
            ANY,
            "struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)",
            bpf_iter_scx_dsq_next,
        ),
        kfunc(
            ANY,
            "void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)",
            dsq::iter_destroy,
        ),
    ]
}

/// The names that kfuncs had before Linux 6.13, beside those they have.
const RENAMED: [(&str, &str); 7] = [
    ("scx_bpf_consume", "scx_bpf_dsq_move_to_local"),
    ("scx_bpf_dispatch", "scx_bpf_dsq_insert"),
    ("scx_bpf_dispatch_vtime", "scx_bpf_dsq_insert_vtime"),
    ("scx_bpf_dispatch_from_dsq", "scx_bpf_dsq_move"),
    ("scx_bpf_dispatch_from_dsq_set_slice", "scx_bpf_dsq_move_set_slice"),
    ("scx_bpf_dispatch_from_dsq_set_vtime", "scx_bpf_dsq_move_set_vtime"),
    ("scx_bpf_dispatch_vtime_from_dsq", "scx_bpf_dsq_move_vtime"),
];

/// The present name of a kfunc.
pub(super) fn renamed(name: &'static str) -> &'static str {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name);
    renamed.map_or(name, |&(_, present)| present)
}

/// What older releases have: see [`Release`](crate::policy::release::Release).
fn old_table() -> Vec<Kfunc> {
    let (dispatch, moves) = (kf::DISPATCH, kf::DISPATCH | kf::UNLOCKED);
    vec![
        kfunc(
            kf::ENQUEUE,
            "void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)",
            scx_bpf_dsq_insert,
        ),
        kfunc(
            kf::ENQUEUE,
            "void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)",
            scx_bpf_dsq_insert_vtime,
        ),
        kfunc(dispatch, "bool scx_bpf_consume(u64 dsq_id)", scx_bpf_dsq_move_to_local),
        kfunc(
            moves,
            "void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice)",
            dsq::move_set_slice,
        ),
        kfunc(
            moves,
            "void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime)",
            dsq::move_set_vtime,
        ),
        kfunc(
            moves,
            "bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
             u64 enq_flags)",
            scx_bpf_dsq_move,
        ),
        kfunc(
            moves,
            "bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
             u64 enq_flags)",
            scx_bpf_dsq_move_vtime,
        ),
    ]
}

fn addr(m: &Machine, task: Option<TaskId>) -> u64 {
    task.map_or(0, |task| m.layout.task_addr(task))
}

fn scx_bpf_dsq_peek(m: &mut Machine, dsq_id: u64) -> u64 {
    let first = dsq::peek(m, dsq_id);
    addr(m, first)
}

/// The task that is to be inserted, if there is one: not NULL. May be IDLE.
#[inline]
fn inserted(m: &Machine, p: u64) -> Result<Option<TaskId>, Fault> {
    match m.task_index(p) {
        None if p != 0 => any_task(m, p).map(|(p, _)| Some(p)),
        p => Ok(p),
    }
}

fn scx_bpf_dsq_insert(m: &mut Machine, p: u64, dsq_id: u64, slice: u64, enq_flags: u64) -> Result<bool, Fault> {
    let p = inserted(m, p)?;
    Ok(dsq::insert(m, p, dsq_id, slice, enq_flags))
}

fn scx_bpf_dsq_insert_vtime(
    m: &mut Machine,
    p: u64,
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    enq_flags: u64,
) -> Result<bool, Fault> {
    let p = inserted(m, p)?;
    Ok(dsq::insert_vtime(m, p, dsq_id, slice, vtime, enq_flags))
}

fn __scx_bpf_dsq_insert_vtime(m: &mut Machine, p: u64, args: u64) -> Result<bool, Fault> {
    let scx_bpf_dsq_insert_vtime_args {
        dsq_id,
        slice,
        vtime,
        enq_flags,
    } = m.region.load(args)?;
    scx_bpf_dsq_insert_vtime(m, p, dsq_id, slice, vtime, enq_flags)
}

fn scx_bpf_dispatch_nr_slots(m: &mut Machine) -> u32 {
    dsq::dispatch_nr_slots(m)
}

fn scx_bpf_dsq_move_to_local(m: &mut Machine, dsq_id: u64) -> bool {
    dsq::move_to_local(m, dsq_id, 0)
}

fn scx_bpf_dsq_move(m: &mut Machine, it: u64, p: u64, dsq_id: u64, enq_flags: u64) -> Result<bool, Fault> {
    let (p, _) = any_task(m, p)?;
    // No DSQ has an idle task.
    if p == IDLE {
        return Ok(false);
    }
    let moved = dsq::dsq_move(m, it, p, dsq_id, enq_flags)?;
    m.ext.nr_moved = m.ext.nr_moved.wrapping_add(u32::from(moved));
    Ok(moved)
}

fn scx_bpf_dsq_move_vtime(m: &mut Machine, it: u64, p: u64, dsq_id: u64, enq_flags: u64) -> Result<bool, Fault> {
    scx_bpf_dsq_move(m, it, p, dsq_id, enq_flags | SCX_ENQ_DSQ_PRIQ)
}

/// There are no sub-schedulers to dispatch from.
fn scx_bpf_sub_dispatch(_m: &mut Machine, _cgroup_id: u64) -> bool {
    false
}

fn scx_bpf_reenqueue_local_v2(m: &mut Machine) {
    dsq::dsq_reenq(m, SCX_DSQ_LOCAL, 0);
}

fn bpf_iter_scx_dsq_next(m: &mut Machine, it: u64) -> Result<u64, Fault> {
    let next = dsq::iter_next(m, it)?;
    Ok(addr(m, next))
}
