// SPDX-License-Identifier: GPL-2.0-only
//! The commands of a script, and the parser of a line with a command.

use super::names::Names;
use super::{Policy, parse_policy};
use crate::words::Words;
use input::{Error, suggest};

/// Attributes that `create` and `set` name.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    pub class: Option<String>,
    pub nice: Option<i32>,
    pub prio: Option<u32>,
    pub slice: Option<u64>,
}

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    Group(String),
    Create {
        name: String,
        attributes: Attributes,
        cpus: Option<Vec<u32>>,
        group: String,
        kernel: bool,
    },
    WakeFrom {
        name: String,
        cpu: u32,
        sync: bool,
    },
    WakeBy {
        name: String,
        waker: String,
        sync: bool,
    },
    Block(String),
    Sleep {
        name: String,
        ns: u64,
    },
    Yield(String),
    Fork {
        name: String,
        child: String,
        thread: bool,
    },
    Exec(String),
    Exit(String),
    MigrateDisable(String),
    MigrateEnable(String),
    Set {
        name: String,
        attributes: Attributes,
    },
    Affinity {
        name: String,
        cpus: Vec<u32>,
    },
    Move {
        name: String,
        group: String,
    },
    Weight {
        group: String,
        weight: u32,
    },
    Idle {
        group: String,
        idle: bool,
    },
    Max {
        group: String,
        quota_us: Option<u64>,
        period_us: u64,
    },
    Hotplug {
        cpu: u32,
        online: bool,
    },
    /// A sub-scheduler is attached to a group.
    Attach {
        group: String,
        policy: Policy,
    },
    /// The sub-scheduler of a group is detached.
    Detach {
        group: String,
    },
    Advance(u64),
    Tick,
}

const COMMANDS: [&str; 25] = [
    "machine",
    "policy",
    "group",
    "create",
    "wake",
    "block",
    "sleep",
    "yield",
    "fork",
    "thread",
    "exec",
    "exit",
    "migrate_disable",
    "migrate_enable",
    "set",
    "affinity",
    "move",
    "weight",
    "cpu.idle",
    "cpu.max",
    "hotplug",
    "attach",
    "detach",
    "advance",
    "tick",
];
const CLASSES: [&str; 6] = ["other", "batch", "idle", "fifo", "rr", "ext"];

fn attributes(words: &mut Words) -> Result<Attributes, Error> {
    let class = match words.value("class") {
        Some(word) if CLASSES.contains(&word.text) => Some(word.text.to_string()),
        Some(word) => {
            let error = words.error(word.column, format!("`{}` is not a class", word.text));
            return Err(error.hint(suggest::hint(word.text, &CLASSES)));
        }
        None => None,
    };
    let nice = words
        .value("nice")
        .map(|word| words.number(word, -20, 19))
        .transpose()?;
    let prio = words.value("prio").map(|word| words.number(word, 1, 99)).transpose()?;
    let slice = words.value("slice").map(|word| words.duration(word)).transpose()?;
    Ok(Attributes {
        class,
        nice,
        prio,
        slice,
    })
}

const ATTRIBUTES: [&str; 7] = ["class", "nice", "prio", "slice", "cpus", "cgroup", "kernel"];

