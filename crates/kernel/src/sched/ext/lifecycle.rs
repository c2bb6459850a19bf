// SPDX-License-Identifier: GPL-2.0-only
//! A task's life cycle under a policy.
//!
//! ops.init_task() is called for new tasks and for all tasks when a policy is loaded. ops.enable()
//! and ops.disable() are called when a task enters or leaves the class, and ops.exit_task() when it
//! exits or the policy ends.

use super::enqueue::clear_direct_dispatch;
use super::entity::TaskState;
use super::ops::{self};
use super::{cid, exit};
use crate::machine::Machine;
use crate::policy::callbacks::Op;
use crate::policy::layout::{mirror, scx_exit_task_args, scx_init_task_args};
use crate::sched::class::Class;
use crate::sched::ext::core::EnableState;
use crate::sched::ext::ops_table::Frame;
use crate::sched::task::{PRIO_TO_WEIGHT, Task, WEIGHT_IDLEPRIO};
use crate::simulation::id::TaskId;
use bpf::engine::Vm;
use bpf::errno::EFAULT;
use std::mem::{offset_of, size_of};
use workload::Policy;

/// Calls ops.init_task() and returns 0 or a negative errno (__scx_init_task).
pub(super) fn init_task(m: &mut Machine, task: TaskId, fork: bool) -> i32 {
    m.scx_entity(task).disallow = false;
    if m.ext.has_op(Op::InitTask) {
        let mut args = [0; size_of::<scx_init_task_args>()];
        args[offset_of!(scx_init_task_args, fork)] = u8::from(fork);
        let at = offset_of!(scx_init_task_args, cgroup);
        let cgroup = m.layout.cgroup_addr(m.tasks[task].cgroup);
        args[at..at + 8].copy_from_slice(&cgroup.to_le_bytes());
        let addr = m.tasks[task].addr;
        let Some(result) = ops::call_with_struct(m, Op::InitTask, Frame::NONE, addr, &args) else {
            return -EFAULT;
        };
        if result as i32 != 0 {
            return exit::sanitize(m, "init_task", result as i32);
        }
    }
    if m.scx_entity(task).disallow {
        disallow(m, task, fork);
    }
    0
}

/// Changes a task's SCHED_EXT to SCHED_NORMAL because ops.init_task() has disallowed it.
fn disallow(m: &mut Machine, task: TaskId, fork: bool) {
    let t = &mut m.tasks[task];
    let wrong = if fork {
        "during fork"
    } else if m.ext.state != EnableState::Enabling {
        "outside the enable path"
    } else {
        if matches!(t.policy, Policy::Ext { .. }) {
            t.policy = Policy::Normal { nice: t.nice() };
            m.ext.nr_rejected += 1;
            mirror::mirror_params(m, task);
        }
        return;
    };
    let message = format!(
        "ops.init_task() set task->scx.disallow for {}[{}] {wrong}",
        t.comm, t.pid
    );
    exit::error(m, message);
}

/// Returns a task's weight in the policy's scale of 1..=10000, with 100 for nice 0
/// (sched_weight_to_cgroup).
fn cgroup_weight(task: &Task) -> u32 {
    let weight = match task.policy {
        Policy::Idle => WEIGHT_IDLEPRIO,
        _ => PRIO_TO_WEIGHT[(task.static_prio - 100) as usize],
    };
    ((weight * 100 + 512) / 1024).clamp(1, 10000)
}

/// Handles a task that enters the class: ops.enable(), ops.set_weight() (scx_enable_task).
pub(super) fn enable_task(m: &mut Machine, task: TaskId) {
    m.ext.nr_enabled += 1;
    let weight = cgroup_weight(&m.tasks[task]);
    m.scx_entity(task).weight = weight;
    let addr = m.tasks[task].addr;
    if m.ext.has_op(Op::Enable) {
        ops::call_task(m, Op::Enable, task, &[addr]);
    }
    if m.ext.has_op(Op::SetWeight) {
        ops::call_task(m, Op::SetWeight, task, &[addr, u64::from(weight)]);
    }
    m.scx_set_state(task, TaskState::Enabled);
}

/// Handles a task that leaves the class: ops.disable() (scx_disable_task).
fn disable_task(m: &mut Machine, task: TaskId) {
    clear_direct_dispatch(m, task);
    if m.ext.has_op(Op::Disable) {
        let addr = m.tasks[task].addr;
        ops::call_task(m, Op::Disable, task, &[addr]);
    }
    m.scx_set_state(task, TaskState::Ready);
    let scx = m.scx_entity(task);
    scx.dsq_vtime = 0;
    scx.slice = 0;
}

