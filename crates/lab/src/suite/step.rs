// SPDX-License-Identifier: GPL-2.0-only
//! The steps of a suite's test case. A step is a string such as `run 1s`.
//!
//! | step | action or condition |
//! |---|---|
//! | `reopen` | starts again with the unchanged object, as each case does at its start |
//! | `set NAME VALUE` | sets a global. After `load`, only writable globals can be set |
//! | `ops MEMBER VALUE` | sets a number in struct sched_ext_ops for later loads |
//! | `open` | links and compiles the object without loading it |
//! | `refused TEXT` | requires that loading fails with a message that contains TEXT |
//! | `load` | loads the policy. Globals keep their values. The policy may end itself |
//! | `program NAME ARG...` | runs a program of type syscall; argument `pid:TASK`: a task's pid |
//! | `run TIME` | runs the machine |
//! | `hammer TASK EVERY TIME CPUS` | for TIME, changes a task's affinity at intervals of EVERY |
//! | `offline CPU`, `online CPU` | takes a CPU offline or online at once |
//! | `unload` | unloads the policy |
//! | `loaded` | requires that the policy is enabled |
//! | `exit KIND [code N] [message TEXT]` | requires that the policy has ended with this exit |
//! | `remember` | stores the current values. Later, `+NAME` and `cpu:TASK` are the increases |
//! | `expect A OP B` | compares two values with one of `== != < <= > >=` |
//!
//! `hammer` goes round the tasks named TASK and round the CPUs 0 to CPUS - 1. Each time, it binds
//! the next task to the next CPU.
//!
//! A value is one of these factors, or several of them joined by `*`:
//! - a number,
//! - a property of the machine or an enumerator of the kernel, as in profiles,
//! - a global (`NAME`),
//! - the increase of a global (`+NAME`),
//! - the CPU time in ns of the tasks TASK, TASK-0, TASK-1, ... (`cpu:TASK`).

use crate::explore::case::parse_hold;
use input::Error;
use input::duration;

/// A parsed step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reopen,
    Set {
        name: String,
        value: String,
    },
    Ops {
        member: String,
        value: String,
    },
    Open,
    Refused {
        text: String,
    },
    Load,
    Program {
        name: String,
        args: Vec<String>,
    },
    Run {
        ns: u64,
    },
    Hammer {
        task: String,
        every_ns: u64,
        ns: u64,
        cpus: u32,
    },
    Hotplug {
        cpu: u32,
        online: bool,
    },
    /// A run with overlapping callbacks and forced switches, in which nothing is found.
    Explored {
        seed: u64,
        ns: u64,
        holds: Vec<(u64, u64)>,
    },
    Unload,
    Loaded,
    Exit {
        kind: String,
        code: Option<String>,
        message: Option<String>,
    },
    Remember,
    Expect {
        left: String,
        relation: Relation,
        right: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Relation {
    fn parse(text: &str) -> Option<Relation> {
        Some(match text {
            "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            "<" => Relation::Less,
            "<=" => Relation::LessEqual,
            ">" => Relation::Greater,
            ">=" => Relation::GreaterEqual,
            _ => return None,
        })
    }

    pub fn holds(self, left: i128, right: i128) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
            Relation::Less => left < right,
            Relation::LessEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterEqual => left >= right,
        }
    }
}

