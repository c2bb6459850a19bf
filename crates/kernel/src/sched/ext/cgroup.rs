// SPDX-License-Identifier: GPL-2.0-only
//! Calls the cgroup callbacks of a policy, such as ops.cgroup_init() and ops.cgroup_move().

use super::ops::{self};
use super::{exit, handover, lifecycle, sub};
use crate::layout::callbacks::Callback;
use crate::layout::scx_cgroup_init_args;
use crate::machine::Machine;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::TaskId;
use bpf::errno::EFAULT;
use std::mem::{offset_of, size_of};

/// Calls ops.cgroup_init() for all cgroups, parents first (scx_cgroup_init). Returns 0 or a
/// negative errno.
pub(super) fn init(m: &mut Machine) -> i32 {
    for cgroup in in_tree_order(m) {
        let result = call_cgroup_init(m, cgroup);
        if result != 0 {
            exit::error(m, format!("ops.cgroup_init() failed ({result})"));
            return result;
        }
        m.ext.initialized_cgroups.push(cgroup);
    }
    m.ext.cgroup_enabled = true;
    0
}

/// Calls ops.cgroup_init() with the cgroup's current settings. Returns the callback's result.
pub(super) fn call_cgroup_init(m: &mut Machine, cgroup: u32) -> i32 {
    if !m.ext.ops().defines(Callback::CgroupInit) {
        return 0;
    }
    let known = m.cgroups.get(cgroup);
    let mut args = [0; size_of::<scx_cgroup_init_args>()];
    let at = offset_of!(scx_cgroup_init_args, weight);
    args[at..at + 4].copy_from_slice(&known.weight.to_le_bytes());
    for (at, value) in [
        (offset_of!(scx_cgroup_init_args, bw_period_us), known.period_us),
        (offset_of!(scx_cgroup_init_args, bw_quota_us), known.quota_us),
        (offset_of!(scx_cgroup_init_args, bw_burst_us), known.burst_us),
    ] {
        args[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    args[offset_of!(scx_cgroup_init_args, sched_idle)] = u8::from(known.idle);
    let addr = m.layout.cgroup_addr(cgroup);
    ops::call_with_struct(m, Callback::CgroupInit, Frame::NONE, addr, &args).map_or(-EFAULT, |result| result as i32)
}

/// Calls ops.cgroup_exit() for all initialized cgroups, children first (scx_cgroup_exit).
pub(super) fn exit(m: &mut Machine) {
    m.ext.cgroup_enabled = false;
    while let Some(cgroup) = m.ext.initialized_cgroups.pop() {
        if m.ext.ops().defines(Callback::CgroupExit) {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Callback::CgroupExit, &[addr]);
        }
    }
}

/// Calls ops.cgroup_init() for a new cgroup (scx_tg_online).
///
/// # Errors
/// The positive errno that ops.cgroup_init() returned, if it failed.
pub(crate) fn online(m: &mut Machine, cgroup: u32) -> Result<(), i32> {
    if !m.ext.cgroup_enabled {
        return Ok(());
    }
    let owner = if m.ext.is_linux_7_3 {
        sub::sched_of_cgroup(m, cgroup)
    } else {
        SchedId::ROOT
    };
    sub::in_sched(m, owner, |m| {
        let result = if m.ext.has_op(Callback::CgroupInit) {
            call_cgroup_init(m, cgroup)
        } else {
            0
        };
        match result {
            0 => Ok(()),
            _ => Err(-exit::sanitize(m, "cgroup_init", result)),
        }
    })?;
    handover::set_owner(m, cgroup, owner);
    m.ext.initialized_cgroups.push(cgroup);
    Ok(())
}

/// Calls ops.cgroup_exit() for a removed cgroup (scx_tg_offline), and ends its sub-scheduler.
pub(crate) fn offline(m: &mut Machine, cgroup: u32) {
    if m.ext.has_subs() {
        sub::cgroup_offline(m, cgroup);
    }
    let addr = m.layout.cgroup_addr(cgroup);
    let known = m.ext.initialized_cgroups.iter().position(|&known| known == cgroup);
    if let Some(known) = known {
        let owner = handover::owner(m, cgroup);
        sub::in_sched(m, owner, |m| {
            if m.ext.cgroup_enabled && m.ext.has_op(Callback::CgroupExit) {
                ops::call(m, Callback::CgroupExit, &[addr]);
            }
        });
        handover::set_owner(m, cgroup, SchedId::ROOT);
        m.ext.initialized_cgroups.remove(known);
    }
}

/// Drops the core's reference to a removed cgroup (css_release). The cgroup's BPF local storage is
/// freed when its last reference is dropped.
pub(crate) fn release(m: &mut Machine, cgroup: u32) {
    let addr = m.layout.cgroup_addr(cgroup);
    let owners = m.layout.put_cgroup(addr).unwrap_or_else(|| vec![addr]);
    lifecycle::free_local_storage(m, owners);
}

/// Drops a reference that the policy holds to the cgroup at address `addr`. Returns false if the
/// policy holds no reference.
#[must_use]
pub(crate) fn put(m: &mut Machine, addr: u64) -> bool {
    let Some(owners) = m.layout.put_cgroup(addr) else {
        return false;
    };
    lifecycle::free_local_storage(m, owners);
    true
}

/// Calls ops.cgroup_set_weight() before the cgroup's weight changes (scx_group_set_weight).
pub(crate) fn set_weight(m: &mut Machine, cgroup: u32, weight: u32) {
    let owner = handover::knob_owner(m, cgroup);
    sub::in_sched(m, owner, |m| {
        if m.ext.cgroup_enabled && m.ext.has_op(Callback::CgroupSetWeight) && m.cgroups.get(cgroup).weight != weight {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Callback::CgroupSetWeight, &[addr, weight.into()]);
        }
    });
}

