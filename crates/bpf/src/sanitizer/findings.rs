// SPDX-License-Identifier: GPL-2.0-only
//! Errors that the analysis of the code finds without running the program. The command `check`
//! reports them. They are errors on every path that leads to them, or on a path that the verifier
//! follows, too.

use super::flow::{self, Error};
use super::state::Sanitizer;
use super::untested::{How, Search, Use};
use crate::engine::context::Context;
use crate::image::{CALL_FUNCTION, Function, Insn};
use crate::insn;
use crate::object::ProgramKind;

/// An error in the code of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, for example `untested`.
    pub check: &'static str,
    /// Instruction with the error.
    pub pc: usize,
    pub message: String,
    /// The call that returned the pointer, for an error about a pointer.
    pub call: Option<usize>,
}

impl Sanitizer {
    /// Returns the errors in the code of all functions, in the order of the instructions.
    pub fn findings(&self, cx: &Context) -> Vec<Finding> {
        let search = Search {
            insns: &cx.code.insns,
            names: &self.names,
            maps: &cx.maps,
        };
        let mut findings = Vec::new();
        for (index, function) in cx.code.functions.iter().enumerate() {
            findings.extend(search.uses(function).iter().map(untested));
            findings.extend(self.errors(cx, index, function));
        }
        findings.sort_by_key(|finding| finding.pc);
        findings
    }

    /// Returns the errors of a function that do not depend on the path.
    fn errors(&self, cx: &Context, index: usize, function: &Function) -> Vec<Finding> {
        let program = self.kinds[index];
        // The kernel passes one argument to a program. If the number of another function's parameters
        // is not known, it may have five.
        let args = match program {
            Some(_) => 1,
            None => function.params.unwrap_or(5).min(5),
        };
        // The compiler passes only those arguments to a static function that the function uses.
        let arguments = |i: &Insn| {
            let callee = self.names.get(i).filter(|_| i.src != CALL_FUNCTION);
            let read = callee.map_or(Vec::new(), |callee| callee.read_arguments());
            read.into_iter().fold(0, |bits, register| bits | 1 << register)
        };
        let mut errors = flow::errors(&cx.code.insns, function, args, &self.objects, arguments);
        // A struct_ops program may return nothing.
        let must_return = program.is_some_and(|(kind, _)| kind != ProgramKind::StructOps);
        errors.retain(|&(pc, _)| cx.code.insns[pc].op != insn::EXIT || must_return);
        let finding = |(pc, error)| {
            let (check, message) = match error {
                Error::Unset(register) => ("uninitialised", format!("r{register} is read but has no value")),
                Error::Null => ("null-dereference", "access through NULL".to_owned()),
            };
            Finding {
                check,
                pc,
                message,
                call: None,
            }
        };
        errors.into_iter().map(finding).collect()
    }
}

fn untested(found: &Use) -> Finding {
    let state = if found.is_null { "is NULL" } else { "may be NULL" };
    let message = match &found.how {
        How::Load(size) => format!("load of {size} bytes through a pointer that {state}"),
        How::Store(size) => format!("store of {size} bytes through a pointer that {state}"),
        How::Arithmetic => format!("arithmetic on a pointer that {state}"),
        How::Argument(name) => format!("a pointer that {state} is passed to {name}"),
    };
    Finding {
        check: if found.is_null { "null-dereference" } else { "untested" },
        pc: found.pc,
        message,
        call: Some(found.call),
    }
}
