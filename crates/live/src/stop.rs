// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C, SIGTERM and SIGHUP end a command in order: it unloads the policy first.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Notes the signals from now on instead of ending the process.
///
/// This is a flag without the thread of `windtunnel::interrupt`, because this process forks the tasks of a workload.
pub fn remember() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without a handler the signal ends the process, and with it the policy.
        let _ = flag::register(signal, Arc::clone(&ASKED));
    }
}

/// Returns whether a signal came.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
