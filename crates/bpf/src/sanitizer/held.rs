// SPDX-License-Identifier: GPL-2.0-only
//! Records everything that the running call of a program holds: references, locks, critical
//! sections, iterators, dynptrs. The sanitizer checks that the program releases all of them.

use super::prov::Prov;
use super::signature::Opaque;

/// Everything that the running call of a program holds and must release.
#[derive(Default)]
pub(super) struct Held {
    /// Number of the running call of a program. Calls are numbered in the order in which they
    /// start.
    pub program: u32,
    /// Number of the last call that was started.
    pub last: u32,
    pub sections: Sections,
    /// One entry for each call that a nested call has interrupted: the depth of the nested call,
    /// and the number and the critical sections of the interrupted call.
    pub outer: Vec<(u32, u32, Sections)>,
    /// Calls of helpers and kfuncs that have not returned yet.
    pub pending: Vec<Pending>,
    /// Iterators, dynptrs and saved interrupt flags in the program's stack.
    pub open: Vec<Open>,
}

/// Locks that are held and critical sections that are open, with the instructions that began them.
#[derive(Default)]
pub(super) struct Sections {
    /// Whether the program may sleep while none of these sections is open.
    pub sleepable: bool,
    /// Address of each lock that is held, and the instruction that acquired it.
    pub locks: Vec<(u64, usize)>,
    pub rcu: Vec<usize>,
    pub preempt: Vec<usize>,
    pub irq: Vec<usize>,
}

/// A call of a helper or kfunc by the program.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    /// Instruction that makes the call.
    pub pc: usize,
    pub args: [u64; 5],
    /// Provenances of the arguments.
    pub provs: [u64; 5],
    /// Number of calls into the program that were in progress when this call was made: 1 if only
    /// the outermost call was, more if calls were nested.
    pub depth: u32,
    /// Whether the helper or kfunc calls back a function of the program.
    pub calls_back: bool,
}

/// A call of one of the program's functions by the simulated machine or a helper.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// Number of calls into the program that are in progress, including this one.
    pub depth: u32,
    /// Whether a helper or kfunc makes the call.
    pub callback: bool,
    /// Index of the called function.
    pub function: usize,
    /// Greatest number that the function may return, or `None` if it may return any number.
    pub returns: Option<u64>,
    /// Whether the function must return a value.
    pub must_return: bool,
}

impl Held {
    /// Returns whether RCU now protects kernel objects from being freed, so that pointers to them
    /// stay valid.
    pub fn in_rcu(&self) -> bool {
        let now = &self.sections;
        !now.sleepable || !now.rcu.is_empty() || !now.locks.is_empty()
    }

    /// Returns whether the running program may sleep.
    pub fn may_sleep(&self) -> bool {
        self.sections.sleepable
    }

    /// Returns the number of the running call of a program.
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Removes the calls at nesting depth `depth` and deeper. They have ended, possibly by a fault.
    pub fn unwind(&mut self, depth: u32) {
        while self.outer.last().is_some_and(|outer| outer.0 >= depth)
            && let Some((_, program, sections)) = self.outer.pop()
        {
            (self.program, self.sections) = (program, sections);
        }
        self.pending.retain(|call| call.depth < depth);
    }
}

/// An iterator, dynptr or saved interrupt flag that the program has created and that still exists.
pub(super) struct Open {
    pub addr: u64,
    pub kind: Opaque,
    /// Instruction that created the iterator, dynptr or flag.
    pub pc: usize,
    /// Number of the call of the program that created it.
    pub program: u32,
    /// Whether the program must end the lifetime of the object: it must destroy an iterator, and
    /// submit or discard a reserved dynptr. (For saved interrupt flags, [`Sections`] records this.)
    pub must_end: bool,
    /// Contents of the memory at `addr` when the kernel last wrote to it.
    pub bytes: Vec<u8>,
    /// Provenance of the data to which a dynptr refers.
    pub data: Prov,
    /// The element that an iterator last returned: the index of its view (the sanitizer's record of
    /// an object).
    pub element: Option<usize>,
}

impl Open {
    /// Returns the kind of object that the program must end, for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Opaque::Dynptr => "a reserved dynptr",
            _ => "an iterator",
        }
    }
}
