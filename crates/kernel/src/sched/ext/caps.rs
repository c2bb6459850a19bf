// SPDX-License-Identifier: GPL-2.0-only
//! Capabilities of sub-schedulers: granting and revoking them, and what a policy without them cannot
//! do (kernel/sched/ext/sub.c of Linux 7.3).
//!
//! A task that a sub-scheduler inserts into a local DSQ without the capability goes to the CPU's
//! reject DSQ, from which it returns to ops.enqueue(), or to the rescue path (`rescue`).

use super::cmask::{mask, mask_size, write_mask};
use super::dsq::{dispatch_dequeue, rq_online};
use super::ecaps::queue_sync;
use super::enqueue::do_enqueue_task;
use super::{cid, exit, ops, rescue, sub};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::caps::{CpuCaps, SubCaps, Update, for_enq};
use crate::sched::ext::state::dsq::DsqRef;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::{CpuId, TaskId};
use bpf::errno::{EINVAL, ENODEV, ENOMEM, EOPNOTSUPP, EPERM};
use bpf::fault::Fault;

/// Returns those of the capabilities `needed` that a policy lacks on `cpu` (scx_missing_caps).
#[inline]
pub(crate) fn missing(m: &Machine, id: SchedId, cpu: CpuId, needed: u64) -> u64 {
    if id == SchedId::ROOT || !m.ext.enforces_caps() {
        return 0;
    }
    needed & !m.ext.sched(id).caps.cpus[cpu].effective
}

/// Returns whether a task may keep running on `cpu` (scx_task_can_stay_on_cpu).
pub(super) fn can_stay(m: &Machine, cpu: CpuId, task: TaskId) -> bool {
    !m.ext.enforces_caps()
        || m.tasks[task].migration_disabled() > 0
        || missing(m, m.tasks[task].ext.sched, cpu, SCX_CAP_BASE) == 0
}

/// Returns the capability that a policy needs in order to preempt the current task of `cpu`
/// (scx_caps_for_preempt).
pub(super) fn for_preempt(m: &Machine, id: SchedId, cpu: CpuId, enq_flags: u64) -> u64 {
    let curr = m.rqs[cpu].curr;
    let is_own = || m.ext.is_descendant(m.tasks[curr].ext.sched, id);
    if enq_flags & SCX_ENQ_IGNORE_CAPS != 0 || m.curr_class(cpu) != Class::Ext || is_own() {
        0
    } else {
        SCX_CAP_PREEMPT
    }
}

/// Creates the tables of a sub-scheduler, and its masks in its arena (scx_alloc_pshards). The
/// sub-scheduler is the current policy.
///
/// # Errors
/// A negative errno if the arena is full.
pub(super) fn alloc(m: &mut Machine) -> Result<(), i32> {
    let id = m.ext.current_sched();
    let nr_cpus = m.nr_cpus();
    let sizes: Vec<u64> = m
        .ext
        .cids
        .shards
        .iter()
        .map(|shard| mask_size(shard.len() as u32))
        .collect();
    let (pointer, address) = cid::alloc_arena(m, sizes.iter().sum()).ok_or(-ENOMEM)?;
    let mut offset = 0;
    let mut updates = Vec::new();
    for size in sizes {
        updates.push(Update {
            mask: (pointer + offset, address + offset),
            ..Update::default()
        });
        offset += size;
    }
    m.ext.sched_mut(id).caps = SubCaps {
        granted: vec![0; nr_cpus as usize],
        cpus: vec![CpuCaps::default(); nr_cpus as usize].into(),
        updates,
    };
    Ok(())
}

