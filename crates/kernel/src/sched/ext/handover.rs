// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups and tasks that change from one policy to another (Linux 7.3): the cgroups of a
//! sub-scheduler when it is enabled and disabled, and tasks that move to a cgroup of a different
//! policy.

use super::cgroup::{call_cgroup_init, in_post_order, in_tree_order};
use super::{enable, exit, lifecycle, ops, sub};
use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::state::entity::TaskState;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::TaskId;

/// Returns the policy that knows a cgroup (scx_task_group.sched).
pub(super) fn owner(m: &Machine, cgroup: u32) -> SchedId {
    m.ext.cgroup_owners.get(&cgroup).copied().unwrap_or(SchedId::ROOT)
}

pub(super) fn set_owner(m: &mut Machine, cgroup: u32, owner: SchedId) {
    if owner == SchedId::ROOT {
        m.ext.cgroup_owners.remove(&cgroup);
    } else {
        m.ext.cgroup_owners.insert(cgroup, owner);
    }
}

/// Returns the policy whose callbacks are called when a setting of a cgroup changes: the settings of a
/// cgroup belong to its parent (scx_tg_knob_sched).
pub(super) fn knob_owner(m: &Machine, cgroup: u32) -> SchedId {
    if !m.ext.is_linux_7_3 {
        return SchedId::ROOT;
    }
    m.layout
        .parent_of_cgroup(cgroup)
        .map_or(SchedId::ROOT, |parent| owner(m, parent))
}

/// Returns the cgroups of `from` that belong to a sub-scheduler's subtree, parents first.
fn subtree(m: &Machine, id: SchedId, from: SchedId) -> Vec<u32> {
    let top = m.ext.sched(id).cgroup;
    let mut cgroups = in_tree_order(m);
    cgroups.retain(|&cgroup| owner(m, cgroup) == from && sub::is_below(m, cgroup, top));
    cgroups
}

fn call_cgroup_exit(m: &mut Machine, id: SchedId, cgroup: u32) {
    sub::in_sched(m, id, |m| {
        if m.ext.has_op(Callback::CgroupExit) {
            let addr = m.layout.cgroup_addr(cgroup);
            ops::call(m, Callback::CgroupExit, &[addr]);
        }
    });
}

/// Calls ops.cgroup_init() of a policy. Returns 0 or the callback's result.
fn init_on(m: &mut Machine, id: SchedId, cgroup: u32) -> i32 {
    sub::in_sched(m, id, |m| match m.ext.has_op(Callback::CgroupInit) {
        true => call_cgroup_init(m, cgroup),
        false => 0,
    })
}

/// Passes the cgroups of a sub-scheduler that is being enabled from its parent to it
/// (scx_cgroup_claim_subtree).
///
/// # Errors
/// The result of ops.cgroup_init(), which has ended the sub-scheduler. The parent keeps all cgroups.
pub(super) fn claim_cgroups(m: &mut Machine, id: SchedId, parent: SchedId) -> Result<(), i32> {
    let cgroups = subtree(m, id, parent);
    for (index, &cgroup) in cgroups.iter().enumerate() {
        let result = init_on(m, id, cgroup);
        if result != 0 {
            sub::in_sched(m, id, |m| {
                exit::error(m, format!("ops.cgroup_init() failed ({result})"))
            });
            for &cgroup in cgroups[..index].iter().rev() {
                call_cgroup_exit(m, id, cgroup);
            }
            return Err(result);
        }
    }
    for cgroup in in_post_order(m, &cgroups) {
        if m.ext.initialized_cgroups.contains(&cgroup) {
            call_cgroup_exit(m, parent, cgroup);
        } else {
            m.ext.initialized_cgroups.push(cgroup);
        }
        set_owner(m, cgroup, id);
    }
    Ok(())
}

