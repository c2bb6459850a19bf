// SPDX-License-Identifier: GPL-2.0-only
//! Bypass mode of sched_ext: while a policy is being enabled or disabled, the core ignores the
//! policy and schedules all ext tasks itself.
//!
//! In bypass mode, each CPU has a FIFO of waiting tasks, which run in turn with short slices. Linux
//! also moves tasks between these FIFOs every 500 ms. This is not modelled, because bypass mode
//! lasts less than 500 ms in the simulator.
//!
//! If only a sub-scheduler is in bypass mode, its parent runs its tasks.

use super::migrate::consume_dispatch_q;
use super::{ecaps, rescue, sub};
use crate::layout::enums::{SCX_BYPASS_HOST_NTH, SCX_SLICE_BYPASS, SCX_SLICE_DFL};
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::CpuId;

/// Makes the current policy and all sub-schedulers below it enter or leave bypass mode. Calls can be
/// nested: bypass mode ends when it has been left as often as it was entered.
pub(super) fn set(m: &mut Machine, on: bool) {
    let top = m.ext.current_sched();
    let below = if m.ext.has_subs() {
        m.ext.descendants(top)
    } else {
        Vec::new()
    };
    let changed = change_depth(m, on);
    for &sub in &below {
        sub::in_sched(m, sub, |m| change_depth(m, on));
    }
    if !changed {
        return;
    }
    if on {
        for &sub in below.iter().chain([&top]) {
            claim_host(m, sub);
        }
    }
    if !on && m.ext.is_linux_7_3 {
        let left: Vec<SchedId> = [top]
            .into_iter()
            .chain(below.iter().copied())
            .filter(|&sub| m.ext.bypass_depth_of(sub) == 0)
            .collect();
        note_missed(m, &left);
    }
    requeue(m, top);
    if !on {
        for &sub in below.iter().chain([&top]) {
            if m.ext.bypass_depth_of(sub) == 0 {
                release_host(m, sub);
            }
        }
    }
}

/// Changes the nesting depth of the current policy's bypass mode. Returns whether bypass mode began
/// or ended.
fn change_depth(m: &mut Machine, on: bool) -> bool {
    let core = &mut m.ext;
    let changed = if on {
        core.bypass_depth += 1;
        core.bypass_depth == 1
    } else {
        core.bypass_depth -= 1;
        core.bypass_depth == 0
    };
    if changed && on {
        core.slice_dfl = SCX_SLICE_BYPASS;
        core.bypass_since = m.now;
        core.stats.bypass_activate += 1;
    } else if changed {
        core.slice_dfl = SCX_SLICE_DFL;
        core.stats.bypass_duration += (m.now - core.bypass_since) as i64;
    }
    changed
}

/// Makes the parent of a sub-scheduler run the tasks of its bypass DSQs (enable_bypass_dsp).
fn claim_host(m: &mut Machine, id: SchedId) {
    let Some(parent) = m.ext.parent_of(id) else {
        return;
    };
    if !std::mem::replace(&mut m.ext.sched_mut(id).is_hosted, true) {
        m.ext.add_hosted(parent, 1);
    }
}

/// Ends the effect of [`claim_host`] (disable_bypass_dsp).
pub(super) fn release_host(m: &mut Machine, id: SchedId) {
    let Some(parent) = m.ext.parent_of(id) else {
        return;
    };
    if std::mem::replace(&mut m.ext.sched_mut(id).is_hosted, false) {
        m.ext.add_hosted(parent, -1);
    }
}

/// Dequeues all waiting tasks of `top` and of the policies below it and queues them again, because
/// they belong on other DSQs in the new mode. As in scx_bypass(), the tasks are visited in reverse
/// order.
fn requeue(m: &mut Machine, top: SchedId) {
    if !m.ext.enabled {
        return;
    }
    for (cpu, waiting) in m.cpus().zip(m.runnable_lists()) {
        for task in waiting.into_iter().rev() {
            if m.ext.has_subs() && !m.ext.is_descendant(m.tasks[task].ext.sched, top) {
                continue;
            }
            if m.ext.enforces_caps() && m.ext.bypassing() && m.rqs[cpu].curr == task {
                rescue::slice_ended(m, cpu, task);
            }
            m.change_queued(task, flags::MOVE, |_| {});
        }
        if m.online_cpus.contains(cpu) && !m.is_housekeeping(cpu) {
            m.resched_curr(cpu);
        }
    }
}

/// Remembers what the policies that leave bypass mode have missed (Linux 7.3), before their tasks are
/// queued again.
fn note_missed(m: &mut Machine, left: &[SchedId]) {
    for cpu in m.cpus() {
        for &id in left {
            ecaps::leave_bypass(m, id, cpu);
        }
    }
}

/// Returns whether a CPU looks for tasks of bypassed children before it calls ops.dispatch(). It does
/// so every second time (SCX_BYPASS_HOST_NTH).
#[cold]
pub(super) fn takes_turn(m: &mut Machine, cpu: CpuId) -> bool {
    let nr_cpus = m.nr_cpus() as usize;
    m.ext.bypass_turns.resize(nr_cpus, 0);
    let turn = &mut m.ext.bypass_turns[cpu.index()];
    let takes = turn.is_multiple_of(SCX_BYPASS_HOST_NTH as u32);
    *turn = turn.wrapping_add(1);
    takes
}

/// Moves a task of a bypassed child to the local DSQ.
#[cold]
pub(super) fn consume_hosted(m: &mut Machine, cpu: CpuId) -> bool {
    let bypass = m.ext.dsqs.bypass(cpu);
    consume_dispatch_q(m, cpu, bypass, 0)
}
