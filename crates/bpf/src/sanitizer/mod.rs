// SPDX-License-Identifier: GPL-2.0-only
//! The sanitizer: run-time checks of BPF programs (`--check`).
//!
//! Beside each register goes its *provenance*: what the pointer in it was made from. Moving and adding keep it, a spilled
//! pointer gets it back from a shadow of the stack, a call gives it to its result; everything else makes a scalar. So an access
//! is held to the one object that the program got a pointer to, not to whatever lies at the address, and a pointer to what
//! was given back is known though the memory has a new owner. The rules are those of the kernel's verifier, found at run
//! time: on the way that is executed, with the values it has.
//!
//! Both engines keep provenances and call the functions of `access`, `calls` and `registers`; memory, layout and counts are those
//! of a run without the sanitizer, which costs nothing when it is off: neither engine then has code for it.
//!
//! Plain data: `prov` (provenances), `objects` (memory and who owns it), `held` (references, locks, critical sections), `callee`
//! and `signature` (what functions do with their arguments), `flow` (which instructions need a look), all of it in `state`.
//! Checks: `access` (loads and stores), `calls` (entering and leaving functions), `given` (arguments), `results`, `opaque`
//! (iterators and dynptrs in the program's stack), `registers`.

mod access;
pub(crate) mod callee;
mod calls;
pub(crate) mod flow;
mod given;
mod held;
mod names;
mod objects;
mod opaque;
mod prov;
mod raise;
mod registers;
pub(crate) mod report;
mod results;
pub(crate) mod rules;
pub(crate) mod signature;
pub(crate) mod state;

use crate::engine::context::Context;

pub(crate) use access::{load, meta, store};
pub use callee::{CallRules, Effect};
pub(crate) use calls::{after_call, before_call, call_function, enter, returned};
pub(crate) use flow::{moves, tests};
pub(crate) use prov::{SCALAR, UNSET, UNTESTED, frame};
pub(crate) use registers::{before, move_untested, read, test, vary};
pub use rules::{Checked, Globals, KernelObject, Rules};
pub use signature::{Arg, Len, Opaque, Returns, Special};
pub(crate) use state::Sanitizer;

impl Sanitizer {
    /// Makes the sanitizer of a program that is about to run for the first time.
    ///
    /// # Errors
    /// If a function that the program can call does not say what it does with its arguments.
    pub fn new(cx: &Context, rules: Rules) -> Result<Sanitizer, String> {
        let mut kinds = vec![None; cx.code.functions.len()];
        for program in &rules.programs {
            kinds[program.function] = Some((program.kind, program.sleepable));
        }
        cx.region().note_freed();
        let objects = objects::Objects::new(cx.region(), &cx.maps, cx.stack_range(), cx.arena, &rules);
        Ok(Sanitizer {
            looks: flow::looks(&cx.code.insns, &cx.code.functions, &objects),
            objects,
            held: held::Held::default(),
            names: names::names(cx, &rules)?,
            kinds,
            checked: Checked::default(),
        })
    }
}
