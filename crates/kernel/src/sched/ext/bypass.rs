// SPDX-License-Identifier: GPL-2.0-only
//! Bypass mode: while a policy is being enabled or disabled nothing depends on it. Tasks wait on a FIFO per CPU and get
//! short slices in turn. Balancing between those FIFOs (every 500 ms in the kernel) is left out: bypass ends sooner here.

use crate::machine::Machine;
use crate::policy::layout::enums::{SCX_SLICE_BYPASS, SCX_SLICE_DFL};

/// Enters or leaves bypass mode; it nests.
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
    // Waiting tasks are queued again, to where they belong from now on. Last first, so that those queued last now do not
    // overtake.
    for (cpu, waiting) in m.cpus().zip(m.runnable_lists()) {
        for task in waiting.into_iter().rev() {
            m.change_queued(task, |_| {});
        }
        if m.online_cpus.contains(cpu) {
            m.resched_curr(cpu);
        }
    }
}
