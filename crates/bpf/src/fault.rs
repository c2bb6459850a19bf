// SPDX-License-Identifier: GPL-2.0-only
//! Faults, which end a BPF program: kind, message and instruction.

use std::fmt;

/// Reason for which a BPF program was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A load or store at an address that the program may not access.
    Memory,
    /// The call used up its budget of instructions.
    Budget,
    /// BPF stack overflow, because calls nest too deep.
    Stack,
    /// The program executed something that is not modelled: a kernel field, a kfunc, an
    /// instruction.
    Trap,
    /// A helper or kfunc rejected its arguments.
    Func,
    /// No error: the program called `bpf_throw` with this cookie. The program that the kernel
    /// called ends and returns the cookie.
    Throw(u64),
    /// The current context does not allow the call of a kfunc.
    NotAllowed,
    /// The sanitizer found an error; [`Details::report`] has the details.
    Check,
}

/// Details of a fault that the sanitizer provides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Address to which the fault refers, if any.
    pub addr: Option<u64>,
    /// Notes about the address or the object, some with an instruction to which they refer.
    pub notes: Vec<(String, Option<usize>)>,
    /// Instructions that made the calls in progress, innermost first.
    pub callers: Vec<usize>,
}

/// A policy's fault: the message, and the instruction in the BPF code.
/// [`Code::describe`](crate::image::Code::describe) formats the instruction.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault(Box<Details>);

/// The contents of a [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    pub kind: FaultKind,
    /// Message, in the kernel's words if the kernel has one for this error.
    pub message: String,
    /// Index of the running instruction in the linked code; the VM sets it.
    pub pc: Option<usize>,
    /// Details from the sanitizer, if it is on.
    pub report: Option<Report>,
}

impl Fault {
    /// Makes a fault; the VM sets the instruction later.
    #[cold]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(Details {
            kind,
            message: message.into(),
            pc: None,
            report: None,
        }))
    }

    /// Makes the fault of a helper or kfunc that rejects its arguments, with the kernel's message.
    #[cold]
    pub fn func(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Func, message)
    }

    pub(crate) fn with_report(mut self, report: Report) -> Fault {
        self.0.report.get_or_insert(report);
        self
    }

    /// Replaces the report.
    pub(crate) fn with_whole_report(mut self, report: Report) -> Fault {
        self.0.report = Some(report);
        self
    }

    pub(crate) fn at(mut self, pc: usize) -> Fault {
        self.0.pc.get_or_insert(pc);
        self
    }
}

impl std::ops::Deref for Fault {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