/// Returns the direct child of the current policy on a cgroup.
pub(crate) fn direct_child(m: &mut Machine, cgroup_id: u64) -> Result<SchedId, i32> {
    if !m.ext.cids.uses_cids() {
        exit::error(m, "sub-cap kfuncs require a cid-form scheduler");
        return Err(-EOPNOTSUPP);
    }
    let current = m.ext.current_sched();
    let child = sub::with_cgroup_id(m, cgroup_id).ok_or(-ENODEV)?;
    if m.ext.parent_of(child) != Some(current) {
        let path = sub::cgroup_path_of(m, current).to_owned();
        exit::error(m, format!("{path}: sub-{cgroup_id} is not a direct child"));
        return Err(-EINVAL);
    }
    Ok(child)
}

fn check_caps(m: &mut Machine, caps: u64) -> Result<(), i32> {
    if caps & !__SCX_CAP_ALL != 0 {
        exit::error(m, format!("invalid caps 0x{caps:x}"));
        return Err(-EINVAL);
    }
    Ok(())
}

/// Returns the capabilities that a policy has been granted for a cid.
fn granted(m: &Machine, id: SchedId, cid: u32) -> u64 {
    match id {
        SchedId::ROOT => __SCX_CAP_ALL,
        _ => m.ext.sched(id).caps.granted[cid as usize],
    }
}

/// Grants capabilities for the cids of a mask to a direct child (scx_bpf_sub_grant). A cid for which
/// the parent lacks one of them is denied, and added to the mask `denied` if there is one. Returns 0,
/// -EPERM if a cid was denied, or a different negative errno.
///
/// # Errors
/// A mask is not in the policy's arena.
pub(crate) fn grant(m: &mut Machine, cgroup_id: u64, caps: u64, cids: u64, denied: u64) -> Result<i32, Fault> {
    let child = match direct_child(m, cgroup_id).and_then(|child| check_caps(m, caps).map(|()| child)) {
        Ok(child) => child,
        Err(errno) => return Ok(errno),
    };
    let cids = match mask(m, cids, "cmask")? {
        Ok(cids) => cids.cids(m)?,
        Err(errno) => return Ok(errno),
    };
    let out = match denied as u32 {
        0 => None,
        _ => match mask(m, denied, "denied_out")? {
            Ok(out) => Some(out),
            Err(errno) => return Ok(errno),
        },
    };
    let parent = m.ext.current_sched();
    let (mut any_denied, mut changed) = (false, Vec::new());
    for cid in cids {
        if caps & !granted(m, parent, cid) != 0 {
            any_denied = true;
            if let Some(out) = out.as_ref().filter(|out| out.range().contains(&cid)) {
                out.set(m, cid, true)?;
            }
            continue;
        }
        // A child that is about to be enabled may have no tables yet.
        let Some(own) = m.ext.sched_mut(child).caps.granted.get_mut(cid as usize) else {
            return Ok(-ENODEV);
        };
        let new = caps & !*own;
        *own |= new;
        if new != 0 {
            changed.push((cid, new));
        }
    }
    let mut due = Vec::new();
    record_changes(m, child, &changed, &mut due);
    deliver(m, due);
    Ok(if any_denied { -EPERM } else { 0 })
}

/// Revokes capabilities for the cids of a mask from a direct child and from all policies below it
/// (scx_bpf_sub_revoke).
///
/// # Errors
/// The mask is not in the policy's arena.
pub(crate) fn revoke(m: &mut Machine, cgroup_id: u64, caps: u64, cids: u64) -> Result<(), Fault> {
    let Ok(child) = direct_child(m, cgroup_id).and_then(|child| check_caps(m, caps).map(|()| child)) else {
        return Ok(());
    };
    let Ok(cids) = mask(m, cids, "cmask")? else {
        return Ok(());
    };
    let cids = cids.cids(m)?;
    let mut due = Vec::new();
    for id in [child].into_iter().chain(m.ext.descendants(child)) {
        let mut changed = Vec::new();
        for &cid in &cids {
            // A sub-scheduler that is about to be enabled may have no tables yet.
            let Some(own) = m.ext.sched_mut(id).caps.granted.get_mut(cid as usize) else {
                continue;
            };
            let lost = *own & caps;
            *own &= !lost;
            if lost != 0 {
                changed.push((cid, lost));
            }
        }
        record_changes(m, id, &changed, &mut due);
    }
    deliver(m, due);
    Ok(())
}

