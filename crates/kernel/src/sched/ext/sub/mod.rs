// SPDX-License-Identifier: GPL-2.0-only
//! Sub-schedulers: policies that schedule the tasks of a cgroup and of the cgroups below it, on
//! behalf of the policy that schedules the rest of the machine (scx_sub_enable_workfn,
//! scx_sub_disable and scx_bpf_sub_dispatch of Linux 7.2). In Linux 7.3, sub-schedulers need
//! capabilities to use CPUs (`caps`). Sub-schedulers can have sub-schedulers.
//!
//! The code of sched_ext acts for the current policy ([`Core::current_sched`]). [`in_sched`] makes a
//! different policy the current one during a call.
//!
//! A sub-scheduler that fails is put into bypass mode, and its tasks go to the bypass DSQs of its
//! parent. After a grace period they return to the parent. Neither the parent nor the other
//! sub-schedulers are interrupted.
//!
//! [`Core::current_sched`]: crate::sched::ext::state::core::Core::current_sched

mod disable;
mod enable;

pub(super) use disable::{advance_endings, cgroup_offline, finish_children, finish_failed, has_due_ending};
pub(crate) use enable::{abandon, detach, enable, install};

use crate::layout::callbacks::Callback;
use crate::layout::enums::SCX_CAP_BASE;
use crate::layout::{sched_ext_ops, scx_sub_attach_args};
use crate::machine::Machine;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::state::scheds::{Phase, SchedId};
use crate::sched::ext::{caps, dispatch, exit, ops};
use crate::simulation::id::TaskId;
use std::mem::offset_of;

/// Calls `f` while `id` is the current policy.
#[inline]
pub(crate) fn in_sched<R>(m: &mut Machine, id: SchedId, f: impl FnOnce(&mut Machine) -> R) -> R {
    // `f` is called in one place only, so that the compiler can inline it.
    let outer = (m.ext.current_sched() != id).then(|| enter(m, id));
    let result = f(m);
    if let Some((outer, frame)) = outer {
        leave(m, outer, frame);
    }
    result
}

/// Calls `f` while the policy that schedules `task` is the current one.
#[inline(always)]
pub(crate) fn in_sched_of<R>(m: &mut Machine, task: TaskId, f: impl FnOnce(&mut Machine) -> R) -> R {
    let id = m.tasks[task].ext.sched;
    in_sched(m, id, f)
}

#[cold]
fn enter(m: &mut Machine, id: SchedId) -> (SchedId, Frame) {
    ops::settle_any(m);
    let (outer, frame) = (m.ext.current_sched(), m.ext.frame);
    // The callbacks of the policies that are suspended meanwhile are not visible to this policy. The
    // lock of the runqueue remains held.
    m.ext.frame = Frame {
        locked_cpu: frame.locked_cpu,
        ..Frame::NONE
    };
    m.ext.switch_to(id);
    (outer, frame)
}

#[cold]
fn leave(m: &mut Machine, outer: SchedId, frame: Frame) {
    ops::settle_any(m);
    m.ext.switch_to(outer);
    m.ext.frame = frame;
}

/// Returns the policy that schedules the tasks of a cgroup (cgroup.scx_sched).
pub(crate) fn sched_of_cgroup(m: &Machine, cgroup: u32) -> SchedId {
    if !m.ext.has_subs() {
        return SchedId::ROOT;
    }
    let mut at = Some(cgroup);
    while let Some(cgroup) = at {
        let owns = |&id: &SchedId| {
            let sched = m.ext.sched(id);
            sched.phase == Phase::Owner && sched.cgroup == cgroup
        };
        if let Some(owner) = m.ext.live_subs().find(owns) {
            return owner;
        }
        at = m.layout.parent_of_cgroup(cgroup);
    }
    SchedId::ROOT
}

