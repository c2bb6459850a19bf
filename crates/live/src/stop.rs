// SPDX-License-Identifier: GPL-2.0-only
//! Handling of Ctrl-C, SIGTERM and SIGHUP: a command notices the signal, unloads its policy and
//! ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes the signals set a flag from now on instead of ending the process.
///
/// Unlike `windtunnel::interrupt`, this needs no thread, because this process forks the tasks of a
/// workload.
pub fn install_handlers() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // If no handler can be installed, the signal ends the process, and with it the policy.
        let _ = flag::register(signal, Arc::clone(&REQUESTED));
    }
}

/// Returns whether a signal has arrived.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