/// Calls ops.cgroup_set_idle() before cpu.idle of the cgroup is set (scx_group_set_idle). Before Linux
/// 7.3, unlike the callbacks for the weight and the limits, it is called even if the value does not
/// change.
pub(crate) fn set_idle(m: &mut Machine, cgroup: u32, idle: bool) {
    let owner = handover::knob_owner(m, cgroup);
    let changes = !m.ext.is_linux_7_3 || m.cgroups.get(cgroup).idle != idle;
    sub::in_sched(m, owner, |m| {
        if m.ext.cgroup_enabled && m.ext.has_op(Callback::CgroupSetIdle) && changes {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Callback::CgroupSetIdle, &[addr, idle.into()]);
        }
    });
}

/// Calls ops.cgroup_set_bandwidth() before the cgroup's limits change (scx_group_set_bandwidth).
pub(crate) fn set_bandwidth(m: &mut Machine, cgroup: u32, period_us: u64, quota_us: u64, burst_us: u64) {
    let known = m.cgroups.get(cgroup);
    let same = (known.period_us, known.quota_us, known.burst_us) == (period_us, quota_us, burst_us);
    let owner = handover::knob_owner(m, cgroup);
    sub::in_sched(m, owner, |m| {
        if m.ext.cgroup_enabled && m.ext.has_op(Callback::CgroupSetBandwidth) && !same {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Callback::CgroupSetBandwidth, &[addr, period_us, quota_us, burst_us]);
        }
    });
}

/// Returns the online cgroups, parents before children.
pub(super) fn in_tree_order(m: &Machine) -> Vec<u32> {
    let mut cgroups: Vec<u32> = (0..m.workload.cgroups.len().max(1) as u32).collect();
    cgroups.retain(|&cgroup| m.cgroups.get(cgroup).online);
    let cgroup = |index: u32| m.workload.cgroups.get(index as usize);
    cgroups.sort_by_key(|&index| {
        cgroup(index).map(|cgroup| cgroup.path.trim_end_matches('/').split('/').collect::<Vec<_>>())
    });
    cgroups
}