/// Writes the cids for which a policy has at least one of some capabilities into a mask
/// (scx_bpf_sub_caps). The policy is the current one if `cgroup_id` is 0, otherwise a direct child.
/// Returns 0 or a negative errno.
///
/// # Errors
/// The mask is not in the policy's arena.
pub(crate) fn read(m: &mut Machine, cgroup_id: u64, caps: u64, out: u64) -> Result<i32, Fault> {
    if !m.ext.cids.uses_cids() {
        exit::error(m, "sub-cap kfuncs require a cid-form scheduler");
        return Ok(-EOPNOTSUPP);
    }
    if let Err(errno) = check_caps(m, caps) {
        return Ok(errno);
    }
    let target = match cgroup_id {
        0 => m.ext.current_sched(),
        _ => match direct_child(m, cgroup_id) {
            Ok(child) => child,
            Err(errno) => return Ok(errno),
        },
    };
    let has_storage = match target {
        SchedId::ROOT => !m.ext.cids.scratch.is_empty(),
        _ => !m.ext.sched(target).caps.granted.is_empty(),
    };
    if !has_storage {
        exit::error(m, "scx_bpf_sub_caps() called before caps storage is initialized");
        return Ok(-ENODEV);
    }
    let out = match mask(m, out, "out")? {
        Ok(out) => out,
        Err(errno) => return Ok(errno),
    };
    m.ext.vm().charge(u64::from(out.nr_cids))?;
    for cid in out.range() {
        out.set(m, cid, granted(m, target, cid) & caps != 0)?;
    }
    Ok(0)
}

/// Records changes of a sub-scheduler's capabilities (caps_updated_record), and makes the CPUs update
/// the effective ones. Adds the shards whose changes have to be delivered to `due`.
fn record_changes(m: &mut Machine, id: SchedId, changed: &[(u32, u64)], due: &mut Vec<(SchedId, usize)>) {
    for &(cid, caps) in changed {
        let shard = m.ext.cids.shard_of(cid);
        let update = &mut m.ext.sched_mut(id).caps.updates[shard];
        update.cids.insert(cid);
        update.caps |= caps;
        if !std::mem::replace(&mut update.is_in_flight, true) {
            due.push((id, shard));
        }
        queue_sync(m, id, cid);
    }
}

/// Calls ops.sub_caps_updated() for changed shards (caps_updated_deliver). A policy that is not enabled
/// yet, or that is ending, is not called.
fn deliver(m: &mut Machine, due: Vec<(SchedId, usize)>) {
    for (id, shard) in due {
        sub::in_sched(m, id, |m| {
            loop {
                let is_alive = m.ext.has_op(Callback::SubCapsUpdated) && m.ext.exit.is_none();
                let update = &mut m.ext.sched_mut(id).caps.updates[shard];
                if update.caps == 0 || !is_alive {
                    update.is_in_flight = false;
                    break;
                }
                let (caps, cids) = (std::mem::take(&mut update.caps), std::mem::take(&mut update.cids));
                let (pointer, address) = update.mask;
                let range = m.ext.cids.shards[shard].clone();
                if let Err(fault) = write_mask(m, address, range.start, range.len() as u32, &cids) {
                    exit::fault(m, "ops.sub_caps_updated()", &fault);
                    break;
                }
                let locked = m.ext.frame.locked_cpu;
                let frame = Frame {
                    locked_cpu: locked,
                    ..Frame::NONE
                };
                ops::call_framed(m, Callback::SubCapsUpdated, frame, &[pointer, caps]);
            }
        });
    }
}

/// Delivers changes from before the sub-scheduler was enabled (scx_sub_seed_caps).
pub(super) fn seed(m: &mut Machine, id: SchedId) {
    let updates = &mut m.ext.sched_mut(id).caps.updates;
    let pending = updates.iter_mut().enumerate();
    let pending = pending.filter(|(_, update)| update.caps != 0 && !update.is_in_flight);
    let due = pending
        .map(|(shard, update)| {
            update.is_in_flight = true;
            (id, shard)
        })
        .collect();
    deliver(m, due);
}

