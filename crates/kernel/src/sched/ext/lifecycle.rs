// SPDX-License-Identifier: GPL-2.0-only
//! Calls of the callbacks that inform a policy about the life cycle of a task.
//!
//! - ops.init_task() is called for every new task. When a policy is enabled, it is called for all
//!   tasks.
//! - ops.enable() and ops.disable() are called when a task enters or leaves the ext class.
//! - ops.exit_task() is called when a task exits or the policy ends.

use super::enqueue::clear_direct_dispatch;
use super::ops::{self};
use super::{cid, exit, rescue, sub};
use crate::layout::callbacks::Callback;
use crate::layout::{SCHED_EXT, SCHED_IDLE, SCHED_NORMAL, scx_exit_task_args, scx_init_task_args};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::core::EnableState;
use crate::sched::ext::state::entity::{Linux73, TaskState};
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::state::task::{PRIO_TO_WEIGHT, Task, WEIGHT_IDLEPRIO};
use crate::simulation::id::{IDLE, TaskId};
use bpf::engine::Vm;
use bpf::errno::EFAULT;
use std::mem::{offset_of, size_of};

/// Calls ops.init_task(). Returns 0 or a negative errno (__scx_init_task).
pub(super) fn init_task(m: &mut Machine, task: TaskId, fork: bool) -> i32 {
    init_task_of(m, task, m.tasks[task].cgroup(), fork)
}

/// Calls ops.init_task() like [`init_task`], for a task that belongs to `cgroup` or is about to move
/// there.
pub(super) fn init_task_of(m: &mut Machine, task: TaskId, cgroup: u32, fork: bool) -> i32 {
    m.scx_entity_mut(task).disallow = Default::default();
    if m.ext.has_op(Callback::InitTask) {
        let mut args = [0; size_of::<scx_init_task_args>()];
        args[offset_of!(scx_init_task_args, fork)] = u8::from(fork);
        let at = offset_of!(scx_init_task_args, cgroup);
        let cgroup = m.layout.cgroup_addr(cgroup);
        args[at..at + 8].copy_from_slice(&cgroup.to_le_bytes());
        let addr = m.tasks[task].addr();
        let real_parent = m.tasks[task].task_struct.real_parent;
        let creator = m.rqs[m.this_cpu].curr;
        if fork && creator != IDLE && real_parent as u64 == m.tasks[creator].addr() {
            // The new task is still a copy of the task that forks (copy_process).
            m.tasks[task].task_struct.real_parent = m.tasks[creator].task_struct.real_parent;
        }
        let result = ops::call_with_struct(m, Callback::InitTask, Frame::NONE, addr, &args);
        m.tasks[task].task_struct.real_parent = real_parent;
        let Some(result) = result else {
            return -EFAULT;
        };
        if result as i32 != 0 {
            return exit::sanitize(m, "init_task", result as i32);
        }
    }
    if m.scx_entity(task).disallow.is_set() {
        disallow(m, task, fork);
    }
    0
}

/// Changes a task's scheduling policy from SCHED_EXT to SCHED_NORMAL, because ops.init_task() set
/// `disallow`.
fn disallow(m: &mut Machine, task: TaskId, fork: bool) {
    let t = &mut m.tasks[task];
    let wrong = if m.ext.current_sched() != SchedId::ROOT {
        "in a sub-scheduler"
    } else if fork {
        "during fork"
    } else if m.ext.state != EnableState::Enabling {
        "outside the enable path"
    } else {
        if t.policy() == SCHED_EXT {
            t.task_struct.policy = SCHED_NORMAL;
            m.ext.nr_rejected += 1;
        }
        return;
    };
    let message = format!(
        "ops.init_task() set task->scx.disallow for {}[{}] {wrong}",
        t.comm(),
        t.pid()
    );
    exit::error(m, message);
}

/// Returns a task's weight on the scale that sched_ext uses: from 1 to 10000, with 100 for nice 0
/// (sched_weight_to_cgroup).
fn cgroup_weight(task: &Task) -> u32 {
    let weight = match task.policy() {
        SCHED_IDLE => WEIGHT_IDLEPRIO,
        _ => PRIO_TO_WEIGHT[(task.task_struct.static_prio - 100) as usize],
    };
    ((weight * 100 + 512) / 1024).clamp(1, 10000)
}

/// Calls ops.enable() and ops.set_weight() for a task that enters the class (scx_enable_task).
pub(super) fn enable_task(m: &mut Machine, task: TaskId) {
    m.ext.nr_enabled += 1;
    let weight = cgroup_weight(&m.tasks[task]);
    m.scx_entity_mut(task).weight = weight;
    let addr = m.tasks[task].addr();
    let by_cid = m.ext.is_linux_7_3 && m.ext.cids.uses_cids();
    if m.ext.has_op(Callback::Enable) {
        if by_cid {
            let frame = Frame::about(task, Some(m.tasks[task].cpu()));
            let mask = cid::mask_arg(m, task);
            ops::call_with_struct(m, Callback::Enable, frame, addr, &mask.to_le_bytes());
        } else {
            ops::call_task(m, Callback::Enable, task, &[addr]);
        }
    }
    if by_cid {
        set_cpumask(m, task);
    }
    if m.ext.has_op(Callback::SetWeight) {
        ops::call_task(m, Callback::SetWeight, task, &[addr, u64::from(weight)]);
    }
    m.scx_set_state(task, TaskState::Enabled);
}

