// SPDX-License-Identifier: GPL-2.0-only
//! What calling a helper or kfunc means to the sanitizer.

use super::signature::Arg;
use crate::image::{CALL_KFUNC, Insn};
use std::rc::Rc;

/// What a call does to what the program holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    None,
    /// Returns an element's value of the map in r1, or NULL.
    Lookup,
    ObjNew,
    /// An object for each CPU.
    PercpuNew,
    CpumaskCreate,
    /// Makes a timer of a map: r1 is the timer, r2 the map.
    TimerInit,
    /// bpf_ringbuf_reserve: a record of r2 bytes.
    Reserve,
    /// Returns a reference, or NULL.
    Acquire,
    /// Takes the reference in r1 back.
    Release,
    /// bpf_kptr_xchg: takes the reference in r2, returns another one or NULL.
    Exchange,
    /// Takes the reference in r2 into a list or tree; the program may look at it until it unlocks.
    GraphAdd,
    /// Takes an object out of a list or tree, as a reference.
    GraphTake,
    /// Shows an object of a list or tree until it is unlocked.
    GraphPeek,
    Lock,
    Unlock,
    RcuLock,
    RcuUnlock,
    PreemptDisable,
    PreemptEnable,
    IrqSave,
    IrqRestore,
    /// Makes an iterator at r1.
    IterNew,
    /// Shows the next element of the iterator at r1, or NULL.
    IterNext,
    IterDestroy,
    /// Makes a dynptr at r4 that must be submitted or discarded.
    DynptrReserve,
    DynptrSubmit,
    /// Returns a pointer to as many bytes as this argument says.
    Slice(usize),
    /// Returns its argument as a pointer that may be read.
    Cast,
    /// Ends the program.
    Throw,
}

#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub name: String,
    pub effect: Effect,
    pub sleepable: bool,
    pub rcu: bool,
    /// May be called with a lock held.
    pub locked: bool,
    /// Calls back into the program.
    pub calls_back: bool,
    pub args: Vec<Arg>,
    /// The first so many are looked at.
    pub looked_at: usize,
    /// Returns a pointer.
    pub pointer: bool,
    /// The pointer may be NULL and has to be tested.
    pub nullable: bool,
    /// Returns nothing.
    pub void: bool,
    /// Arguments of the callback that it calls.
    pub callback_args: usize,
    /// Of a callback that it makes and that gets the program's own word: that is which argument of the callback, and of the call.
    pub handed_on: Option<(usize, usize)>,
}

pub(super) struct Names {
    pub helpers: Vec<Option<Rc<Callee>>>,
    pub kfuncs: Vec<Option<Rc<Callee>>>,
}

impl Names {
    /// What a call instruction calls; `None` if nobody provides it, which the call itself will tell.
    pub fn of(&self, insn: &Insn) -> Option<&Rc<Callee>> {
        match insn.src {
            CALL_KFUNC => self.kfuncs.get(insn.imm as usize)?.as_ref(),
            _ => self.helpers.get(insn.imm as usize)?.as_ref(),
        }
    }
}
