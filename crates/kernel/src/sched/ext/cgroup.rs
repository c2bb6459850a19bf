// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups and the policy (scx_cgroup_init, scx_tg_online, scx_cgroup_can_attach, scx_group_set_*).

use super::ops::{self};
use super::{exit, lifecycle};
use crate::machine::Machine;
use crate::policy::callbacks::Op;
use crate::policy::layout::scx_cgroup_init_args;
use crate::sched::ext::ops_table::Frame;
use crate::simulation::id::TaskId;
use bpf::errno::EFAULT;
use std::mem::{offset_of, size_of};

/// scx_cgroup_init: introduces all cgroups, parents first. 0 or an errno.
pub(super) fn init(m: &mut Machine) -> i32 {
    for cgroup in in_tree_order(m) {
        let result = introduce(m, cgroup);
        if result != 0 {
            exit::error(m, format!("ops.cgroup_init() failed ({result})"));
            return result;
        }
        m.ext.cgroups_known.push(cgroup);
    }
    m.ext.cgroup_enabled = true;
    0
}

/// Calls ops.cgroup_init() with what the cgroup has at present. What it returned.
fn introduce(m: &mut Machine, cgroup: u32) -> i32 {
    if !m.ext.ops().defines(Op::CgroupInit) {
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
    let addr = m.layout.cgroup_addr(cgroup);
    ops::call_with_struct(m, Op::CgroupInit, Frame::NONE, addr, &args).map_or(-EFAULT, |result| result as i32)
}

/// scx_cgroup_exit: takes leave of the cgroups that were introduced, children first.
pub(super) fn exit(m: &mut Machine) {
    m.ext.cgroup_enabled = false;
    while let Some(cgroup) = m.ext.cgroups_known.pop() {
        if m.ext.ops().defines(Op::CgroupExit) {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Op::CgroupExit, &[addr]);
        }
    }
}

/// scx_tg_online: a cgroup was made.
///
/// # Errors
/// The errno with which the policy refuses it.
pub(crate) fn online(m: &mut Machine, cgroup: u32) -> Result<(), i32> {
    if !m.ext.cgroup_enabled {
        return Ok(());
    }
    let result = if m.ext.has_op(Op::CgroupInit) {
        introduce(m, cgroup)
    } else {
        0
    };
    if result != 0 {
        return Err(-exit::sanitize(m, "cgroup_init", result));
    }
    m.ext.cgroups_known.push(cgroup);
    Ok(())
}

/// scx_tg_offline: a cgroup was removed.
pub(crate) fn offline(m: &mut Machine, cgroup: u32) {
    let addr = m.layout.cgroup_addr(cgroup);
    let known = m.ext.cgroups_known.iter().position(|&known| known == cgroup);
    if let Some(known) = known {
        if m.ext.cgroup_enabled && m.ext.has_op(Op::CgroupExit) {
            ops::call(m, Op::CgroupExit, &[addr]);
        }
        m.ext.cgroups_known.remove(known);
    }
}

/// css_release of a cgroup that was removed: what programs keep for it goes with its last reference.
pub(crate) fn release(m: &mut Machine, cgroup: u32) {
    let addr = m.layout.cgroup_addr(cgroup);
    let gone = m.layout.put_cgroup(addr).unwrap_or_else(|| vec![addr]);
    lifecycle::gone(m, gone);
}

/// cgroup_put of the policy's. `false`: it holds no reference to the cgroup at this address.
#[must_use]
pub(crate) fn put(m: &mut Machine, addr: u64) -> bool {
    let Some(gone) = m.layout.put_cgroup(addr) else {
        return false;
    };
    lifecycle::gone(m, gone);
    true
}

/// scx_group_set_weight, before the cgroup has the new weight.
pub(crate) fn set_weight(m: &mut Machine, cgroup: u32, weight: u32) {
    if m.ext.cgroup_enabled && m.ext.has_op(Op::CgroupSetWeight) && m.cgroups.get(cgroup).weight != weight {
        let addr = m.layout.cgroup_addr(cgroup);
        ops::call(m, Op::CgroupSetWeight, &[addr, weight.into()]);
    }
}