impl Step {
    pub fn parse(text: &str) -> Result<Step, Error> {
        let (verb, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let step = match (verb, words.as_slice()) {
            ("reopen", []) => Step::Reopen,
            ("set", [name, value]) => Step::Set {
                name: (*name).into(),
                value: (*value).into(),
            },
            ("ops", [member, value]) => Step::Ops {
                member: (*member).into(),
                value: (*value).into(),
            },
            ("open", []) => Step::Open,
            ("refused", [_, ..]) => Step::Refused { text: rest.into() },
            ("load", []) => Step::Load,
            ("program", [name, args @ ..]) => Step::Program {
                name: (*name).into(),
                args: args.iter().map(|&arg| arg.into()).collect(),
            },
            ("run", [time]) => Step::Run {
                ns: duration::parse(time)?,
            },
            ("hammer", [task, every, time, cpus]) => Step::Hammer {
                task: (*task).into(),
                every_ns: duration::parse(every)?.max(1),
                ns: duration::parse(time)?,
                cpus: cpus.parse().map_err(|_| format!("'{cpus}' is not a number of CPUs"))?,
            },
            ("offline" | "online", [cpu]) => Step::Hotplug {
                cpu: cpu.parse().map_err(|_| format!("'{cpu}' is not a CPU number"))?,
                online: verb == "online",
            },
            ("explored", [seed, time, holds @ ..]) => Step::Explored {
                seed: seed.parse().map_err(|_| format!("'{seed}' is not a seed"))?,
                ns: duration::parse(time)?,
                holds: holds.iter().map(|hold| parse_hold(hold)).collect::<Result<_, _>>()?,
            },
            ("unload", []) => Step::Unload,
            ("loaded", []) => Step::Loaded,
            ("exit", [kind, ..]) => exit(kind, rest[kind.len()..].trim())?,
            ("remember", []) => Step::Remember,
            ("expect", [left, relation, right]) => Step::Expect {
                left: (*left).into(),
                relation: Relation::parse(relation)
                    .ok_or_else(|| format!("'{relation}' is not a comparison: expected ==, !=, <, <=, > or >="))?,
                right: (*right).into(),
            },
            _ => {
                return Err(
                    "unknown step or wrong arguments: expected reopen, set NAME VALUE, ops MEMBER VALUE, open, refused TEXT, \
                     load, program NAME ARG..., run TIME, hammer TASK EVERY TIME CPUS, offline CPU, online CPU, \
                     explored SEED TIME [POINT@TIME]..., unload, loaded, exit KIND [code N] [message TEXT], \
                     remember or expect A OP B"
                        .into(),
                );
            }
        };
        Ok(step)
    }
}

fn exit(kind: &str, rest: &str) -> Result<Step, Error> {
    let (mut code, mut message, mut rest) = (None, None, rest);
    if let Some(after) = rest.strip_prefix("code ") {
        let (number, after) = after.trim_start().split_once(' ').unwrap_or((after.trim_start(), ""));
        code = Some(number.to_owned());
        rest = after.trim_start();
    }
    if let Some(text) = rest.strip_prefix("message ") {
        message = Some(text.trim().to_owned());
        rest = "";
    }
    if !rest.is_empty() {
        return Err(Error::new(format!("'{rest}': expected code N or message TEXT")));
    }
    Ok(Step::Exit {
        kind: kind.into(),
        code,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_parsed_from_words() {
        assert_eq!(Step::parse("run 250ms"), Ok(Step::Run { ns: 250_000_000 }));
        assert_eq!(
            Step::parse("exit SCX_EXIT_UNREG_BPF code 3 message gone for good"),
            Ok(Step::Exit {
                kind: "SCX_EXIT_UNREG_BPF".into(),
                code: Some("3".into()),
                message: Some("gone for good".into()),
            })
        );
        assert_eq!(Step::parse("offline 1"), Ok(Step::Hotplug { cpu: 1, online: false }));
        assert!(
            Step::parse("expect a = b")
                .unwrap_err()
                .message
                .contains("is not a comparison")
        );
        assert!(Step::parse("run fast").unwrap_err().message.contains("length of time"));
        let explored = Step::Explored {
            seed: 7,
            ns: 2_000_000,
            holds: vec![(120, 20_000)],
        };
        assert_eq!(Step::parse("explored 7 2ms 120@20us"), Ok(explored));
        assert!(
            Step::parse("explored 7 2ms 120")
                .unwrap_err()
                .message
                .contains("POINT@TIME")
        );
        assert!(Step::parse("load it").is_err());
        assert!(Step::parse("exit SCX_EXIT_ERROR cod 3").is_err());
    }
}
