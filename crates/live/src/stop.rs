// SPDX-License-Identifier: GPL-2.0-only
//! Handles Ctrl-C, SIGTERM and SIGHUP: the signal sets a flag. A command that sees the flag unloads
//! its policy and ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process.
///
/// `runner::interrupt` handles signals in a separate thread. This is not possible here, because
/// this process must have only one thread when it forks the tasks of a workload.
pub fn install_handlers() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // If the handler cannot be installed, the signal ends the process. The kernel then also
        // ends the policy.
        let _ = flag::register(signal, Arc::clone(&REQUESTED));
    }
}

/// Returns whether a signal has arrived.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