/// Calls ops.disable() for a task that leaves the class (scx_disable_task).
fn disable_task(m: &mut Machine, task: TaskId) {
    clear_direct_dispatch(m, task);
    if m.ext.has_op(Callback::Disable) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Disable, task, &[addr]);
    }
    m.scx_set_state(task, TaskState::Ready);
    if m.ext.enforces_caps() {
        rescue::slice_ended(m, m.tasks[task].cpu(), task);
    }
    let scx = m.scx_entity_mut(task);
    scx.dsq_vtime = 0;
    scx.slice = 0;
    if m.ext.is_linux_7_3 {
        m.tasks[task].rare.linux_7_3 = Linux73::UNUSED;
    }
}

/// Calls ops.disable() if the task is in the class, then ops.exit_task()
/// (scx_disable_and_exit_task). These are the last callbacks that are called for the task.
pub(super) fn disable_and_exit_task(m: &mut Machine, task: TaskId) {
    disable_and_call_exit_task(m, task);
    m.scx_set_state(task, TaskState::None);
}

/// Calls the callbacks of [`disable_and_exit_task`]. Afterwards the task's state is that of a task
/// which has been initialized and is not in the class (__scx_disable_and_exit_task).
pub(super) fn disable_and_call_exit_task(m: &mut Machine, task: TaskId) {
    let state = m.scx_state(task);
    if matches!(state, TaskState::Init | TaskState::Ready | TaskState::Enabled) {
        if state == TaskState::Enabled {
            disable_task(m, task);
        }
        call_exit_task(m, task, state == TaskState::Init);
    }
}

/// Calls ops.exit_task(). `cancelled` says that the policy has initialized the task, but will not
/// schedule it.
pub(super) fn call_exit_task(m: &mut Machine, task: TaskId, cancelled: bool) {
    if m.ext.has_op(Callback::ExitTask) {
        let mut args = [0; size_of::<scx_exit_task_args>()];
        args[offset_of!(scx_exit_task_args, cancelled)] = u8::from(cancelled);
        let t = &m.tasks[task];
        let frame = Frame::about(task, Some(t.cpu()));
        let addr = t.addr();
        ops::call_with_struct(m, Callback::ExitTask, frame, addr, &args);
    }
}

/// Calls ops.init_task() for a new task before it runs (scx_fork, scx_post_fork).
///
/// # Errors
/// The negative errno that ops.init_task() returned. The fork fails with it.
pub(super) fn forked(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    if !m.ext.init_task_enabled {
        return Ok(());
    }
    let id = sub::sched_of_cgroup(m, m.tasks[task].cgroup());
    m.tasks[task].ext.sched = id;
    sub::in_sched(m, id, |m| init_forked(m, task))
}

/// Initializes a new task for the current policy, which schedules the task's cgroup.
fn init_forked(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    m.scx_set_state(task, TaskState::InitBegin);
    let result = init_task(m, task, true);
    if result != 0 {
        m.scx_set_state(task, TaskState::None);
        if m.ext.nr_accepted == 0 {
            // The policy has not accepted any task yet. A real system always has tasks, so its
            // kernel would not have enabled a policy that rejects them.
            let t = &m.tasks[task];
            let message = format!(
                "ops.init_task() failed ({result}) for {}[{}], the first task",
                t.comm(),
                t.pid()
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

/// Frees the BPF local storage of tasks and cgroups that have no references any more
/// (__put_task_struct, css_release).
///
/// The storage of one object may contain the last reference to another object, so this function may
/// be called while it is already running. The inner call only adds the other object to a queue, and
/// the outer call frees its storage.
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
        if m.ext.has_subs() {
            free_in_others(m, owner);
        }
    }
    m.ext.is_freeing = false;
}

/// Frees the storage that policies other than the current one have for a task or cgroup.
#[cold]
fn free_in_others(m: &mut Machine, owner: u64) {
    let current = m.ext.current_sched();
    for id in m.ext.loaded_scheds() {
        if id != current && m.ext.policy_of(id).is_some() {
            sub::in_sched(m, id, |m| Vm::free_owner(m, owner));
        }
    }
}

/// Handles a task that has just changed to the ext class (switching_to_scx). The task is not
/// queued.
pub(super) fn switching_to(m: &mut Machine, task: TaskId) {
    enable_task(m, task);
    // In Linux 7.3, a policy with cids has got the mask already.
    if !m.ext.is_linux_7_3 || !m.ext.cids.uses_cids() {
        set_cpumask(m, task);
    }
}

/// Calls ops.set_cpumask() for a task.
pub(super) fn set_cpumask(m: &mut Machine, task: TaskId) {
    if m.ext.has_op(Callback::SetCpumask) {
        let args = [m.tasks[task].addr(), cid::mask_arg(m, task)];
        ops::call_task(m, Callback::SetCpumask, task, &args);
    }
}

/// Handles a task that leaves the ext class (switched_from_scx). The task is not queued.
pub(super) fn switched_from(m: &mut Machine, task: TaskId) {
    if m.scx_state(task) != TaskState::None {
        disable_task(m, task);
    }
}

/// Calls ops.set_weight() after a change of a task's nice value or scheduling policy, even if the weight
/// is the same (reweight_task_scx).
pub(super) fn reweight(m: &mut Machine, task: TaskId) {
    if m.tasks[task].class != Class::Ext || m.scx_state(task) != TaskState::Enabled {
        return;
    }
    let weight = cgroup_weight(&m.tasks[task]);
    m.scx_entity_mut(task).weight = weight;
    if m.ext.has_op(Callback::SetWeight) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::SetWeight, task, &[addr, u64::from(weight)]);
    }
}