/// Returns the sub-scheduler that is attached to a cgroup.
fn attached_to(m: &Machine, cgroup: u32) -> Option<SchedId> {
    m.ext.live_subs().find(|&id| m.ext.sched(id).cgroup == cgroup)
}

/// Returns the sub-scheduler that is attached to the cgroup with this id of the kernel.
pub(super) fn with_cgroup_id(m: &Machine, cgroup_id: u64) -> Option<SchedId> {
    let id_of = |id: SchedId| m.layout.cgroup_id(m.ext.sched(id).cgroup);
    m.ext.live_subs().find(|&id| id_of(id) == cgroup_id)
}

fn cgroup_path(m: &Machine, cgroup: u32) -> &str {
    m.workload
        .cgroups
        .get(cgroup as usize)
        .map_or("/", |cgroup| &cgroup.path)
}

/// Returns whether `cgroup` is `ancestor` or below it.
pub(super) fn is_below(m: &Machine, cgroup: u32, ancestor: u32) -> bool {
    std::iter::successors(Some(cgroup), |&at| m.layout.parent_of_cgroup(at)).any(|at| at == ancestor)
}

/// Returns the path of the cgroup that a policy schedules.
pub(super) fn cgroup_path_of(m: &Machine, id: SchedId) -> &str {
    match id {
        SchedId::ROOT => "/",
        _ => cgroup_path(m, m.ext.sched(id).cgroup),
    }
}

/// Calls ops.sub_attach() or ops.sub_detach() of the parent of `id`. Returns the result, or `None` if
/// the callback faults.
fn call_parent(m: &mut Machine, op: Callback, id: SchedId) -> Option<u64> {
    let cgroup = m.ext.sched(id).cgroup;
    let child = m.ext.ops_of(id);
    let (flags, name) = (child.flags, child.name().to_owned());
    let (region, path) = (m.region.clone(), m.layout.cgroup_path_addr(cgroup));
    let table = region.alloc(size_of::<sched_ext_ops>() as u64)?;
    let Some(args) = region.alloc(size_of::<scx_sub_attach_args>() as u64) else {
        region.free(table);
        return None;
    };
    let cgroup_id = m.layout.cgroup_id(cgroup);
    let written = region
        .write(table, &vec![0; size_of::<sched_ext_ops>()])
        .and_then(|()| region.store(table + offset_of!(sched_ext_ops, sub_cgroup_id) as u64, cgroup_id))
        .and_then(|()| region.store(table + offset_of!(sched_ext_ops, flags) as u64, flags))
        .and_then(|()| region.write(table + offset_of!(sched_ext_ops, name) as u64, name.as_bytes()))
        .and_then(|()| region.store(args + offset_of!(scx_sub_attach_args, ops) as u64, table))
        .and_then(|()| region.store(args + offset_of!(scx_sub_attach_args, cgroup_path) as u64, path));
    debug_assert!(written.is_ok());
    let parent = m.ext.sched(id).parent;
    let result = in_sched(m, parent, |m| ops::call_framed(m, op, Frame::NONE, &[args]));
    region.free(table);
    region.free(args);
    result
}

/// Calls ops.dispatch() of the sub-scheduler of a cgroup, which must be a direct child of the current
/// policy (scx_bpf_sub_dispatch). Returns whether the CPU then has a task to run.
pub(crate) fn dispatch(m: &mut Machine, cgroup_id: u64) -> bool {
    let (current, cpu) = (m.ext.current_sched(), m.ext.dsp.cpu);
    let Some(child) = with_cgroup_id(m, cgroup_id) else {
        return false;
    };
    if m.ext.parent_of(child) != Some(current) {
        exit::error(
            m,
            format!("trying to dispatch a distant sub-sched on cgroup {cgroup_id}"),
        );
        return false;
    }
    if caps::missing(m, child, cpu, SCX_CAP_BASE) != 0 {
        return false;
    }
    in_sched(m, child, |m| dispatch::dispatch_nested(m, cpu))
}
