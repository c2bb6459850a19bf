// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C, SIGTERM and SIGHUP end a command in order: what was loaded is unloaded.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From now on the signals are remembered instead of ending the process.
pub fn remember() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = ask as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing but store to an atomic.
        unsafe {
            libc::signal(signal, handler as libc::sighandler_t);
        }
    }
}

/// Whether one of them came.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
