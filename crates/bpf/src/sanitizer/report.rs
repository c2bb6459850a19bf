// SPDX-License-Identifier: GPL-2.0-only
//! The report that goes with a fault: what is known of the address, and the calls under way.

use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::{Fault, FaultKind, Report};

/// Returns the report with the calls under way of the innermost call from the world.
pub(super) fn with_callers(cx: &Context, sanitizer: &Sanitizer, report: Report) -> Report {
    let frames = sanitizer.objects.frames.iter().rev();
    let under_way = frames.filter(|frame| frame.depth <= cx.depth);
    Report {
        callers: under_way.map_while(|frame| frame.caller).collect(),
        ..report
    }
}

/// Adds the calls under way to a fault that was not found by the sanitizer.
#[cold]
pub(crate) fn add_report(cx: &Context, fault: Fault) -> Fault {
    match &cx.sanitizer {
        Some(sanitizer) if fault.report.is_none() => fault.with_report(with_callers(cx, sanitizer, Report::default())),
        _ => fault,
    }
}

/// Makes a finding: which check, what was done, to which address, and what is known of it.
#[cold]
pub(super) fn problem(check: &str, what: &str, addr: Option<u64>, notes: Vec<(String, Option<usize>)>) -> Fault {
    let at = addr.map_or(String::new(), |addr| format!(" at {addr:#x}"));
    let note = notes
        .first()
        .filter(|note| note.1.is_none())
        .map_or(String::new(), |note| format!(", {}", note.0));
    Fault::new(FaultKind::Check, format!("{check}: {what}{at}{note}")).with_report(Report {
        addr,
        notes,
        callers: Vec::new(),
    })
}