/// scx_group_set_idle: told even where nothing changes.
pub(crate) fn set_idle(m: &mut Machine, cgroup: u32, idle: bool) {
    if m.ext.cgroup_enabled && m.ext.has_op(Op::CgroupSetIdle) {
        let addr = m.layout.cgroup_addr(cgroup);
        ops::call(m, Op::CgroupSetIdle, &[addr, idle.into()]);
    }
}

/// scx_group_set_bandwidth, before the cgroup has the new limits.
pub(crate) fn set_bandwidth(m: &mut Machine, cgroup: u32, period_us: u64, quota_us: u64, burst_us: u64) {
    let known = m.cgroups.get(cgroup);
    let same = (known.period_us, known.quota_us, known.burst_us) == (period_us, quota_us, burst_us);
    if m.ext.cgroup_enabled && m.ext.has_op(Op::CgroupSetBandwidth) && !same {
        let addr = m.layout.cgroup_addr(cgroup);
        ops::call(m, Op::CgroupSetBandwidth, &[addr, period_us, quota_us, burst_us]);
    }
}

/// The cgroups that are there, each after the one it is in.
fn in_tree_order(m: &Machine) -> Vec<u32> {
    let mut cgroups: Vec<u32> = (0..m.workload.cgroups.len().max(1) as u32).collect();
    cgroups.retain(|&cgroup| m.cgroups.get(cgroup).online);
    let cgroup = |index: u32| m.workload.cgroups.get(index as usize);
    cgroups.sort_by_key(|&index| {
        cgroup(index).map(|cgroup| cgroup.path.trim_end_matches('/').split('/').collect::<Vec<_>>())
    });
    cgroups
}

/// scx_cgroup_can_attach: may these tasks move? If not, they all stay; those that were told of the move are told that it is
/// off. Before they are taken off their queues.
///
/// # Errors
/// The errno with which the policy refuses.
pub(crate) fn can_attach(m: &mut Machine, set: &[TaskId], to: u32) -> Result<(), i32> {
    if !m.ext.cgroup_enabled {
        return Ok(());
    }
    for &task in set {
        let from = m.tasks[task].cgroup;
        if from == to {
            continue;
        }
        if m.ext.has_op(Op::CgroupPrepMove) {
            let args = move_args(m, task, from, to);
            let result = ops::call(m, Op::CgroupPrepMove, &args) as i32;
            if result != 0 {
                cancel(m, set, to);
                return Err(-exit::sanitize(m, "cgroup_prep_move", result));
            }
        }
        m.tasks[task].moving_from = Some(from);
    }
    Ok(())
}

/// scx_cgroup_cancel_attach
fn cancel(m: &mut Machine, set: &[TaskId], to: u32) {
    for &task in set {
        let from = m.tasks[task].moving_from.take();
        if let Some(from) = from.filter(|_| m.ext.has_op(Op::CgroupCancelMove)) {
            let args = move_args(m, task, from, to);
            ops::call(m, Op::CgroupCancelMove, &args);
        }
    }
}

fn move_args(m: &Machine, task: TaskId, from: u32, to: u32) -> [u64; 3] {
    [m.tasks[task].addr, m.layout.cgroup_addr(from), m.layout.cgroup_addr(to)]
}

/// scx_cgroup_move_task: the task has moved, and is off its queue.
pub(crate) fn moved(m: &mut Machine, task: TaskId, to: u32) {
    let Some(from) = m.tasks[task].moving_from.take() else {
        return;
    };
    if m.ext.cgroup_enabled && m.ext.has_op(Op::CgroupMove) {
        let args = move_args(m, task, from, to);
        let frame = Frame::about(task, Some(m.tasks[task].cpu));
        ops::call_framed(m, Op::CgroupMove, frame, &args);
    }
}
