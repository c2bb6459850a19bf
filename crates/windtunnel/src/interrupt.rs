// SPDX-License-Identifier: GPL-2.0-only
//! Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal ends the running simulation cleanly, a
//! second one ends the process at once.
//!
//! A command that can end early calls [`listen`] once and checks [`signal`] between pieces of work.
//! Nothing listens unless a command does, so library code is never interrupted. The simulation
//! itself does not see signals, so they cannot change its results.

use crate::console;
use crate::destination;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of the first signal received, 0 if none was.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Returns the first signal received, if any.
pub fn signal() -> Option<i32> {
    Some(RECEIVED.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Returns the exit status that shells report for a process ended by this signal: 130 for SIGINT,
/// 143 for SIGTERM.
pub fn status(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

/// Records a SIGPIPE, because the reader of standard output has closed it.
pub(crate) fn note_broken_pipe() {
    let _ = RECEIVED.compare_exchange(0, SIGPIPE, Ordering::Relaxed, Ordering::Relaxed);
}

/// Starts to record signals instead of ending the process. A second signal removes temporary files
/// and ends the process at once. A signal that is ignored (nohup, a background job of a shell
/// script) stays ignored.
pub fn listen() {
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|&s| !is_ignored(s))
        .collect();
    // If no handler can be installed, signals end the process by default.
    let Ok(mut signals) = Signals::new(signals) else { return };
    let spawned = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if RECEIVED
                .compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                console::note_interrupt();
                continue;
            }
            destination::remove_temporaries();
            // SAFETY: _exit runs no destructors or exit handlers.
            unsafe { libc::_exit(i32::from(status(signal))) };
        }
    });
    // If no thread can be created, signals have no effect.
    drop(spawned);
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: without a new action, sigaction only writes the old one, for which all zeros is
    // valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_those_that_shells_report() {
        assert_eq!([SIGINT, SIGTERM, SIGHUP].map(status), [130, 143, 129]);
    }
}
