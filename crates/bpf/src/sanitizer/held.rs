// SPDX-License-Identifier: GPL-2.0-only
//! Everything that the running call of a program holds: references, locks, critical sections,
//! iterators, dynptrs.

use super::prov::Prov;
use super::signature::Opaque;

/// Objects that the running call of a program must release.
#[derive(Default)]
pub(super) struct Held {
    /// Number of the running call of a program.
    pub program: u32,
    /// Number of the last call that was started.
    pub last: u32,
    pub sections: Sections,
    /// Depth, number and sections of each interrupted program.
    pub outer: Vec<(u32, u32, Sections)>,
    /// Calls to helpers and kfuncs in progress.
    pub pending: Vec<Pending>,
    /// Iterators, dynptrs and interrupt flags in the program's stack.
    pub open: Vec<Open>,
}

/// Locks and critical sections, with the instructions that began them.
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

/// A call from the simulated machine or a helper that has begun.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub depth: u32,
    pub callback: bool,
    pub function: usize,
    /// Greatest number that the function may return; `None` for any.
    pub returns: Option<u64>,
    /// Whether the function must return a value.
    pub must_return: bool,
}

impl Held {
    /// Returns whether RCU keeps the targets of kernel pointers alive.
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

    /// Removes calls at this depth or deeper. They have ended, possibly by a fault.
    pub fn unwind(&mut self, depth: u32) {
        while self.outer.last().is_some_and(|outer| outer.0 >= depth)
            && let Some((_, program, sections)) = self.outer.pop()
        {
            (self.program, self.sections) = (program, sections);
        }
        self.pending.retain(|call| call.depth < depth);
    }
}

/// An iterator, dynptr or saved interrupt flag that the program has created.
pub(super) struct Open {
    pub addr: u64,
    pub kind: Opaque,
    /// Instruction that created it.
    pub pc: usize,
    /// Number of the program's call that created it.
    pub program: u32,
    /// Whether the program must end it.
    pub must_end: bool,
    /// Its bytes as the kernel left them.
    pub bytes: Vec<u8>,
    /// Provenance of a dynptr's data.
    pub data: Prov,
    /// View of the element that an iterator returned.
    pub element: Option<usize>,
}

impl Open {
    /// Returns the name of the function that created it.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Opaque::Dynptr => "bpf_ringbuf_reserve_dynptr()",
            _ => "an iterator's _new()",
        }
    }
}
