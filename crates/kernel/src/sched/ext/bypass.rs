// SPDX-License-Identifier: GPL-2.0-only
//! Bypass mode: the core schedules all ext tasks itself while a policy is being enabled or
//! disabled.
//!
//! Each CPU has a FIFO of tasks, which get short slices in turn. Linux also balances these FIFOs
//! every 500 ms. That is not modelled, because bypass mode ends sooner here.

use crate::machine::Machine;
use crate::policy::layout::enums::{SCX_SLICE_BYPASS, SCX_SLICE_DFL};

/// Enters or leaves bypass mode. Calls nest: the mode ends with the last leave.
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
    // Waiting tasks are queued again, because they now belong on another DSQ. The order is
    // reversed, as in scx_bypass().
    for (cpu, waiting) in m.cpus().zip(m.runnable_lists()) {
        for task in waiting.into_iter().rev() {
            m.change_queued(task, |_| {});
        }
        if m.online_cpus.contains(cpu) {
            m.resched_curr(cpu);
        }
    }
}