/// Passes the cgroups of a sub-scheduler that is being disabled back to its parent
/// (scx_cgroup_return_subtree). If ops.cgroup_init() of the parent fails, the parent ends.
pub(super) fn return_cgroups(m: &mut Machine, id: SchedId, parent: SchedId) {
    let cgroups = subtree(m, id, id);
    for cgroup in in_post_order(m, &cgroups) {
        if m.ext.initialized_cgroups.contains(&cgroup) {
            call_cgroup_exit(m, id, cgroup);
        }
        set_owner(m, cgroup, parent);
    }
    let mut failed = false;
    for cgroup in cgroups {
        if !failed {
            let result = init_on(m, parent, cgroup);
            failed = result != 0;
            if failed {
                let message = format!("ops.cgroup_init() failed ({result}) while disabling a sub-scheduler");
                sub::in_sched(m, parent, |m| exit::error(m, message));
            }
        }
        if failed {
            m.ext.initialized_cgroups.retain(|&known| known != cgroup);
        }
    }
}

/// Returns the tasks for which `belongs` holds, in the order in which Linux visits the tasks of a
/// sub-scheduler: by cgroup, parents first, and the oldest task of a cgroup first (scx_task_iter_start with
/// a cgroup).
pub(super) fn tasks_of(m: &Machine, belongs: impl Fn(&Machine, TaskId) -> bool) -> Vec<TaskId> {
    let cgroups = in_tree_order(m);
    let mut tasks = enable::all_tasks(m);
    tasks.retain(|&task| belongs(m, task));
    tasks.sort_by_cached_key(|&task| cgroups.iter().position(|&cgroup| cgroup == m.tasks[task].cgroup()));
    tasks
}

/// Returns the policy to which a task changes if it moves to a cgroup, or `None` if it stays with its
/// policy.
pub(super) fn new_home(m: &Machine, task: TaskId, to: u32) -> Option<SchedId> {
    let id = sub::sched_of_cgroup(m, to);
    let moves = m.ext.is_linux_7_3 && m.ext.cgroup_enabled && id != m.tasks[task].ext.sched;
    moves.then_some(id)
}

/// Initializes tasks for the policies to which they change if they move to a cgroup
/// (scx_cgroup_task_migrating).
///
/// # Errors
/// The positive errno that ops.init_task() returned. No task moves.
pub(super) fn prepare(m: &mut Machine, set: &[TaskId], to: u32) -> Result<(), i32> {
    for (index, &task) in set.iter().enumerate() {
        let Some(id) = new_home(m, task, to) else { continue };
        let errno = sub::in_sched(m, id, |m| lifecycle::init_task_of(m, task, to, false));
        if errno != 0 {
            cancel(m, &set[..index], to);
            return Err(-errno);
        }
    }
    Ok(())
}

/// Undoes [`prepare`] (scx_cgroup_task_migrate_canceled).
pub(super) fn cancel(m: &mut Machine, set: &[TaskId], to: u32) {
    for &task in set {
        if let Some(id) = new_home(m, task, to) {
            sub::in_sched(m, id, |m| lifecycle::call_exit_task(m, task, true));
        }
    }
}

/// Gives a task that has moved to a cgroup to the policy of this cgroup, which has initialized it
/// (scx_cgroup_task_migrated).
pub(crate) fn moved(m: &mut Machine, task: TaskId) {
    if let Some(id) = new_home(m, task, m.tasks[task].cgroup()) {
        rehome(m, task, id);
    }
}

/// Moves a task to a policy that has initialized it (scx_rehome_task).
pub(super) fn rehome(m: &mut Machine, task: TaskId, to: SchedId) {
    m.change_queued(task, flags::MOVE, |m| {
        sub::in_sched_of(m, task, |m| lifecycle::disable_and_exit_task(m, task));
        m.scx_set_state(task, TaskState::InitBegin);
        m.scx_set_state(task, TaskState::Init);
        m.tasks[task].ext.sched = to;
        m.scx_set_state(task, TaskState::Ready);
        if m.tasks[task].class == Class::Ext {
            sub::in_sched(m, to, |m| lifecycle::enable_task(m, task));
        }
    });
}
