// SPDX-License-Identifier: GPL-2.0-only
//! The command that repeats the present run of a thread alone, if the command line executes many runs.
//! It is printed when the simulator panics.

use std::cell::RefCell;

thread_local! {
    static COMMAND: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Executes a run that `command` repeats.
pub fn with<R>(command: String, run: impl FnOnce() -> R) -> R {
    COMMAND.set(Some(command));
    let result = run();
    COMMAND.set(None);
    result
}

/// Returns the command that repeats the present run of this thread alone, if it is known.
pub fn command() -> Option<String> {
    COMMAND.with(|command| command.try_borrow().ok()?.clone())
}
