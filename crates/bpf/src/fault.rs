// SPDX-License-Identifier: GPL-2.0-only
//! Why a program's code was stopped, and where.

use std::fmt;

/// Why a BPF program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A load or store at an address the program has no business with.
    Memory,
    /// More instructions than the budget of one call.
    Budget,
    /// BPF stack overflow: calls too deep.
    Stack,
    /// Something not modelled (a kernel field, a kfunc, an instruction) was really executed.
    Trap,
    /// A helper or kfunc refused its arguments.
    Func,
    /// No error: `bpf_throw`, with its cookie. The program that the kernel called ends and returns it.
    Throw(u64),
    /// A kfunc not allowed in the current context.
    NotAllowed,
    /// Found by the sanitizer; [`Details::report`] tells more.
    Check,
}

/// What the sanitizer knows of a fault beside its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The address it is about, if it is about one.
    pub addr: Option<u64>,
    /// What is known of it, a sentence each; of places in the code their instruction.
    pub notes: Vec<(String, Option<usize>)>,
    /// The calls under way, innermost first: the instruction that makes the call.
    pub callers: Vec<usize>,
}

/// A policy's fault: what, and where in the BPF code. [`Code::describe`](crate::image::Code::describe) words the place.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault(Box<Details>);

/// The contents of a [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Which kind.
    pub kind: FaultKind,
    /// In the kernel's words where the kernel has some.
    pub message: String,
    /// Index of the running instruction in the linked code; filled in by the VM.
    pub pc: Option<usize>,
    /// With the sanitizer.
    pub report: Option<Report>,
}

impl Fault {
    /// A fault whose place the VM fills in.
    #[cold]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(Details {
            kind,
            message: message.into(),
            pc: None,
            report: None,
        }))
    }

    /// A helper or kfunc refuses, with the kernel's message.
    #[cold]
    pub fn func(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Func, message)
    }

    pub(crate) fn with_report(mut self, report: Report) -> Fault {
        self.0.report.get_or_insert(report);
        self
    }

    /// With this report, whatever it had.
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