pub(super) fn command(words: &mut Words, number: usize, names: &mut Names) -> Result<Command, Error> {
    let first = words.next("a command")?;
    let mut known: &[&str] = &[];
    let command = match first.text {
        "group" => Command::Group(names.new_group(words)?),
        "create" => {
            known = &ATTRIBUTES;
            let name = names.new_task(words)?;
            let kernel = words.flag("kernel");
            let group = match words.value("cgroup") {
                Some(word) => names.known_group(words, word)?,
                None => "/".to_string(),
            };
            let cpus = words
                .value("cpus")
                .map(|word| words.cpus(word, names.nr_cpus))
                .transpose()?;
            Command::Create {
                name,
                attributes: attributes(words)?,
                cpus,
                group,
                kernel,
            }
        }
        "wake" => {
            known = &["from", "by", "sync"];
            let sync = words.flag("sync");
            let name = names.task(words)?;
            match (words.value("by"), words.value("from")) {
                (Some(waker), None) => Command::WakeBy {
                    waker: names.known_task(words, waker)?,
                    name,
                    sync,
                },
                (None, Some(cpu)) => Command::WakeFrom {
                    cpu: names.cpu(words, cpu)?,
                    name,
                    sync,
                },
                _ => {
                    let error = words.error(first.column, "expected from=CPU or by=TASK");
                    return Err(error.hint(format!("for example: wake {name} from=1")));
                }
            }
        }
        "block" => Command::Block(names.task(words)?),
        "sleep" => {
            let name = names.task(words)?;
            let word = words.next("a duration")?;
            Command::Sleep {
                name,
                ns: words.duration(word)?,
            }
        }
        "yield" => Command::Yield(names.task(words)?),
        "fork" | "thread" => Command::Fork {
            name: names.task(words)?,
            child: names.new_task(words)?,
            thread: first.text == "thread",
        },
        "exec" => Command::Exec(names.task(words)?),
        "exit" => Command::Exit(names.task(words)?),
        "migrate_disable" => Command::MigrateDisable(names.task(words)?),
        "migrate_enable" => Command::MigrateEnable(names.task(words)?),
        "set" => {
            known = &ATTRIBUTES[..4];
            Command::Set {
                name: names.task(words)?,
                attributes: attributes(words)?,
            }
        }
        "affinity" => {
            let name = names.task(words)?;
            let word = words.next("a list of CPUs")?;
            Command::Affinity {
                name,
                cpus: words.cpus(word, names.nr_cpus)?,
            }
        }
        "move" => Command::Move {
            name: names.task(words)?,
            group: names.group(words)?,
        },
        "weight" => {
            let group = names.group(words)?;
            let word = words.next("a weight")?;
            Command::Weight {
                group,
                weight: words.number(word, 1, 10_000)?,
            }
        }
        "cpu.idle" => {
            let group = names.group(words)?;
            let word = words.next("0 or 1")?;
            Command::Idle {
                group,
                idle: words.number(word, 0, 1)? == 1,
            }
        }
        "cpu.max" => {
            let group = names.group(words)?;
            let quota = words.next("a quota in us, or max")?;
            let quota_us = match quota.text {
                "max" => None,
                _ => Some(words.number(quota, 1_000, 3_600_000_000)?),
            };
            let period_us = match words.next("a period in us") {
                Ok(period) => words.number(period, 1_000, 1_000_000)?,
                Err(_) => 100_000,
            };
            Command::Max {
                group,
                quota_us,
                period_us,
            }
        }
        "hotplug" => {
            let word = words.next("the number of a CPU")?;
            let cpu = names.cpu(words, word)?;
            let state = words.next("`on` or `off`")?;
            match state.text {
                "on" | "off" => Command::Hotplug {
                    cpu,
                    online: state.text == "on",
                },
                _ => return Err(words.error(state.column, format!("expected `on` or `off`, found `{}`", state.text))),
            }
        }
        "attach" => {
            if !names.has_policy {
                let error = words.error(first.column, "no policy could accept a sub-scheduler");
                return Err(error.hint("begin the script with a line such as `policy tree` after the machine"));
            }
            Command::Attach {
                group: names.subgroup(words)?,
                policy: parse_policy(words, number)?,
            }
        }
        "detach" => Command::Detach {
            group: names.subgroup(words)?,
        },
        "advance" => {
            let word = words.next("a duration")?;
            Command::Advance(words.duration(word)?)
        }
        "tick" => Command::Tick,
        "machine" | "policy" => {
            let error = words.error(first.column, format!("`{}` comes after a command", first.text));
            return Err(error.hint("a script begins with its machine and its policy, each at most once"));
        }
        unknown => {
            let error = words.error(first.column, format!("`{unknown}` is not a command"));
            return Err(error.hint(suggest::hint(unknown, &COMMANDS)));
        }
    };
    words.finish(known)?;
    Ok(command)
}
