// SPDX-License-Identifier: GPL-2.0-only
//! The sanitizer: run-time checks of BPF programs (`--sanitize`).
//!
//! Each register has a *provenance*, which identifies the object to which its pointer originally
//! pointed. An access is checked against this object, not against whatever now lies at the address.
//! A pointer to a released object is therefore recognised even after the memory is reused. The
//! rules are those of the kernel's verifier, but they are applied at run time to the executed path
//! and its values.
//!
//! Moves and additions keep the provenance. When the program spills a pointer to the stack, the
//! shadow records the pointer's provenance for a later load. (The shadow is a table with an entry
//! for each word of the stack.) A call sets the provenance of its result. An object with a limited
//! lifetime, such as a map element or a reference, has a record, its *view*. The result of any
//! other operation is a number without provenance.
//!
//! Both engines (the JIT and the interpreter) track provenances and call the functions of `access`,
//! `calls` and `registers`. The sanitizer changes neither the memory layout nor the counts of
//! executed instructions. If the sanitizer is off, neither engine executes code for it.
//!
//! | data (parts of `state`) | content |
//! |---|---|
//! | `prov` | provenances |
//! | `objects` | memory, and the objects in it |
//! | `held` | references, locks, critical sections |
//! | `callee`, `signature` | rules for calls, and what functions do with their arguments |
//! | `flow` | analysis of the code at load: which instructions need a check of their registers |
//! | `untested`, `findings` | errors that this analysis finds without running the program |
//!
//! | checks | content |
//! |---|---|
//! | `access` | loads and stores |
//! | `calls` | calls of the program's functions, and of helpers and kfuncs |
//! | `arguments` | arguments of helpers and kfuncs |
//! | `results` | results of helpers and kfuncs |
//! | `opaque` | iterators and dynptrs in the program's stack |
//! | `registers` | registers that an instruction reads |

mod access;
mod access_fault;
mod arguments;
pub(crate) mod callee;
mod calls;
mod entry;
mod findings;
pub(crate) mod flow;
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
mod untested;

use crate::engine::context::Context;
use crate::error::Error;

pub(crate) use access::{load, meta, store};
pub use callee::{CallRules, Effect};
pub(crate) use calls::{after_call, before_call};
pub(crate) use entry::{call_function, enter, returned};
pub use findings::Finding;
pub(crate) use flow::{moves, tests};
pub(crate) use prov::{SCALAR, UNSET, UNTESTED, frame};
pub(crate) use registers::{before, move_untested, read, test, vary};
pub use rules::{CheckCounts, Globals, Rules};
pub use signature::{Arg, Len, Opaque, Returns, Special};
pub(crate) use state::Sanitizer;

impl Sanitizer {
    /// Makes the sanitizer of a program that has not run yet.
    ///
    /// # Errors
    /// The program can call a function, but no description of the function's arguments exists.
    pub fn new(cx: &Context, rules: Rules) -> Result<Sanitizer, Error> {
        let mut kinds = vec![None; cx.code.functions.len()];
        for program in &rules.programs {
            kinds[program.function] = Some((program.kind, program.sleepable));
        }
        cx.region().record_freed();
        let objects = objects::Objects::new(cx.region(), &cx.maps, cx.stack_range(), cx.arena, &rules);
        Ok(Sanitizer {
            register_checks: flow::register_checks(&cx.code.insns, &cx.code.functions, &objects),
            objects,
            held: held::Held::default(),
            names: names::names(cx, &rules)?,
            kinds,
            counts: CheckCounts::default(),
        })
    }
}
