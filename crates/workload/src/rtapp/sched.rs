// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling policies and priorities of tasks and phases.

use super::file::{File, INT_MAX};
use super::json::Member;
use crate::check;
use crate::program::SchedPolicy;
use input::{Error, suggest};

/// A scheduling policy without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Other,
    Batch,
    Idle,
    Ext,
    Fifo,
    RoundRobin,
}

/// Names of the policies in files. SCHED_EXT is an extension of rt-app's format.
pub const NAMES: &[(&str, Name)] = &[
    ("SCHED_OTHER", Name::Other),
    ("SCHED_BATCH", Name::Batch),
    ("SCHED_IDLE", Name::Idle),
    ("SCHED_EXT", Name::Ext),
    ("SCHED_FIFO", Name::Fifo),
    ("SCHED_RR", Name::RoundRobin),
];

/// Keys of tasks and phases that concern scheduling.
pub const KEYS: &[&str] = &[
    "policy",
    "priority",
    "util_min",
    "util_max",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
];

impl Name {
    /// Returns rt-app's default priority for the policy.
    fn default_priority(self) -> i32 {
        match self {
            Name::Fifo | Name::RoundRobin => 10,
            _ => 0,
        }
    }

    pub fn from_policy(policy: SchedPolicy) -> Name {
        match policy {
            SchedPolicy::Normal { .. } => Name::Other,
            SchedPolicy::Batch { .. } => Name::Batch,
            SchedPolicy::Idle => Name::Idle,
            SchedPolicy::Ext { .. } => Name::Ext,
            // SCHED_DEADLINE does not occur here, because the tasks of a file cannot have it.
            SchedPolicy::Fifo { .. } | SchedPolicy::Deadline { .. } => Name::Fifo,
            SchedPolicy::RoundRobin { .. } => Name::RoundRobin,
        }
    }

    /// Returns whether tasks with this policy may request a slice (sched_setattr with
    /// sched_runtime).
    pub fn has_slice(self) -> bool {
        matches!(self, Name::Other | Name::Batch | Name::Ext)
    }

    pub fn is_rt(self) -> bool {
        matches!(self, Name::Fifo | Name::RoundRobin)
    }

    fn with(self, priority: i32) -> SchedPolicy {
        // A negative number becomes 0, which is out of range, too. A plain cast would make it a
        // large positive number.
        let rt_priority = u32::try_from(priority).unwrap_or(0);
        match self {
            Name::Other => SchedPolicy::Normal { nice: priority },
            Name::Batch => SchedPolicy::Batch { nice: priority },
            Name::Idle => SchedPolicy::Idle,
            Name::Ext => SchedPolicy::Ext { nice: priority },
            Name::Fifo => SchedPolicy::Fifo { rt_priority },
            Name::RoundRobin => SchedPolicy::RoundRobin { rt_priority },
        }
    }
}

/// The scheduling settings of a task or phase.
#[derive(Clone, Copy, Default)]
pub struct Sched<'n> {
    pub policy: Option<Name>,
    pub priority: Option<(i32, &'n Member)>,
    /// The key "dl-runtime" in ns, unless it is 0. SCHED_OTHER and SCHED_BATCH tasks request it as
    /// their slice. Other policies ignore it, as in rt-app.
    pub runtime: Option<(u64, &'n Member)>,
}

impl Sched<'_> {
    /// Returns the policy that these settings result in if `current` is the current one, or `None`
    /// if they set nothing.
    pub fn resolve(&self, file: File, current: Name) -> Result<Option<SchedPolicy>, Error> {
        if self.policy.is_none() && self.priority.is_none() {
            return Ok(None);
        }
        let name = self.policy.unwrap_or(current);
        let priority = self.priority.map_or(name.default_priority(), |(priority, _)| priority);
        let policy = name.with(priority);
        if let Some((_, member)) = self.priority {
            check::policy(policy).map_err(|f| file.error(member.node.at, f.message).hint(f.hint))?;
        }
        Ok(Some(policy))
    }

    /// Returns the slice in ns that a task with the policy `name` requests.
    pub fn slice(&self, name: Name) -> Option<u64> {
        self.runtime.map(|(ns, _)| ns).filter(|_| name.has_slice())
    }
}

/// Reads the name of a policy.
pub fn name(file: File, member: &Member) -> Result<Name, Error> {
    let text = file.string(member)?;
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == text) {
        return Ok(*name);
    }
    let error = file.error(member.node.at, format!("policy \"{text}\" is not modelled"));
    if text == "SCHED_DEADLINE" {
        return Err(error.hint("the deadline class is not simulated; use SCHED_FIFO instead"));
    }
    let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
    Err(error.hint(suggest::hint(text, &known)))
}

/// Reads the value of one of [`KEYS`].
pub fn read<'n>(file: File, member: &'n Member, sched: &mut Sched<'n>) -> Result<(), Error> {
    match member.key.as_str() {
        "policy" => sched.policy = Some(name(file, member)?),
        "priority" => {
            let priority = file.int(member, " (nice -20 to 19, real-time 1 to 99)", -20..=99)?;
            sched.priority = Some((priority, member));
        }
        // Utilisation clamps are not modelled, so only values that have no effect are accepted.
        "util_min" | "util_max" => {
            let value: i64 = file.int(member, "", -1..=1024)?;
            let unclamped = if member.key == "util_min" { 0 } else { 1024 };
            if value != -1 && value != unclamped {
                return Err(file
                    .error(
                        member.at,
                        format!("\"{}\": utilisation clamps are not modelled", member.key),
                    )
                    .hint("remove it"));
            }
        }
        "dl-runtime" => sched.runtime = Some((file.usec(member)?, member)).filter(|(ns, _)| *ns > 0),
        // Only SCHED_DEADLINE tasks use the other keys, and that policy is refused.
        _ => {
            file.int::<i64>(member, " us", 0..=INT_MAX)?;
        }
    }
    Ok(())
}
