// SPDX-License-Identifier: GPL-2.0-only
//! The steps of a case, a line of words each.
//!
//! | step | what it does, or what must hold |
//! |---|---|
//! | `reopen` | starts anew with the object as it is in its file; a case begins so |
//! | `set NAME VALUE` | sets a global: before it is loaded any, while it is loaded those that may change |
//! | `ops MEMBER VALUE` | sets a constant of the callback table for the loads that follow |
//! | `open` | links and compiles the object without loading it |
//! | `refused TEXT` | it does not load: the message has TEXT |
//! | `load` | loads it; globals keep what an earlier load left in them. It may end while it is enabled |
//! | `program NAME ARG...` | runs a program of type syscall; `pid:NAME` is a task's pid |
//! | `run TIME` | lets the machine run |
//! | `hammer TASK EVERY TIME CPUS` | for TIME, binds EVERY so long the next of the tasks called TASK to one CPU, to each of the first CPUS in turn |
//! | `offline CPU`, `online CPU` | CPU hotplug, at once |
//! | `unload` | unloads the policy |
//! | `loaded` | the policy is enabled |
//! | `exit KIND [code N] [message TEXT]` | it ended so |
//! | `remember` | what `+NAME` and `cpu:TASK` count from |
//! | `expect A OP B` | compares two values, OP one of `== != < <= > >=` |
//!
//! A value is a product of numbers, facts and enumerators as in profiles, globals (`NAME`), their increase (`+NAME`), and ns of CPU
//! time used by the tasks called TASK or TASK-0, TASK-1, ... (`cpu:TASK`).

use crate::duration;

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
    pub fn parse(text: &str) -> Result<Step, String> {
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
                cpus: cpus.parse().map_err(|_| format!("'{cpus}' is no number of CPUs"))?,
            },
            ("offline" | "online", [cpu]) => Step::Hotplug {
                cpu: cpu.parse().map_err(|_| format!("'{cpu}' is no CPU"))?,
                online: verb == "online",
            },
            ("unload", []) => Step::Unload,
            ("loaded", []) => Step::Loaded,
            ("exit", [kind, ..]) => exit(kind, rest[kind.len()..].trim())?,
            ("remember", []) => Step::Remember,
            ("expect", [left, relation, right]) => Step::Expect {
                left: (*left).into(),
                relation: Relation::parse(relation).ok_or_else(|| format!("'{relation}' compares nothing"))?,
                right: (*right).into(),
            },
            _ => {
                return Err(
                    "unknown step, or not its words: expected reopen, set NAME VALUE, ops MEMBER VALUE, open, refused TEXT, load, \
                     program NAME ARG..., run TIME, hammer TASK EVERY TIME CPUS, offline CPU, online CPU, unload, loaded, exit KIND [code N] [message TEXT], \
                     remember or expect A OP B"
                        .into(),
                );
            }
        };
        Ok(step)
    }
}

fn exit(kind: &str, rest: &str) -> Result<Step, String> {
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
        return Err(format!("'{rest}': expected code N or message TEXT"));
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
    fn steps_are_words() {
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
        assert!(Step::parse("expect a = b").unwrap_err().contains("compares nothing"));
        assert!(Step::parse("run fast").unwrap_err().contains("length of time"));
        assert!(Step::parse("load it").is_err());
        assert!(Step::parse("exit SCX_EXIT_ERROR cod 3").is_err());
    }
}
