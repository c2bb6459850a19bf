// SPDX-License-Identifier: GPL-2.0-only
//! The exit record of a policy: kind, message and backtrace. It corresponds to struct
//! scx_exit_info.

use std::fmt;

/// Reason for which a policy ended (enum scx_exit_kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum ExitKind {
    /// The policy has not ended; used for dumps on request.
    None = 0,
    /// The user unloaded the policy.
    Unreg = 64,
    /// The policy ended itself (scx_bpf_exit).
    UnregBpf = 65,
    /// The kernel unloaded the policy because of CPU hotplug.
    UnregKern = 66,
    /// The user ended the policy with SysRq-S.
    Sysrq = 67,
    /// The policy above the sub-scheduler has ended.
    Parent = 68,
    /// The policy above the sub-scheduler has ended it (scx_bpf_sub_kill).
    ParentKill = 69,
    /// A runtime error.
    Error = 1024,
    /// The policy reported an error (scx_bpf_error).
    ErrorBpf = 1025,
    /// A runnable task waited for longer than the watchdog's timeout.
    ErrorStall = 1026,
    /// A task was enqueued again and again without running.
    ErrorReenq = 1027,
    /// Tasks of the sub-scheduler used too much CPU time in rescues.
    ErrorRescue = 1028,
    /// The sanitizer found an error. Linux has no such kind, because its verifier would reject the
    /// policy when it is loaded.
    ErrorCheck = 1152,
}

impl ExitKind {
    /// Returns the kernel's phrase for the kind (scx_exit_reason).
    pub fn reason(self) -> &'static str {
        match self {
            ExitKind::None => "<UNKNOWN>",
            ExitKind::Unreg => "unregistered from user space",
            ExitKind::UnregBpf => "unregistered from BPF",
            ExitKind::UnregKern => "unregistered from the main kernel",
            ExitKind::Sysrq => "disabled by sysrq-S",
            ExitKind::Parent => "parent exiting",
            ExitKind::ParentKill => "killed by parent scheduler",
            ExitKind::Error => "runtime error",
            ExitKind::ErrorBpf => "scx_bpf_error",
            ExitKind::ErrorStall => "runnable task stall",
            ExitKind::ErrorReenq => "reenqueue limit",
            ExitKind::ErrorRescue => "rescue bandwidth overload",
            ExitKind::ErrorCheck => "sanitizer",
        }
    }

    /// Returns the name of the kind's enumerator.
    pub fn name(self) -> &'static str {
        match self {
            ExitKind::None => "SCX_EXIT_NONE",
            ExitKind::Unreg => "SCX_EXIT_UNREG",
            ExitKind::UnregBpf => "SCX_EXIT_UNREG_BPF",
            ExitKind::UnregKern => "SCX_EXIT_UNREG_KERN",
            ExitKind::Sysrq => "SCX_EXIT_SYSRQ",
            ExitKind::Parent => "SCX_EXIT_PARENT",
            ExitKind::ParentKill => "SCX_EXIT_PARENT_KILL",
            ExitKind::Error => "SCX_EXIT_ERROR",
            ExitKind::ErrorBpf => "SCX_EXIT_ERROR_BPF",
            ExitKind::ErrorStall => "SCX_EXIT_ERROR_STALL",
            ExitKind::ErrorReenq => "SCX_EXIT_ERROR_REENQ",
            ExitKind::ErrorRescue => "SCX_EXIT_ERROR_RESCUE",
            ExitKind::ErrorCheck => "SCX_EXIT_ERROR_CHECK",
        }
    }

    /// Returns whether a user unloaded the policy, or the policy above it has ended.
    pub fn is_orderly(self) -> bool {
        matches!(self, ExitKind::None | ExitKind::Unreg | ExitKind::Parent)
    }

    /// Returns whether the policy ended because of an error.
    pub fn is_error(self) -> bool {
        self >= ExitKind::Error
    }
}

/// The exit record of a policy (struct scx_exit_info).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Name of the policy.
    pub policy: String,
    pub kind: ExitKind,
    /// Exit code from scx_bpf_exit() or from hotplug (SCX_ECODE_*), otherwise 0.
    pub code: i64,
    /// CPU on which the reason occurred, or -1.
    pub cpu: i32,
    /// SCX_EFLAG_* flags
    pub flags: u64,
    pub reason: &'static str,
    pub message: String,
    /// For errors, the position in the BPF program, its callers and the callback that was running,
    /// innermost first.
    pub backtrace: Vec<String>,
    /// Additional information about an error. The sanitizer adds, for example, the object to which
    /// an address belongs, and where the object was acquired and released.
    pub notes: Vec<String>,
    /// For errors, the debug dump of the machine's state, in the kernel's format.
    pub dump: String,
    /// Time of the exit, ns.
    pub at_ns: u64,
}

impl Exit {
    /// Returns the record of a policy that was rejected before any of its callbacks ran.
    pub fn refusal(policy: &str, message: String, at_ns: u64) -> Box<Exit> {
        Box::new(Exit {
            policy: policy.to_owned(),
            kind: ExitKind::None,
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
    /// Formats the record like the kernel's log message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == ExitKind::None {
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

/// Shortens a text to at most `max` bytes.
pub(crate) fn truncate(text: &mut String, max: usize) {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
