// SPDX-License-Identifier: GPL-2.0-only
//! A fault: the reason why a BPF program was ended. It has a kind, a message and an instruction.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A load or store at an address that the program may not access.
    Memory,
    /// The call executed more instructions than its budget allows. The budget is a fixed number.
    Budget,
    /// BPF stack overflow, because calls are nested too deeply.
    Stack,
    /// The program used something that the simulator does not have: a kernel field, a kfunc or an
    /// instruction.
    Trap,
    /// A helper or kfunc rejected its arguments.
    Func,
    /// Not an error. The program called `bpf_throw` with this cookie. This ends the program that
    /// the kernel called, and the cookie becomes the return value of that program.
    Throw(u64),
    /// The program called a kfunc that the current context (the kind of callback in which the
    /// program runs) does not allow.
    NotAllowed,
    /// The sanitizer found an error. [`Details::report`] describes it.
    Check,
}

/// Details that the sanitizer adds to a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Address to which the fault refers, if any.
    pub addr: Option<u64>,
    /// Notes about the address or the object. A note may refer to an instruction.
    pub notes: Vec<(String, Option<usize>)>,
    /// Instructions of the calls that were in progress, from the innermost call outwards.
    pub callers: Vec<usize>,
}

/// The reason why a policy's program was ended. [`Code::describe`](crate::image::Code::describe)
/// formats the instruction for messages.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault(Box<Details>);

/// The contents of a [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    pub kind: FaultKind,
    /// The message for the user. It is the kernel's message if the kernel has one for this error.
    pub message: String,
    /// Index in the linked code of the instruction that was running. The VM sets it.
    pub pc: Option<usize>,
    /// Details from the sanitizer, if it is on.
    pub report: Option<Report>,
}

impl Fault {
    /// Makes a fault. The VM sets the instruction later.
    #[cold]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(Details {
            kind,
            message: message.into(),
            pc: None,
            report: None,
        }))
    }

    /// Makes the fault of a helper or kfunc that rejects its arguments. `message` is the kernel's
    /// message for this error.
    #[cold]
    pub fn func(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Func, message)
    }

    /// Adds a report, unless the fault already has one.
    pub(crate) fn with_report(mut self, report: Report) -> Fault {
        self.0.report.get_or_insert(report);
        self
    }

    /// Sets the report, even if the fault already has one.
    pub(crate) fn with_whole_report(mut self, report: Report) -> Fault {
        self.0.report = Some(report);
        self
    }

    /// Sets the instruction, unless the fault already has one.
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