/// Returns the cgroups of a list in tree order, children before their parents
/// (css_for_each_descendant_post).
pub(super) fn in_post_order(m: &Machine, cgroups: &[u32]) -> Vec<u32> {
    let mut order = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    for &cgroup in cgroups {
        let is_above = |&above: &u32| sub::is_below(m, cgroup, above);
        while let Some(done) = open.pop_if(|above| !is_above(above)) {
            order.push(done);
        }
        open.push(cgroup);
    }
    order.extend(open.into_iter().rev());
    order
}

/// Calls ops.cgroup_prep_move() for tasks that are about to move to another cgroup
/// (scx_cgroup_can_attach).
///
/// If the policy rejects the move of one task, no task moves. ops.cgroup_cancel_move() is then
/// called for the tasks that were already prepared.
///
/// # Errors
/// The positive errno that ops.cgroup_prep_move() returned, if it failed.
pub(crate) fn can_attach(m: &mut Machine, set: &[TaskId], to: u32) -> Result<(), i32> {
    if !m.ext.cgroup_enabled {
        return Ok(());
    }
    handover::prepare(m, set, to)?;
    for &task in set {
        let from = m.tasks[task].cgroup();
        if from == to || handover::new_home(m, task, to).is_some() {
            continue;
        }
        let prepared = sub::in_sched(m, mover(m, task), |m| {
            if !m.ext.has_op(Callback::CgroupPrepMove) {
                return Ok(());
            }
            let args = move_args(m, task, from, to);
            let result = ops::call(m, Callback::CgroupPrepMove, &args) as i32;
            match result {
                0 => Ok(()),
                _ => Err(-exit::sanitize(m, "cgroup_prep_move", result)),
            }
        });
        if let Err(errno) = prepared {
            cancel(m, set, to);
            handover::cancel(m, set, to);
            return Err(errno);
        }
        m.tasks[task].rare.moving_from = Some(from);
    }
    Ok(())
}

/// Calls ops.cgroup_cancel_move() for the tasks of `set` that were prepared for the move
/// (scx_cgroup_cancel_attach).
fn cancel(m: &mut Machine, set: &[TaskId], to: u32) {
    for &task in set {
        let Some(from) = m.tasks[task].rare.moving_from.take() else {
            continue;
        };
        sub::in_sched(m, mover(m, task), |m| {
            if m.ext.has_op(Callback::CgroupCancelMove) {
                let args = move_args(m, task, from, to);
                ops::call(m, Callback::CgroupCancelMove, &args);
            }
        });
    }
}

/// Returns the policy whose callbacks are called when a task moves between cgroups: the task's own, and
/// the root policy before Linux 7.3.
fn mover(m: &Machine, task: TaskId) -> SchedId {
    if m.ext.is_linux_7_3 {
        m.tasks[task].ext.sched
    } else {
        SchedId::ROOT
    }
}

fn move_args(m: &Machine, task: TaskId, from: u32, to: u32) -> [u64; 3] {
    [
        m.tasks[task].addr(),
        m.layout.cgroup_addr(from),
        m.layout.cgroup_addr(to),
    ]
}

/// Calls ops.cgroup_move() for a task that has moved to another cgroup (scx_cgroup_move_task). The
/// task is not queued during the call.
pub(crate) fn moved(m: &mut Machine, task: TaskId, to: u32) {
    let Some(from) = m.tasks[task].rare.moving_from.take() else {
        return;
    };
    sub::in_sched(m, mover(m, task), |m| {
        if m.ext.cgroup_enabled && m.ext.has_op(Callback::CgroupMove) {
            let args = move_args(m, task, from, to);
            let frame = Frame::about(task, Some(m.tasks[task].cpu()));
            ops::call_framed(m, Callback::CgroupMove, frame, &args);
        }
    });
}
