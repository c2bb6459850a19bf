// SPDX-License-Identifier: GPL-2.0-only
//! What the running call of a program holds: references, locks, critical sections, iterators, dynptrs.

use super::prov::Prov;
use super::signature::Opaque;

/// Objects that the running call of a program has to give back.
#[derive(Default)]
pub(super) struct Held {
    /// Number of this call of a program, and of the last one.
    pub program: u32,
    pub last: u32,
    pub sections: Sections,
    /// Depth, number and sections of each interrupted program.
    pub outer: Vec<(u32, u32, Sections)>,
    /// Calls to helpers and kfuncs under way.
    pub pending: Vec<Pending>,
    /// Iterators, dynptrs and flags in the program's stack.
    pub open: Vec<Open>,
}

/// Locks and critical sections with the instructions that began them.
#[derive(Default)]
pub(super) struct Sections {
    pub sleepable: bool,
    pub locks: Vec<(u64, usize)>,
    pub rcu: Vec<usize>,
    pub preempt: Vec<usize>,
    pub irq: Vec<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub pc: usize,
    pub args: [u64; 5],
    pub provs: [u64; 5],
    pub depth: u32,
    pub calls_back: bool,
}

/// A call from the world or from a helper that has begun.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub depth: u32,
    pub callback: bool,
    pub function: usize,
    /// The greatest number that it may return; `None` for any.
    pub returns: Option<u64>,
    /// It must return something.
    pub must_return: bool,
}

impl Held {
    /// Does RCU keep what kernel pointers point to?
    pub fn in_rcu(&self) -> bool {
        let now = &self.sections;
        !now.sleepable || !now.rcu.is_empty() || !now.locks.is_empty()
    }

    /// Whether the running program may sleep.
    pub fn may_sleep(&self) -> bool {
        self.sections.sleepable
    }

    /// Number of the running call of a program.
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Calls at this depth or deeper are over, if only by a fault.
    pub fn unwind(&mut self, depth: u32) {
        while self.outer.last().is_some_and(|outer| outer.0 >= depth)
            && let Some((_, program, sections)) = self.outer.pop()
        {
            (self.program, self.sections) = (program, sections);
        }
        self.pending.retain(|call| call.depth < depth);
    }
}

/// An iterator, dynptr or saved flag that was made.
pub(super) struct Open {
    pub addr: u64,
    pub what: Opaque,
    /// The instruction that made it, and the call of the program.
    pub pc: usize,
    pub program: u32,
    /// The program has to end it.
    pub must_end: bool,
    /// Its bytes as the kernel left them.
    pub bytes: Vec<u8>,
    /// Provenance of a dynptr's data.
    pub data: Prov,
    /// The view of what an iterator shows.
    pub element: Option<usize>,
}

impl Open {
    /// Returns the name of the function whose work has to be ended.
    pub fn name(&self) -> &'static str {
        match self.what {
            Opaque::Dynptr => "bpf_ringbuf_reserve_dynptr()",
            _ => "an iterator's _new()",
        }
    }
}
