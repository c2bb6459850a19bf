// SPDX-License-Identifier: GPL-2.0-only
//! How a run ended: the state of its policy, and the reason if the policy failed or the workload
//! ended in a deadlock. These are parts of a [`RunResult`], so their field names are JSON keys and
//! must not change.

use crate::figures::RunResult;
use crate::units;
use serde::{Deserialize, Serialize};

/// Whether a policy was loaded, and whether it ran until the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The policy scheduled the whole run.
    #[default]
    Ran,
    /// The policy ended before the run did. [`RunResult::exit`] has the time. The figures cover
    /// only the time until then, unless the run continued with the fair class.
    Ejected,
    /// The policy could not be loaded. There was no run, so there are no figures.
    Refused,
    /// The workload ended in a deadlock: the tasks that had not exited waited for each other, so
    /// nothing could happen any more. The figures cover only the time until then.
    Deadlock,
}

/// A task of a workload that can make no progress any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    pub pid: u32,
    pub comm: String,
    /// Object that the task waits for, for example `mutex m, which b[2] holds`.
    pub waits_for: String,
}

/// The reason why a policy ended, in the kernel's words (`struct scx_exit_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Simulated time in ns at which the policy ended.
    #[serde(default)]
    pub at_ns: u64,
    /// Name in `enum scx_exit_kind`, for example `SCX_EXIT_ERROR_STALL`.
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// The callback that was running, if any.
    pub callback: Option<String>,
    /// Position in the policy's source as `file:line`, if the object contains source lines.
    pub source: Option<String>,
    /// Call stack that the sanitizer recorded, innermost call first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
    /// The sanitizer's notes about the address that was accessed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub dump: String,
}

impl ExitRecord {
    /// Returns the callback and the source line, unless the message already contains them.
    pub fn location(&self) -> Vec<&str> {
        let parts = [&self.callback, &self.source].into_iter().flatten().map(String::as_str);
        parts.filter(|part| !self.message.contains(part)).collect()
    }

    /// Returns the kernel's reason and the message, for example `runtime error: non-existent DSQ
    /// 0x7`.
    pub fn sentence(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message => format!("{}: {message}", self.reason),
        }
    }
}

impl RunResult {
    /// Returns whether the policy was refused or ended before the run did, or the workload ended in
    /// a deadlock.
    pub fn failed(&self) -> bool {
        self.status != Status::Ran
    }

    /// Returns whether the result can be marked as the best of several. The policy must have
    /// scheduled the whole run, and it must not have lost or refused a task. The user must not have
    /// stopped the run.
    pub fn can_win(&self) -> bool {
        !self.failed() && !self.interrupted && self.lost_tasks.is_none() && self.failed_forks == 0
    }

    /// Returns a short text about how a failed run ended: `refused`, `failed at 1.20 s`, `ended at
    /// 1.20 s` if the policy exited on its own, or `deadlock at 1.20 s`.
    pub fn fate(&self) -> Option<String> {
        match (self.status, &self.exit) {
            (Status::Ran, _) => None,
            (Status::Deadlock, _) => Some(format!("deadlock at {}", units::time(self.simulated_ns))),
            (Status::Refused, _) | (Status::Ejected, None) => Some("refused".to_owned()),
            (Status::Ejected, Some(exit)) => {
                let verb = match exit.kind.starts_with("SCX_EXIT_ERROR") {
                    true => "failed",
                    false => "ended",
                };
                Some(format!("{verb} at {}", units::time(exit.at_ns)))
            }
        }
    }

    /// Returns how and why a failed run ended, for example `refused: ops.name is empty (-22)`.
    pub fn failure(&self) -> Option<String> {
        let fate = self.fate()?;
        if self.status == Status::Deadlock {
            return Some(format!(
                "ended at {} in a deadlock: {}",
                units::time(self.simulated_ns),
                blocked_sentence(&self.deadlock)
            ));
        }
        let exit = self.exit.as_ref()?;
        Some(match exit.reason == fate {
            true => format!("{fate}: {}", exit.message),
            false => format!("{fate}: {}", exit.sentence()),
        })
    }
}

/// Largest number of tasks that a sentence about a deadlock names.
const BLOCKED_NAMED: usize = 4;

/// Returns a sentence about the tasks of a deadlock, for example `a[1] waits for a resume of b;
/// b[2] waits for mutex m, which a[1] holds`.
fn blocked_sentence(blocked: &[Blocked]) -> String {
    let named = blocked.iter().take(BLOCKED_NAMED);
    let named = named.map(|task| format!("{}[{}] waits for {}", task.comm, task.pid, task.waits_for));
    let left_out = match blocked.len().saturating_sub(BLOCKED_NAMED) {
        0 => None,
        1 => Some("and 1 more task waits".to_owned()),
        n => Some(format!("and {n} more tasks wait")),
    };
    named.chain(left_out).collect::<Vec<_>>().join("; ")
}
