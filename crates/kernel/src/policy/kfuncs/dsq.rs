// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs for DSQs: creating and destroying DSQs, inserting and moving tasks, and iterating over
//! tasks.

use super::{Kfunc, any_task};
use crate::layout::callbacks::kf;
use crate::layout::enums::{SCX_DSQ_LOCAL, SCX_ENQ_DSQ_PRIQ};
use crate::layout::scx_bpf_dsq_insert_vtime_args;
use crate::machine::Machine;
use crate::sched::ext::{dsq_iter, insert, sub, user_dsq};
use crate::simulation::id::{IDLE, TaskId};
use bpf::fault::Fault;
use bpf::rows::*;
use std::mem::offset_of;

pub(super) fn table() -> Vec<Kfunc> {
    bpf::kfuncs! {
        "s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)"
        { releases: V6_12.., contexts: kf::UNLOCKED, rules: PLAIN.sleepable(), native: CALL, run: user_dsq::create }
        "void scx_bpf_destroy_dsq(u64 dsq_id)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: user_dsq::destroy }
        "s32 scx_bpf_dsq_nr_queued(u64 dsq_id)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 1, run: user_dsq::nr_queued }
        "struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN.ret_null().rcu_protected(), native: CALL,
          run: scx_bpf_dsq_peek }
        "void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)"
        { releases: V6_13.., contexts: kf::ENQUEUE, rules: PLAIN, native: 12, run: scx_bpf_dsq_insert }
        "bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)"
        { releases: V6_19.., contexts: kf::ENQUEUE, rules: PLAIN, native: 12, run: scx_bpf_dsq_insert }
        "void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)"
        { releases: V6_13.., contexts: kf::ENQUEUE, rules: PLAIN, native: 12, run: scx_bpf_dsq_insert_vtime }
        "bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args)"
        { releases: V6_19.., contexts: kf::ENQUEUE, rules: PLAIN, native: CALL, run: __scx_bpf_dsq_insert_vtime }
        "u32 scx_bpf_dispatch_nr_slots(void)"
        { releases: V6_12.., contexts: kf::DISPATCH, rules: PLAIN, native: CALL, run: scx_bpf_dispatch_nr_slots }
        "void scx_bpf_dispatch_cancel(void)"
        { releases: V6_12.., contexts: kf::DISPATCH, rules: PLAIN, native: CALL, run: insert::dispatch_cancel }
        "bool scx_bpf_dsq_move_to_local(u64 dsq_id)"
        { releases: V6_13.., contexts: kf::DISPATCH, rules: PLAIN, native: 12, run: scx_bpf_dsq_move_to_local }
        "bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags)"
        { releases: V7_1.., contexts: kf::DISPATCH, rules: PLAIN, native: 12, run: insert::move_to_local }
        "void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice)"
        { releases: V6_13.., contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: dsq_iter::move_set_slice }
        "void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime)"
        { releases: V6_13.., contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: dsq_iter::move_set_vtime }
        "bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, u64 enq_flags)"
        { releases: V6_13.., contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: 12, run: scx_bpf_dsq_move }
        "bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
         u64 enq_flags)"
        { releases: V6_13.., contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: scx_bpf_dsq_move_vtime }
        "bool scx_bpf_sub_dispatch(u64 cgroup_id)"
        { releases: V7_1.., contexts: kf::DISPATCH, rules: PLAIN, native: CALL, run: sub::dispatch }
        "u32 scx_bpf_reenqueue_local(void)"
        { releases: V6_12.., contexts: kf::CPU_RELEASE, rules: PLAIN, native: CALL, run: user_dsq::reenqueue_local }
        "void scx_bpf_reenqueue_local___v2(void)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_reenqueue_local_v2 }
        "void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags)"
        { releases: V7_1.., contexts: ANY, rules: PLAIN, native: CALL, run: user_dsq::dsq_reenq }
        "int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNew).rcu_protected(), native: 2, run: dsq_iter::iter_new }
        "struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNext).ret_null(), native: 3, run: bpf_iter_scx_dsq_next }
        "void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterDestroy), native: 0, run: dsq_iter::iter_destroy }
        // Names that the kfuncs had before Linux 6.13. Some later releases have these names in
        // addition to the current ones.
        "void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)"
        { releases: V6_12..V6_17, contexts: kf::ENQUEUE, rules: PLAIN, native: 12,
          run: scx_bpf_dsq_insert, now: "scx_bpf_dsq_insert" }
        "void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)"
        { releases: V6_12..V6_17, contexts: kf::ENQUEUE, rules: PLAIN, native: 12,
          run: scx_bpf_dsq_insert_vtime, now: "scx_bpf_dsq_insert_vtime" }
        "bool scx_bpf_consume(u64 dsq_id)"
        { releases: V6_12..V6_17, contexts: kf::DISPATCH, rules: PLAIN, native: 12,
          run: scx_bpf_dsq_move_to_local, now: "scx_bpf_dsq_move_to_local" }
        "void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice)"
        { releases: V6_12..V6_17, contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: dsq_iter::move_set_slice, now: "scx_bpf_dsq_move_set_slice" }
        "void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime)"
        { releases: V6_12..V6_17, contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: dsq_iter::move_set_vtime, now: "scx_bpf_dsq_move_set_vtime" }
        "bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
         u64 enq_flags)"
        { releases: V6_12..V6_17, contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: 12,
          run: scx_bpf_dsq_move, now: "scx_bpf_dsq_move" }
        "bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, \
         u64 enq_flags)"
        { releases: V6_12..V6_17, contexts: kf::DISPATCH | kf::UNLOCKED, rules: PLAIN, native: CALL,
          run: scx_bpf_dsq_move_vtime, now: "scx_bpf_dsq_move_vtime" }
    }
}

