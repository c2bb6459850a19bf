// SPDX-License-Identifier: GPL-2.0-only
//! Makes the report of an error that the sanitizer found: details about the address, and the calls
//! in progress.

use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::{Fault, FaultKind, Report};

/// Adds the calls in progress to a report: the innermost one first, up to the call by the simulated
/// machine.
pub(super) fn with_callers(cx: &Context, sanitizer: &Sanitizer, report: Report) -> Report {
    let frames = sanitizer.objects.frames.iter().rev();
    let under_way = frames.filter(|frame| frame.depth <= cx.depth);
    Report {
        callers: under_way.map_while(|frame| frame.caller).collect(),
        ..report
    }
}

/// Adds the calls in progress to a fault that the sanitizer did not find.
#[cold]
pub(crate) fn add_report(cx: &Context, fault: Fault) -> Fault {
    match &cx.sanitizer {
        Some(sanitizer) if fault.report.is_none() => fault.with_report(with_callers(cx, sanitizer, Report::default())),
        _ => fault,
    }
}

/// Makes a fault from an error that the sanitizer found. The fault's report has the name of the
/// check, the faulty operation, its address, and notes about the object.
#[cold]
pub(super) fn finding(check: &str, message: &str, addr: Option<u64>, notes: Vec<(String, Option<usize>)>) -> Fault {
    let at = addr.map_or(String::new(), |addr| format!(" at {addr:#x}"));
    let note = notes
        .first()
        .filter(|note| note.1.is_none())
        .map_or(String::new(), |note| format!(", {}", note.0));
    Fault::new(FaultKind::Check, format!("{check}: {message}{at}{note}")).with_report(Report {
        addr,
        notes,
        callers: Vec::new(),
    })
}
