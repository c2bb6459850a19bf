// SPDX-License-Identifier: GPL-2.0-only
//! What calling a helper or kfunc means to the sanitizer.

use super::signature::Arg;
use crate::image::{CALL_KFUNC, Insn};
use std::rc::Rc;

/// Effect of a call on the objects, locks and sections that the program holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None on what the program holds.
    Plain,
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

/// The rules that the sanitizer holds callers of a function to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRules {
    pub(super) effect: Effect,
    pub(super) ret_null: bool,
    pub(super) sleepable: bool,
    pub(super) rcu_protected: bool,
    pub(super) under_lock: bool,
    pub(super) callback: Option<Callback>,
    pub(super) looks_at: Option<u8>,
}

/// The function of the program that a call calls back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Callback {
    /// How many arguments it gets.
    pub args: usize,
    /// It gets the program's own word: as which of its arguments, and from which argument of the call.
    pub handed_on: Option<(usize, usize)>,
}

impl CallRules {
    pub(crate) const fn new(effect: Effect) -> CallRules {
        CallRules {
            effect,
            ret_null: false,
            sleepable: false,
            rcu_protected: false,
            under_lock: false,
            callback: None,
            looks_at: None,
        }
    }

    /// The pointer it returns may be NULL and has to be tested (KF_RET_NULL).
    pub const fn ret_null(self) -> CallRules {
        CallRules { ret_null: true, ..self }
    }

    /// It may sleep (KF_SLEEPABLE).
    pub const fn sleepable(self) -> CallRules {
        CallRules {
            sleepable: true,
            ..self
        }
    }

    /// It needs an RCU section (KF_RCU_PROTECTED).
    pub const fn rcu_protected(self) -> CallRules {
        CallRules {
            rcu_protected: true,
            ..self
        }
    }

    /// It may be called with a lock held (kfunc_spin_allowed in kernel/bpf/verifier.c).
    pub const fn under_lock(self) -> CallRules {
        CallRules {
            under_lock: true,
            ..self
        }
    }

    /// It calls a function of the program, with so many arguments.
    pub const fn calls_back(self, args: usize) -> CallRules {
        let handed_on = None;
        CallRules {
            callback: Some(Callback { args, handed_on }),
            ..self
        }
    }

    /// It calls a function of the program with so many arguments, of which number `to` (from 0) is its own argument `from`.
    pub const fn calls_back_with(self, args: usize, to: usize, from: usize) -> CallRules {
        let handed_on = Some((to, from));
        CallRules {
            callback: Some(Callback { args, handed_on }),
            ..self
        }
    }

    /// It always looks at so many arguments; whether at more depends on those.
    pub const fn looks_at(self, args: u8) -> CallRules {
        CallRules {
            looks_at: Some(args),
            ..self
        }
    }
}

/// A function that the program can call.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub name: &'static str,
    pub rules: CallRules,
    pub args: Vec<Arg>,
    /// The first so many are looked at.
    pub looked_at: usize,
    /// Returns a pointer.
    pub pointer: bool,
    /// The pointer may be NULL and has to be tested.
    pub nullable: bool,
    /// Returns nothing.
    pub void: bool,
}

pub(super) struct Names {
    pub helpers: Vec<Option<Rc<Callee>>>,
    pub kfuncs: Vec<Option<Rc<Callee>>>,
}

impl Names {
    /// Returns the function that a call instruction calls; `None` if there is none, in which case the call itself faults.
    pub fn of(&self, insn: &Insn) -> Option<&Rc<Callee>> {
        match insn.src {
            CALL_KFUNC => self.kfuncs.get(insn.imm as usize)?.as_ref(),
            _ => self.helpers.get(insn.imm as usize)?.as_ref(),
        }
    }
}