fn addr(m: &Machine, task: Option<TaskId>) -> u64 {
    task.map_or(0, |task| m.layout.task_addr(task))
}

fn scx_bpf_dsq_peek(m: &mut Machine, dsq_id: u64) -> u64 {
    let first = user_dsq::peek(m, dsq_id);
    addr(m, first)
}

/// Returns the task at the address `p`, which a policy wants to insert into a DSQ. The result is
/// IDLE for an idle task and `None` for NULL.
#[inline]
fn inserted(m: &Machine, p: u64) -> Result<Option<TaskId>, Fault> {
    match m.task_index(p) {
        None if p != 0 => any_task(m, p).map(|(p, _)| Some(p)),
        p => Ok(p),
    }
}

fn scx_bpf_dsq_insert(m: &mut Machine, p: u64, dsq_id: u64, slice: u64, enq_flags: u64) -> Result<bool, Fault> {
    let p = inserted(m, p)?;
    Ok(insert::insert(m, p, dsq_id, slice, enq_flags))
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
    Ok(insert::insert_vtime(m, p, dsq_id, slice, vtime, enq_flags))
}

fn __scx_bpf_dsq_insert_vtime(m: &mut Machine, p: u64, args: u64) -> Result<bool, Fault> {
    // One load of all members. Four loads take 50 instructions more in each call.
    const WORDS: usize = size_of::<scx_bpf_dsq_insert_vtime_args>() / 8;
    let words: [u64; WORDS] = m.region.load(args)?;
    let dsq_id = words[offset_of!(scx_bpf_dsq_insert_vtime_args, dsq_id) / 8];
    let slice = words[offset_of!(scx_bpf_dsq_insert_vtime_args, slice) / 8];
    let vtime = words[offset_of!(scx_bpf_dsq_insert_vtime_args, vtime) / 8];
    let enq_flags = words[offset_of!(scx_bpf_dsq_insert_vtime_args, enq_flags) / 8];
    scx_bpf_dsq_insert_vtime(m, p, dsq_id, slice, vtime, enq_flags)
}

fn scx_bpf_dispatch_nr_slots(m: &mut Machine) -> u32 {
    insert::dispatch_nr_slots(m)
}

fn scx_bpf_dsq_move_to_local(m: &mut Machine, dsq_id: u64) -> bool {
    insert::move_to_local(m, dsq_id, 0)
}

fn scx_bpf_dsq_move(m: &mut Machine, it: u64, p: u64, dsq_id: u64, enq_flags: u64) -> Result<bool, Fault> {
    let (p, _) = any_task(m, p)?;
    // Idle tasks are never on a DSQ.
    if p == IDLE {
        return Ok(false);
    }
    let moved = dsq_iter::dsq_move(m, it, p, dsq_id, enq_flags)?;
    m.ext.nr_moved = m.ext.nr_moved.wrapping_add(u32::from(moved));
    Ok(moved)
}

fn scx_bpf_dsq_move_vtime(m: &mut Machine, it: u64, p: u64, dsq_id: u64, enq_flags: u64) -> Result<bool, Fault> {
    scx_bpf_dsq_move(m, it, p, dsq_id, enq_flags | SCX_ENQ_DSQ_PRIQ)
}

fn scx_bpf_reenqueue_local_v2(m: &mut Machine) {
    user_dsq::dsq_reenq(m, SCX_DSQ_LOCAL, 0);
}

fn bpf_iter_scx_dsq_next(m: &mut Machine, it: u64) -> Result<u64, Fault> {
    let next = dsq_iter::iter_next(m, it)?;
    Ok(addr(m, next))
}