/// Calls ops.disable() if necessary and ops.exit_task() (scx_disable_and_exit_task). No callback is
/// called for the task afterwards.
pub(super) fn disable_and_exit_task(m: &mut Machine, task: TaskId) {
    let state = m.scx_state(task);
    if matches!(state, TaskState::Init | TaskState::Ready | TaskState::Enabled) {
        if state == TaskState::Enabled {
            disable_task(m, task);
        }
        if m.ext.has_op(Op::ExitTask) {
            let mut args = [0; size_of::<scx_exit_task_args>()];
            args[offset_of!(scx_exit_task_args, cancelled)] = u8::from(state == TaskState::Init);
            let t = &m.tasks[task];
            let frame = Frame::about(task, Some(t.cpu));
            let addr = t.addr;
            ops::call_with_struct(m, Op::ExitTask, frame, addr, &args);
        }
    }
    m.scx_set_state(task, TaskState::None);
}

/// Introduces a new task to the policy before it runs (scx_fork, scx_post_fork).
///
/// # Errors
/// The negative errno with which the policy refuses the task. The fork then fails.
pub(super) fn forked(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    if !m.ext.init_task_enabled {
        return Ok(());
    }
    m.scx_set_state(task, TaskState::InitBegin);
    let result = init_task(m, task, true);
    if result != 0 {
        m.scx_set_state(task, TaskState::None);
        if m.ext.nr_accepted == 0 {
            // A running system always has tasks, so the kernel would not have enabled a policy that
            // refuses them.
            let t = &m.tasks[task];
            let message = format!(
                "ops.init_task() failed ({result}) for {}[{}], the first task",
                t.comm, t.pid
            );
            exit::error(m, message);
        }
        return Err(result);
    }
    m.ext.nr_accepted += 1;
    m.scx_set_state(task, TaskState::Init);
    m.scx_set_state(task, TaskState::Ready);
    if m.tasks[task].class == Class::Ext {
        enable_task(m, task);
    }
    Ok(())
}

/// Calls ops.exit_task() for a task that has been switched out for the last time (sched_ext_dead).
pub(super) fn dead(m: &mut Machine, task: TaskId) {
    if m.scx_state(task) != TaskState::None {
        disable_and_exit_task(m, task);
        m.scx_set_state(task, TaskState::Dead);
    }
}

/// Frees the local storage of tasks and cgroups without references (__put_task_struct,
/// css_release).
///
/// The storage may hold the last reference to other objects. They are put into a queue instead of
/// freed recursively.
pub(super) fn free_local_storage(m: &mut Machine, owners: impl IntoIterator<Item = u64>) {
    if !m.ext.has_policy() {
        return;
    }
    m.ext.storage_owners.extend(owners);
    if std::mem::replace(&mut m.ext.is_freeing, true) {
        return;
    }
    while let Some(owner) = m.ext.storage_owners.pop_front() {
        Vm::free_owner(m, owner);
    }
    m.ext.is_freeing = false;
}

/// Handles a task whose class is now ext (switching_to_scx). The task is off the queue.
pub(super) fn switching_to(m: &mut Machine, task: TaskId) {
    enable_task(m, task);
    set_cpumask(m, task);
}

/// Calls ops.set_cpumask() for a task.
pub(super) fn set_cpumask(m: &mut Machine, task: TaskId) {
    if m.ext.has_op(Op::SetCpumask) {
        let args = [m.tasks[task].addr, cid::mask_arg(m, task)];
        ops::call_task(m, Op::SetCpumask, task, &args);
    }
}

/// Handles a task that is about to leave the class (switched_from_scx). The task is off the queue.
pub(super) fn switched_from(m: &mut Machine, task: TaskId) {
    if m.scx_state(task) != TaskState::None {
        disable_task(m, task);
    }
}

/// Updates the task's weight after a change of nice value or policy (reweight_task_scx).
pub(super) fn reweight(m: &mut Machine, task: TaskId) {
    if m.tasks[task].class != Class::Ext || m.scx_state(task) != TaskState::Enabled {
        return;
    }
    let weight = cgroup_weight(&m.tasks[task]);
    if m.scx_entity(task).weight == weight {
        return;
    }
    m.scx_entity(task).weight = weight;
    if m.ext.has_op(Op::SetWeight) {
        let addr = m.tasks[task].addr;
        ops::call_task(m, Op::SetWeight, task, &[addr, u64::from(weight)]);
    }
}
