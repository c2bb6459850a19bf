// SPDX-License-Identifier: GPL-2.0-only
//! Bypass mode of sched_ext: while a policy is being enabled or disabled, the core ignores the
//! policy and schedules all ext tasks itself.
//!
//! In bypass mode, each CPU has a FIFO of waiting tasks, which run in turn with short slices. Linux
//! also moves tasks between these FIFOs every 500 ms. This is not modelled, because bypass mode
//! lasts less than 500 ms in the simulator.

use crate::layout::enums::{SCX_SLICE_BYPASS, SCX_SLICE_DFL};
use crate::machine::Machine;
use crate::sched::class::state::flags;

/// Enters or leaves bypass mode. Calls can be nested: bypass mode ends when it has been left as
/// often as it was entered.
pub(super) fn set(m: &mut Machine, on: bool) {
    let core = &mut m.ext;
    let changed = if on {
        core.bypass_depth += 1;
        core.bypass_depth == 1
    } else {
        core.bypass_depth -= 1;
        core.bypass_depth == 0
    };
    if !changed {
        return;
    }
    if on {
        core.slice_dfl = SCX_SLICE_BYPASS;
        core.bypass_since = m.now;
        core.stats.bypass_activate += 1;
    } else {
        core.slice_dfl = SCX_SLICE_DFL;
        core.stats.bypass_duration += (m.now - core.bypass_since) as i64;
    }
    if !m.ext.enabled {
        return;
    }
    // Dequeues all waiting tasks and queues them again, because they belong on other DSQs in the
    // new mode. As in scx_bypass(), the tasks are visited in reverse order.
    for (cpu, waiting) in m.cpus().zip(m.runnable_lists()) {
        for task in waiting.into_iter().rev() {
            m.change_queued(task, flags::MOVE, |_| {});
        }
        if m.online_cpus.contains(cpu) {
            m.resched_curr(cpu);
        }
    }
}
