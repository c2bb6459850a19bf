// SPDX-License-Identifier: GPL-2.0-only
//! Handles Ctrl-C, SIGTERM and SIGHUP. The first signal ends the running simulation cleanly. A
//! second signal ends the process at once.
//!
//! A command that can end early calls [`listen`] once and then [`signal`] at short intervals. Until
//! then, signals have their usual effect. The simulation itself does not look at signals, so they
//! cannot change its results.

use crate::console;
use crate::destination;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of the first signal that was received, or 0 if there was none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Returns the number of the first signal that was received, if there was one.
pub fn signal() -> Option<i32> {
    Some(RECEIVED.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Ends running simulations, as a received SIGINT does. The Python package calls this, because in a
/// Python process the interpreter receives the signals.
pub fn request() {
    RECEIVED.store(SIGINT, Ordering::Relaxed);
}

/// Forgets the received signal, so that simulations can run again.
pub fn clear() {
    RECEIVED.store(0, Ordering::Relaxed);
}

/// Returns the exit status that shells report for a process that this signal ended: 130 for SIGINT
/// and 143 for SIGTERM.
pub fn status(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

/// Treats a closed standard output like a received SIGPIPE.
pub(crate) fn note_broken_pipe() {
    let _ = RECEIVED.compare_exchange(0, SIGPIPE, Ordering::Relaxed, Ordering::Relaxed);
}

/// From now on, records the first signal instead of letting it end the process. A second signal
/// removes the temporary files and ends the process at once. A signal that the process ignores
/// stays ignored, for example under nohup or in a background job of a shell script.
pub fn listen() {
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|&s| !is_ignored(s))
        .collect();
    // If the handlers cannot be installed, signals end the process as usual.
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
            // SAFETY: _exit runs no destructors and no exit handlers.
            unsafe { libc::_exit(i32::from(status(signal))) };
        }
    });
    // If no thread can be created, signals have no effect.
    drop(spawned);
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: the new action is null, so sigaction only writes the old action. A `sigaction` of all
    // zeros is a valid value.
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
