// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling policy and priority of tasks and phases.

use super::file::File;
use super::json::Member;
use crate::check;
use crate::program::Policy;
use input::{Error, suggest};

/// A policy without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Other,
    Batch,
    Idle,
    Ext,
    Fifo,
    RoundRobin,
}

/// As files spell them; SCHED_BATCH and SCHED_EXT are ours, the others rt-app's.
pub const NAMES: &[(&str, Name)] = &[
    ("SCHED_OTHER", Name::Other),
    ("SCHED_BATCH", Name::Batch),
    ("SCHED_IDLE", Name::Idle),
    ("SCHED_EXT", Name::Ext),
    ("SCHED_FIFO", Name::Fifo),
    ("SCHED_RR", Name::RoundRobin),
];

/// Keys that belong here, in tasks and in phases.
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
    /// With rt-app's default priorities.
    fn default_priority(self) -> i32 {
        match self {
            Name::Fifo | Name::RoundRobin => 10,
            _ => 0,
        }
    }

    pub fn of(policy: Policy) -> Name {
        match policy {
            Policy::Normal { .. } => Name::Other,
            Policy::Batch { .. } => Name::Batch,
            Policy::Idle => Name::Idle,
            Policy::Ext { .. } => Name::Ext,
            // Of tasks that no file names.
            Policy::Fifo { .. } | Policy::Deadline => Name::Fifo,
            Policy::RoundRobin { .. } => Name::RoundRobin,
        }
    }

    pub fn is_rt(self) -> bool {
        matches!(self, Name::Fifo | Name::RoundRobin)
    }

    fn with(self, priority: i32) -> Policy {
        // Negative numbers must not become large ones: 0 is out of range too.
        let rt_priority = priority.max(0) as u32;
        match self {
            Name::Other => Policy::Normal { nice: priority },
            Name::Batch => Policy::Batch { nice: priority },
            Name::Idle => Policy::Idle,
            Name::Ext => Policy::Ext { nice: priority },
            Name::Fifo => Policy::Fifo { rt_priority },
            Name::RoundRobin => Policy::RoundRobin { rt_priority },
        }
    }
}

/// What a task or phase says about its scheduling.
#[derive(Clone, Copy, Default)]
pub struct Sched<'n> {
    pub policy: Option<Name>,
    pub priority: Option<(i32, &'n Member)>,
}

impl Sched<'_> {
    /// The policy it asks for, given the one in force; `None` if it asks for nothing.
    pub fn resolve(&self, file: File, current: Name) -> Result<Option<Policy>, Error> {
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
}

pub fn name(file: File, member: &Member) -> Result<Name, Error> {
    let text = file.string(member)?;
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == text) {
        return Ok(*name);
    }
    let error = file.error(member.node.at, format!("policy \"{text}\" is not modelled"));
    if text == "SCHED_DEADLINE" {
        return Err(error.hint("there is no deadline class here; SCHED_FIFO comes nearest"));
    }
    let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
    Err(error.hint(suggest::hint(text, &known)))
}

/// Reads one of [`KEYS`].
pub fn read<'n>(file: File, member: &'n Member, sched: &mut Sched<'n>) -> Result<(), Error> {
    match member.key.as_str() {
        "policy" => sched.policy = Some(name(file, member)?),
        "priority" => {
            let priority = file.int(member, " (nice -20..=19, real-time 1..=99)", -20..=99)?;
            sched.priority = Some((priority as i32, member));
        }
        // No clamp at all is what is modelled.
        "util_min" | "util_max" => {
            let value = file.int(member, "", -1..=1024)?;
            let unclamped = if member.key == "util_min" { 0 } else { 1024 };
            if value != -1 && value != unclamped {
                return Err(file
                    .error(
                        member.at,
                        format!("\"{}\": utilisation clamps are not modelled", member.key),
                    )
                    .hint("there is no frequency scaling here; leave it out"));
            }
        }
        key => {
            return Err(file
                .error(member.at, format!("\"{key}\": SCHED_DEADLINE is not modelled"))
                .hint("use SCHED_FIFO with a priority and a timer"));
        }
    }
    Ok(())
}
