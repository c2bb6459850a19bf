// SPDX-License-Identifier: GPL-2.0-only
//! What goes with a fault: the calls under way.

use super::Guard;
use crate::func::Report;
use crate::vm::Context;

/// The report with the calls under way of the innermost call from the world.
pub(super) fn of(cx: &Context, guard: &Guard, report: Report) -> Report {
    let frames = guard.objects.frames.iter().rev();
    let under_way = frames.filter(|frame| frame.depth <= cx.depth);
    Report {
        callers: under_way.map_while(|frame| frame.caller).collect(),
        ..report
    }
}
