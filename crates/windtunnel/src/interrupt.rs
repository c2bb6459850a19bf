// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C, SIGTERM and SIGHUP: the first one ends the running simulation in order, the second one ends the process.
//!
//! A command that keeps what it has calls [`listen`] once and looks at [`signal`] between pieces of work. In the library nothing
//! listens, so nothing is ever interrupted. Simulations do not see signals: a run that nobody interrupts is not changed.

use crate::console;
use crate::destination;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of the signal that asked for an end, 0 if none did.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Returns the signal that asked for an end, if one did.
pub fn signal() -> Option<i32> {
    Some(ASKED.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Exit status of a process that a signal ended, as shells report it: 130 after Ctrl-C, 143 after SIGTERM.
pub fn status(signal: i32) -> u8 {
    128 + signal as u8
}

/// Requests an end as after SIGPIPE: the output has no reader any more.
pub(crate) fn reader_is_gone() {
    let _ = ASKED.compare_exchange(0, SIGPIPE, Ordering::Relaxed, Ordering::Relaxed);
}

/// From now on a signal is noted instead of ending the process; a second one removes temporary files and ends it at once. A signal
/// that is ignored (nohup, a background job of a shell script) stays ignored.
pub fn listen() {
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|&s| !is_ignored(s))
        .collect();
    // Without a handler signals end the process, as they do without this call.
    let Ok(mut signals) = Signals::new(signals) else { return };
    let spawned = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if ASKED
                .compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                console::note_interrupt();
                continue;
            }
            destination::remove_temporaries();
            // SAFETY: ends the process without running anything of it.
            unsafe { libc::_exit(i32::from(status(signal))) };
        }
    });
    // A thread that cannot be had leaves signals noted and nothing else.
    drop(spawned);
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction with no new action only fills in the old one, for which all zeros is a valid value.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_shells() {
        assert_eq!([SIGINT, SIGTERM, SIGHUP].map(status), [130, 143, 129]);
    }
}
