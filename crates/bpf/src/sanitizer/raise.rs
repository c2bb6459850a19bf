// SPDX-License-Identifier: GPL-2.0-only
//! Ending a program with what the sanitizer has found.

use super::report;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::engine::raise as engine;
use crate::fault::Fault;

/// Returns the sanitizer of a program that has one.
///
/// # Safety
/// The program runs with the sanitizer, and no other reference to it is used meanwhile.
pub(super) unsafe fn sanitizer<'a>(cx: *mut Context) -> &'a mut Sanitizer {
    // SAFETY: sanitized code runs only where there is one, and no two borrows of it are alive.
    unsafe { (*cx).sanitizer.as_deref_mut().unwrap_unchecked() }
}

/// Ends the program with a finding.
#[cold]
pub(super) unsafe fn raise(cx: *mut Context, fault: Fault) -> u64 {
    unsafe {
        let report = report::with_callers(&*cx, sanitizer(cx), fault.report.clone().unwrap_or_default());
        engine::raise(cx, fault.with_whole_report(report))
    }
}