/// Returns the DSQ for an insertion into the local DSQ of `cpu` by the current policy: the local DSQ,
/// or the CPU's reject or rescue DSQ if the policy lacks a capability (scx_resolve_local_dsq). Clears
/// the flags that do not apply.
pub(super) fn resolve_local_dsq(m: &mut Machine, cpu: CpuId, task: TaskId, enq_flags: &mut u64) -> DsqRef {
    let local = m.ext.dsqs.local(cpu);
    let current = m.ext.current_sched();
    let mut needed = for_enq(*enq_flags);
    if *enq_flags & SCX_ENQ_PREEMPT != 0 {
        needed |= for_preempt(m, current, cpu, *enq_flags);
    }
    let lacks = missing(m, current, cpu, needed);
    if lacks == 0 {
        return local;
    }
    if !rq_online(m, cpu) || m.tasks[task].migration_disabled() > 0 {
        m.ext.stats.sub_forced_admit += 1;
        *enq_flags &= !SCX_ENQ_PREEMPT;
        return local;
    }
    *enq_flags &= !(SCX_ENQ_IMMED | SCX_ENQ_PREEMPT | SCX_ENQ_HEAD | SCX_ENQ_APPLY_SLICE | SCX_ENQ_SLICE_DFL);
    m.scx_clear_flag(task, SCX_TASK_IMMED);
    if *enq_flags & SCX_ENQ_RESCUE != 0 && m.ext.rescue.is_enabled() {
        m.ext.stats.sub_rescue += 1;
        if rescue::try_admit(m, cpu, task) {
            return local;
        }
        m.tasks[task].rare.linux_7_3.rescue_at = m.jiffies();
        return m.ext.dsqs.rescue(cpu);
    }
    set_reason(m, cpu, task, lacks);
    m.ext.dsqs.reject(cpu)
}

/// Stores why a task was rejected, for ops.enqueue().
fn set_reason(m: &mut Machine, cpu: CpuId, task: TaskId, caps: u64) {
    let cid = m.ext.cids.to_cid(cpu) as i32;
    m.scx_entity_mut(task).reenq_reason_caps = caps as u8;
    m.tasks[task].task_struct.scx_reenq_cid = cid;
}

/// Returns whether a task on `cpu` no longer has the capability to stay there, and stores the reason
/// (scx_task_reenq_on_cap_revoke).
pub(super) fn lost_place(m: &mut Machine, cpu: CpuId, task: TaskId) -> bool {
    if m.tasks[task].migration_disabled() > 0 || rescue::rescuee(m, cpu) == Some(task) {
        return false;
    }
    let needed = if m.scx_flag(task, SCX_TASK_IMMED) {
        SCX_CAP_ENQ_IMMED
    } else {
        SCX_CAP_ENQ
    };
    let lacks = missing(m, m.tasks[task].ext.sched, cpu, needed);
    if lacks != 0 {
        set_reason(m, cpu, task, lacks);
    }
    lacks != 0
}

/// Passes the tasks of a CPU's reject DSQ back to their policies (scx_reenq_reject).
pub(super) fn reenq_rejected(m: &mut Machine, cpu: CpuId) {
    let reject = m.ext.dsqs.reject(cpu);
    let mut tasks = Vec::new();
    while let Some(task) = m.ext.dsqs.first(reject) {
        dispatch_dequeue(m, cpu, task);
        tasks.push(task);
    }
    for task in tasks {
        m.scx_set_flag(task, SCX_TASK_REENQ_CAP);
        sub::in_sched_of(m, task, |m| do_enqueue_task(m, cpu, task, SCX_ENQ_REENQ));
        m.scx_clear_flag(task, SCX_TASK_REENQ_REASON_MASK);
    }
}
