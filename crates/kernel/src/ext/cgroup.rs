// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups and the policy: they all exist from the start of a run, tasks move between them. CPU bandwidth limits are not
//! modelled, weights do not change.

use super::exit;
use super::ops::{self, Frame, Op};
use crate::layout::scx_cgroup_init_args;
use crate::machine::Machine;
use crate::task::TaskId;
use std::mem::{offset_of, size_of};

/// No limit (RUNTIME_INF), and the period it would be for.
const BW_QUOTA_INF: u64 = u64::MAX;
const BW_PERIOD_US: u64 = 100_000;

/// scx_cgroup_init: introduces all cgroups, parents first. 0 or an errno.
pub(super) fn init(m: &mut Machine) -> i32 {
    for cgroup in in_tree_order(m) {
        if m.ext.ops.defines(Op::CgroupInit) {
            let mut args = [0; size_of::<scx_cgroup_init_args>()];
            let weight = m
                .workload
                .cgroups
                .get(cgroup as usize)
                .map_or(100, |cgroup| cgroup.weight);
            let at = offset_of!(scx_cgroup_init_args, weight);
            args[at..at + 4].copy_from_slice(&weight.to_le_bytes());
            for (at, value) in [
                (offset_of!(scx_cgroup_init_args, bw_period_us), BW_PERIOD_US),
                (offset_of!(scx_cgroup_init_args, bw_quota_us), BW_QUOTA_INF),
            ] {
                args[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            let addr = m.layout.cgroup_addr(cgroup);
            const EFAULT: i32 = 14;
            let result = ops::call_with_struct(m, Op::CgroupInit, Frame::NONE, addr, &args)
                .map_or(-EFAULT, |result| result as i32);
            if result != 0 {
                exit::error(m, format!("ops.cgroup_init() failed ({result})"));
                return result;
            }
        }
        m.ext.cgroups_known.push(cgroup);
    }
    m.ext.cgroup_enabled = true;
    0
}

/// scx_cgroup_exit: takes leave of the cgroups that were introduced, children first.
pub(super) fn exit(m: &mut Machine) {
    m.ext.cgroup_enabled = false;
    while let Some(cgroup) = m.ext.cgroups_known.pop() {
        if m.ext.ops.defines(Op::CgroupExit) {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Op::CgroupExit, &[addr]);
        }
    }
}

/// The workload's cgroups, each after the one it is in.
fn in_tree_order(m: &Machine) -> Vec<u32> {
    let mut cgroups: Vec<u32> = (0..m.workload.cgroups.len().max(1) as u32).collect();
    let cgroup = |index: u32| m.workload.cgroups.get(index as usize);
    cgroups.sort_by_key(|&index| {
        cgroup(index).map(|cgroup| cgroup.path.trim_end_matches('/').split('/').collect::<Vec<_>>())
    });
    cgroups
}

/// scx_cgroup_can_attach: may the task move? If not, it stays. Before it is taken off its queue.
pub(super) fn prep_move(m: &mut Machine, task: TaskId, from: u32, to: u32) -> bool {
    if !m.ext.cgroup_enabled {
        return true;
    }
    let args = [
        m.tasks[task as usize].addr,
        m.layout.cgroup_addr(from),
        m.layout.cgroup_addr(to),
    ];
    if m.ext.ops.has(Op::CgroupPrepMove) {
        let result = ops::call(m, Op::CgroupPrepMove, &args) as i32;
        if result != 0 {
            exit::sanitize(m, "cgroup_prep_move", result);
            return false;
        }
    }
    m.tasks[task as usize].ext.moving_from = Some(from);
    true
}

/// scx_cgroup_move_task: the task has moved.
pub(super) fn moved(m: &mut Machine, task: TaskId, to: u32) {
    let Some(from) = m.tasks[task as usize].ext.moving_from.take() else {
        return;
    };
    if m.ext.cgroup_enabled && m.ext.ops.has(Op::CgroupMove) {
        let args = [
            m.tasks[task as usize].addr,
            m.layout.cgroup_addr(from),
            m.layout.cgroup_addr(to),
        ];
        let frame = Frame::about(task, m.tasks[task as usize].cpu);
        ops::call_framed(m, Op::CgroupMove, frame, &args);
    }
}
