// SPDX-License-Identifier: GPL-2.0-only
//! Why a policy ended (struct scx_exit_info): kinds, message, backtrace.

use std::fmt;

/// Why a policy ended (enum scx_exit_kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// It has not; used for dumps on request.
    None = 0,
    /// The user unloaded it.
    Unreg = 64,
    /// It asked for it (scx_bpf_exit).
    UnregBpf = 65,
    /// The kernel unloaded it: hotplug.
    UnregKern = 66,
    Sysrq = 67,
    /// A runtime error.
    Error = 1024,
    /// scx_bpf_error.
    ErrorBpf = 1025,
    /// A runnable task was not run for too long.
    ErrorStall = 1026,
    /// Found by checked mode. No kernel has it: there the verifier would not have let the policy in.
    ErrorCheck = 1152,
}

impl Kind {
    /// The kernel's words for it (scx_exit_reason).
    pub fn reason(self) -> &'static str {
        match self {
            Kind::None => "<UNKNOWN>",
            Kind::Unreg => "unregistered from user space",
            Kind::UnregBpf => "unregistered from BPF",
            Kind::UnregKern => "unregistered from the main kernel",
            Kind::Sysrq => "disabled by sysrq-S",
            Kind::Error => "runtime error",
            Kind::ErrorBpf => "scx_bpf_error",
            Kind::ErrorStall => "runnable task stall",
            Kind::ErrorCheck => "checked mode",
        }
    }

    /// Its enumerator's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::None => "SCX_EXIT_NONE",
            Kind::Unreg => "SCX_EXIT_UNREG",
            Kind::UnregBpf => "SCX_EXIT_UNREG_BPF",
            Kind::UnregKern => "SCX_EXIT_UNREG_KERN",
            Kind::Sysrq => "SCX_EXIT_SYSRQ",
            Kind::Error => "SCX_EXIT_ERROR",
            Kind::ErrorBpf => "SCX_EXIT_ERROR_BPF",
            Kind::ErrorStall => "SCX_EXIT_ERROR_STALL",
            Kind::ErrorCheck => "SCX_EXIT_ERROR_CHECK",
        }
    }

    pub fn is_error(self) -> bool {
        self >= Kind::Error
    }
}

/// The exit record (struct scx_exit_info).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Name of the policy.
    pub policy: String,
    pub kind: Kind,
    /// Set by scx_bpf_exit and by hotplug (SCX_ECODE_*), else 0.
    pub code: i64,
    /// The CPU on which it happened, or -1.
    pub cpu: i32,
    /// SCX_EFLAG_*
    pub flags: u64,
    pub reason: &'static str,
    pub message: String,
    /// On errors, innermost first: where the BPF program was, and which callback it ran for.
    pub backtrace: Vec<String>,
    /// What checked mode tells besides: whose the address is, where it was got and given back.
    pub notes: Vec<String>,
    /// On errors, the state of the machine as the kernel's debug dump words it.
    pub dump: String,
    /// When, ns.
    pub at_ns: u64,
}

impl Exit {
    /// The record of a policy that was refused before any of its callbacks ran.
    pub fn refusal(policy: &str, message: String, at_ns: u64) -> Box<Exit> {
        Box::new(Exit {
            policy: policy.to_owned(),
            kind: Kind::None,
            code: 0,
            cpu: -1,
            flags: 0,
            reason: "refused",
            message,
            backtrace: Vec::new(),
            notes: Vec::new(),
            dump: String::new(),
            at_ns,
        })
    }
}

impl fmt::Display for Exit {
    /// As the kernel logs it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::None {
            return write!(f, "{}: {}", self.policy, self.message);
        }
        write!(
            f,
            "sched_ext: BPF scheduler \"{}\" disabled ({})",
            self.policy, self.reason
        )?;
        if self.kind.is_error() {
            if !self.message.is_empty() {
                write!(f, "\nsched_ext: {}: {}", self.policy, self.message)?;
            }
            for line in self.backtrace.iter().chain(&self.notes) {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }
}

/// Cuts to at most `max` bytes.
pub(super) fn truncate(text: &mut String, max: usize) {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
