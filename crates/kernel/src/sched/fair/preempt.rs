// SPDX-License-Identifier: GPL-2.0-only
//! Preemption of the running task by woken tasks (wakeup_preempt_fair), and how long a task is protected
//! from it (RUN_TO_PARITY).

use super::is_idle_policy;
use super::pick::pick_next_entity;
use crate::layout::{SCHED_EXT, SCHED_NORMAL};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::domains::BASE_SLICE_NS;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use machine::Feature;

/// Reschedules if the woken `task` should run before the current task (wakeup_preempt_fair).
///
/// SCHED_BATCH and SCHED_IDLE tasks do not preempt other tasks. A current task with SCHED_IDLE is
/// preempted immediately. A task with a shorter slice than the current task preempts it if it is
/// eligible (PREEMPT_SHORT).
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: CpuId, task: TaskId, wake_flags: u32) {
    let curr = m.rqs[cpu].curr;
    if curr == task || m.class_of(curr) != Class::Fair || m.tasks[task].fair.throttled {
        return;
    }
    let features = m.spec.kernel.features;
    if !features.has(Feature::WakeupPreemption) || !features.has(Feature::PreemptShort) && m.rqs[cpu].resched_pending()
    {
        return;
    }
    let (idle, woken_idle) = (is_idle_policy(m, curr), is_idle_policy(m, task));
    if idle && !woken_idle {
        return preempt(m, cpu, curr);
    }
    m.update_curr_of_groups(cpu, curr);
    let base_slice = m.domains.base_slice;
    let slice = |task: TaskId| m.tasks[task].fair.slice(base_slice);
    let short = m.task_groups.custom_slices && slice(task) < slice(curr) && features.has(Feature::PreemptShort);
    let normal = matches!(m.tasks[task].policy(), SCHED_NORMAL | SCHED_EXT);
    let competes = idle == woken_idle && normal && !m.tasks[task].fair.delayed;
    if competes && (short || wake_flags & flags::WF_FORK == 0) {
        if !short
            && features.has(Feature::NextBuddy)
            && set_preempt_buddy(m, cpu, task)
            && wake_flags & flags::WF_SYNC != 0
        {
            // The waker expects to sleep soon. Linux would reschedule at once if the waker had run
            // since its last update for as long as the cost of a migration (preempt_sync), but it has
            // just been updated.
            return;
        }
        let next = loop {
            if m.rqs[cpu].fair.cfs.h_nr_queued == 0 {
                break None;
            }
            // If a delayed sleeper was dequeued instead, `task` is still queued.
            if let Some(next) = pick_next_entity(m, cpu, !short) {
                break Some(next);
            }
        };
        if next == Some(task) || short && m.eligible(cpu, task) {
            if short {
                set_short_buddy(m, cpu, task);
            }
            return preempt(m, cpu, curr);
        }
    }
    if features.has(Feature::RunToParity) {
        update_protect_slice(m, cpu, curr);
    }
}

/// Ends the protection of the running task and reschedules.
fn preempt(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    let e = &mut m.tasks[curr].fair;
    e.vprot = e.vprot.min(e.vruntime);
    m.resched_curr_lazy(cpu);
}

/// Makes a woken task the one that is picked next while it is eligible (set_preempt_buddy). Returns
/// false if a task with an earlier deadline is to be picked next already.
fn set_preempt_buddy(m: &mut Machine, cpu: CpuId, task: TaskId) -> bool {
    let deadline = m.tasks[task].fair.deadline;
    let next = m.rqs[cpu].fair.eevdf.next;
    if next != IDLE && m.tasks[next].fair.deadline < deadline {
        return false;
    }
    m.rqs[cpu].fair.eevdf.next = task;
    true
}

/// Makes a task with a short slice the one that is picked next while it is eligible.
fn set_short_buddy(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let base_slice = m.domains.base_slice;
    let slice = |task: TaskId| m.tasks[task].fair.slice(base_slice);
    let next = m.rqs[cpu].fair.eevdf.next;
    if next == IDLE || slice(next) >= slice(task) {
        m.rqs[cpu].fair.eevdf.next = task;
    }
}

/// Shortens the protection of the running task to the shortest slice of the tasks on its queue
/// (update_protect_slice).
fn update_protect_slice(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    let base_slice = m.domains.base_slice;
    let slice = match m.task_groups.custom_slices {
        true => m.shortest_slice(cpu).unwrap_or(base_slice),
        false => base_slice,
    };
    let avg = m.avg_vruntime(cpu);
    let e = &mut m.tasks[curr].fair;
    e.vprot = e.vprot.min(e.vruntime.min(avg) + e.delta_fair(slice));
}

/// Protects a task that starts to run from preemption (set_protect_slice). The protection lasts
/// until the end of its slice. If a task with a shorter slice waits, it lasts only until the running
/// task is no longer eligible.
///
/// Without RUN_TO_PARITY, the base slice of a machine with one CPU counts as such a shorter slice.
/// Without PREEMPT_SHORT, the protection lasts for the length of the shorter slice.
#[inline]
pub(super) fn set_protect_slice(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let e = &mut m.tasks[task].fair;
    e.vprot = e.deadline;
    let features = m.spec.kernel.features;
    let shortest = match features.has(Feature::RunToParity) {
        true if !m.task_groups.custom_slices => return,
        true => m.shortest_slice(cpu),
        false => Some(BASE_SLICE_NS),
    };
    if let Some(shortest) = shortest
        && shortest < m.tasks[task].fair.slice(m.domains.base_slice)
    {
        let ineligible = m.rqs[cpu].fair.eevdf.avg_without_curr() + 1;
        let e = &mut m.tasks[task].fair;
        let limit = match features.has(Feature::PreemptShort) {
            true => ineligible,
            false => e.vruntime + e.delta_fair(shortest),
        };
        e.vprot = e.vprot.min(limit);
    }
}
