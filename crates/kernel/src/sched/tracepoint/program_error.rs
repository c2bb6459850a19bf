// SPDX-License-Identifier: GPL-2.0-only
//! Errors of programs that user space runs: programs of type syscall, and iterators.

use bpf::fault::Fault;
use bpf::image::Code;
use bpf::object::Program;
use thiserror::Error;

/// Why user space could not run a program of the policy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProgramError {
    #[error("program {0} is not of type syscall")]
    NotSyscall(String),
    #[error("program {0} is not a task iterator: expected SEC(\"iter/task\")")]
    NotTaskIterator(String),
    #[error("program {0} cannot run: no policy was loaded")]
    NoPolicy(String),
    #[error("out of memory for the program's context")]
    OutOfMemory,
    #[error("program {program}: {message} in {location}")]
    Fault {
        program: String,
        message: String,
        /// Source line, or the name of the program.
        location: String,
    },
    #[error("program {program} returned {value}, which is neither 0 nor 1")]
    IteratorResult { program: String, value: u64 },
}

impl ProgramError {
    /// Creates the error for a program that has faulted. `code` is the linked code of the policy.
    pub(crate) fn fault(program: &Program, code: &Code, fault: &Fault) -> ProgramError {
        let name = program.name.clone();
        ProgramError::Fault {
            location: fault.pc.map_or(name.clone(), |pc| code.describe(pc)),
            program: name,
            message: fault.message.clone(),
        }
    }
}
