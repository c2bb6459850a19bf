// SPDX-License-Identifier: GPL-2.0-only
//! The functions of this crate that compiled code calls.

use super::symbol::Symbol;
use crate::engine::context::{self, Entry};
use crate::engine::{counting, gap, raise};
use crate::sanitizer;

/// Defines [`Runtime`], with one function of this crate in each line.
macro_rules! runtime {
    ($($name:ident = $entry:path;)*) => {
        /// A function of this crate that compiled code calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Runtime { $($name),* }

        /// The functions, in the order of [`Runtime`].
        pub(super) const ENTRIES: &[Entry] = &[$($entry),*];
    };
}

runtime! {
    Missing = raise::missing;
    NotAllowed = raise::not_allowed;
    Trap = raise::trap;
    OverBudget = raise::over_budget;
    StackOverflow = raise::stack_overflow;
    FieldStore = raise::field_store;
    ForeignStore = raise::foreign_store;
    BadAccess = raise::bad_access;
    AtomicGap = gap::atomic_gap;
    LoadLine = context::load_line;
    StoreLine = context::store_line;
    CountEnter = counting::enter_compiled;
    CountedLoadLine = counting::load_line;
    CountedStoreLine = counting::store_line;
    CheckRead = sanitizer::read;
    CheckMoveUntested = sanitizer::move_untested;
    CheckTest = sanitizer::test;
    CheckVary = sanitizer::vary;
    CheckLoad = sanitizer::load;
    CheckStore = sanitizer::store;
    CheckCallFunction = sanitizer::call_function;
    CheckReturned = sanitizer::returned;
    CheckBeforeCall = sanitizer::before_call;
    CheckAfterCall = sanitizer::after_call;
}

impl From<Runtime> for Symbol {
    fn from(function: Runtime) -> Symbol {
        Symbol::Runtime(function as u32)
    }
}
