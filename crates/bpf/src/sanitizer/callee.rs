// SPDX-License-Identifier: GPL-2.0-only
//! Rules that the sanitizer enforces for calls of helpers and kfuncs.

use super::signature::Arg;
use crate::image::{CALL_KFUNC, Insn};
use std::rc::Rc;

/// Effect of a call on the things that the program holds: references, locks, critical sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// No effect on anything that the program holds.
    Plain,
    /// Returns a pointer to a value of the map that is the argument r1, or NULL.
    Lookup,
    /// Allocates an object of a type of the program (bpf_obj_new).
    ObjNew,
    /// Allocates one object per CPU (bpf_percpu_obj_new).
    PercpuNew,
    /// Allocates a bpf_cpumask.
    CpumaskCreate,
    /// Initialises the timer to which r1 points. The timer lies in a value of the map r2.
    TimerInit,
    /// Reserves a ring buffer record of r2 bytes (bpf_ringbuf_reserve).
    Reserve,
    /// Returns a reference or NULL.
    Acquire,
    /// Releases the reference in r1.
    Release,
    /// Stores the reference that is the argument r2 in a kptr. Returns the previous content of the
    /// kptr, which is a reference or NULL (bpf_kptr_xchg).
    Exchange,
    /// Moves the object to which the reference in r2 refers into a list or tree. The program loses
    /// the reference, but may read the object until it releases the lock.
    GraphAdd,
    /// Removes an object from a list or tree and returns a reference to it.
    GraphTake,
    /// Returns a pointer to an object in a list or tree. The pointer is valid until the program
    /// releases the lock.
    GraphPeek,
    Lock,
    Unlock,
    RcuLock,
    RcuUnlock,
    PreemptDisable,
    PreemptEnable,
    IrqSave,
    IrqRestore,
    /// Creates an iterator at r1.
    IterNew,
    /// Returns a pointer to the next element of the iterator at r1, or NULL.
    IterNext,
    IterDestroy,
    /// Creates a dynptr at r4, which the program must submit or discard.
    DynptrReserve,
    DynptrSubmit,
    /// Returns a pointer to memory. The argument with this number, counted from 1, is the size of
    /// the memory.
    Slice(usize),
    /// Returns its argument as a pointer through which the program may only read.
    Cast,
    /// Ends the program (bpf_throw).
    Throw,
}

/// Rules that the sanitizer enforces for callers of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRules {
    pub(super) effect: Effect,
    pub(super) ret_null: bool,
    pub(super) sleepable: bool,
    pub(super) rcu_protected: bool,
    pub(super) under_lock: bool,
    pub(super) callback: Option<Callback>,
    pub(super) uses_args: Option<u8>,
}

/// A function of the program that a helper or kfunc calls back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Callback {
    /// Number of arguments of the callback.
    pub args: usize,
    /// Set if the helper or kfunc passes one of its own arguments on to the callback. The first
    /// number is the argument's position among the arguments of the callback, and the second its
    /// position among the arguments of the helper or kfunc. Both count from 0.
    pub forwarded: Option<(usize, usize)>,
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
            uses_args: None,
        }
    }

    /// Marks the returned pointer as possibly NULL, so that the program must test it (KF_RET_NULL).
    pub const fn ret_null(self) -> CallRules {
        CallRules { ret_null: true, ..self }
    }

    /// Returns whether the function may sleep (KF_SLEEPABLE).
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleepable
    }

    /// Marks the function as one that may sleep (KF_SLEEPABLE).
    pub const fn sleepable(self) -> CallRules {
        CallRules {
            sleepable: true,
            ..self
        }
    }

    /// Marks the function as one that may be called only in an RCU section (KF_RCU_PROTECTED).
    pub const fn rcu_protected(self) -> CallRules {
        CallRules {
            rcu_protected: true,
            ..self
        }
    }

    /// Allows the call while a lock is held (kfunc_spin_allowed in kernel/bpf/verifier.c).
    pub const fn under_lock(self) -> CallRules {
        CallRules {
            under_lock: true,
            ..self
        }
    }

    /// Declares that the function calls back a function of the program with `args` arguments.
    pub const fn calls_back(self, args: usize) -> CallRules {
        let forwarded = None;
        CallRules {
            callback: Some(Callback { args, forwarded }),
            ..self
        }
    }

    /// Declares a callback with `args` arguments. Argument `to` of the callback is argument `from`
    /// of the call. Both are numbered from 0.
    pub const fn calls_back_with(self, args: usize, to: usize, from: usize) -> CallRules {
        let forwarded = Some((to, from));
        CallRules {
            callback: Some(Callback { args, forwarded }),
            ..self
        }
    }

    /// Declares that the function always uses its first `args` arguments. The values of these
    /// arguments determine whether the function uses the others, too.
    pub const fn uses_args(self, args: u8) -> CallRules {
        CallRules {
            uses_args: Some(args),
            ..self
        }
    }
}

/// A helper or kfunc that the program can call.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub name: &'static str,
    pub rules: CallRules,
    pub args: Vec<Arg>,
    /// Number of arguments, counted from the first, that the function always uses.
    pub used_args: usize,
    /// Whether the function returns a pointer.
    pub pointer: bool,
    /// Whether the returned pointer may be NULL, so that the program must test it.
    pub nullable: bool,
    /// Whether the function returns nothing.
    pub void: bool,
}

impl Callee {
    /// Returns the numbers of the registers that must have a value when the function is called.
    pub fn read_arguments(&self) -> Vec<usize> {
        let used = self.args.iter().enumerate().take(self.used_args.min(5));
        let read = used.filter(|&(_, &arg)| arg != Arg::Ignored);
        read.map(|(n, _)| n + 1).collect()
    }
}

/// The functions that a program can call: helpers by number, kfuncs by index in `Code::kfuncs`.
/// `None` marks a function that the simulator does not have.
pub(super) struct Names {
    pub helpers: Vec<Option<Rc<Callee>>>,
    pub kfuncs: Vec<Option<Rc<Callee>>>,
}

impl Names {
    /// Returns the function that a call instruction calls. Returns `None` if the simulator does not
    /// have the function. The call itself then faults.
    pub fn get(&self, insn: &Insn) -> Option<&Rc<Callee>> {
        match insn.src {
            CALL_KFUNC => self.kfuncs.get(insn.imm as usize)?.as_ref(),
            _ => self.helpers.get(insn.imm as usize)?.as_ref(),
        }
    }
}
