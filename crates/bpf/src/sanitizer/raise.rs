// SPDX-License-Identifier: GPL-2.0-only
//! Ends a program because the sanitizer found an error.

use super::report;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::engine::raise as engine;
use crate::fault::Fault;

/// Returns the sanitizer of a program.
///
/// The program must run with the sanitizer. The caller must not use another reference to the
/// sanitizer while this one is alive.
pub(super) unsafe fn sanitizer<'a>(cx: *mut Context) -> &'a mut Sanitizer {
    // SAFETY: sanitized code runs only if there is a sanitizer. The caller ensures that this is the
    // only reference in use.
    unsafe { (*cx).sanitizer.as_deref_mut().unwrap_unchecked() }
}

/// Returns the context and the sanitizer of a program. The sanitizer comes first here, because a reference
/// to it borrows a field of the context, which would end a reference to the whole context.
///
/// The conditions of [`sanitizer`] apply.
pub(super) unsafe fn split<'a>(cx: *mut Context) -> (&'a mut Context, &'a mut Sanitizer) {
    // SAFETY: the caller meets the conditions, and `cx` is the context of the running program.
    unsafe {
        let sanitizer = sanitizer(cx);
        (&mut *cx, sanitizer)
    }
}

/// Ends the program with the error that the sanitizer found.
#[cold]
pub(super) unsafe fn raise(cx: *mut Context, fault: Fault) -> u64 {
    // SAFETY: the caller meets the conditions of `engine::raise`. The reference to the sanitizer
    // ends before the call.
    unsafe {
        let (context, sanitizer) = split(cx);
        let report = report::with_callers(context, sanitizer, fault.report.clone().unwrap_or_default());
        engine::raise(cx, fault.with_whole_report(report))
    }
}
