// SPDX-License-Identifier: GPL-2.0-only
//! The parser of scripts.

use crate::machine::MachineLine;
use crate::words::{MAX_NS, Word, Words};
use input::{Error, suggest};

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) machine: MachineLine,
    pub policy: Option<Policy>,
    /// Lines of the machine and the policy, without comments, each with its number.
    pub(crate) header: Vec<(usize, String)>,
    pub lines: Vec<Line>,
}

/// The policy that schedules the normal tasks.
#[derive(Clone, Debug)]
pub struct Policy {
    pub name: String,
    pub parameters: Vec<(String, String)>,
    /// Number of the line.
    pub line: usize,
}

/// A line with a command.
#[derive(Clone, Debug)]
pub struct Line {
    pub number: usize,
    /// The words of the line, separated by single spaces.
    pub text: String,
    pub command: Command,
}

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
/// Maximum number of tasks.
pub(crate) const MAX_TASKS: usize = 64;
/// Maximum number of groups.
const MAX_GROUPS: usize = 16;

/// Names that the lines so far have introduced.
struct Names {
    nr_cpus: u32,
    has_policy: bool,
    tasks: Vec<String>,
    groups: Vec<String>,
}

impl Names {
    fn task(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the name of a task")?;
        self.known_task(words, word)
    }

    fn known_task(&self, words: &Words, word: Word) -> Result<String, Error> {
        if self.tasks.iter().any(|task| task == word.text) {
            return Ok(word.text.to_string());
        }
        let known: Vec<&str> = self.tasks.iter().map(String::as_str).collect();
        let error = words.error(word.column, format!("no task is called `{}`", word.text));
        Err(match known.is_empty() {
            true => error.hint(format!("create it first: create {}", word.text)),
            false => error.hint(suggest::hint(word.text, &known)),
        })
    }

    fn new_task(&mut self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the name of the new task")?;
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.text.len() > 15 || !word.text.chars().all(letter) {
            let message = format!("`{}` is not a name", word.text);
            return Err(words
                .error(word.column, message)
                .hint("use at most 15 letters, digits and underscores"));
        }
        if self.tasks.iter().any(|task| task == word.text) || ["idle", "none"].contains(&word.text) {
            return Err(words
                .error(word.column, format!("`{}` is already in use", word.text))
                .hint("choose another name"));
        }
        if self.tasks.len() == MAX_TASKS {
            return Err(words.error(word.column, format!("a script has at most {MAX_TASKS} tasks")));
        }
        self.tasks.push(word.text.to_string());
        Ok(word.text.to_string())
    }

    fn known_group(&self, words: &Words, word: Word) -> Result<String, Error> {
        if word.text == "/" || self.groups.iter().any(|group| group == word.text) {
            return Ok(word.text.to_string());
        }
        let error = words.error(word.column, format!("there is no group `{}`", word.text));
        Err(error.hint(format!("create it first: group {}", word.text)))
    }

    fn group(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of a group")?;
        self.known_group(words, word)
    }

    /// Returns a group other than the root.
    fn subgroup(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of a group")?;
        if word.text == "/" {
            return Err(words.error(word.column, "the root group has the policy of the script"));
        }
        self.known_group(words, word)
    }

    fn new_group(&mut self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of the new group")?;
        let named = word.text.strip_prefix('/').is_some_and(|rest| {
            let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            rest.split('/').all(|name| !name.is_empty() && name.chars().all(letter))
        });
        if !named || word.text.len() > 60 {
            let message = format!("`{}` is not the path of a group", word.text);
            return Err(words
                .error(word.column, message)
                .hint("write a path such as /a or /a/x"));
        }
        if self.groups.iter().any(|group| group == word.text) {
            return Err(words.error(word.column, format!("the group `{}` exists already", word.text)));
        }
        let parent = word.text.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parent.is_empty() && !self.groups.iter().any(|group| group == parent) {
            let error = words.error(word.column, format!("there is no group `{parent}`"));
            return Err(error.hint(format!("create it first: group {parent}")));
        }
        if self.groups.len() == MAX_GROUPS {
            return Err(words.error(word.column, format!("a script has at most {MAX_GROUPS} groups")));
        }
        self.groups.push(word.text.to_string());
        Ok(word.text.to_string())
    }

    fn cpu(&self, words: &Words, word: Word) -> Result<u32, Error> {
        words.number(word, 1, self.nr_cpus)
    }
}

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

fn command(words: &mut Words, number: usize, names: &mut Names) -> Result<Command, Error> {
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

impl Script {
    /// Parses a script. `place` is its file name.
    ///
    /// # Errors
    /// The first wrong line and column.
    pub fn parse(place: &str, text: &str) -> Result<Script, Error> {
        let mut machine: Option<MachineLine> = None;
        let mut names = Names {
            nr_cpus: 0,
            has_policy: false,
            tasks: Vec::new(),
            groups: Vec::new(),
        };
        let (mut policy, mut header, mut lines) = (None, Vec::new(), Vec::new());
        let mut elapsed = 0u64;
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = Words::new(place, number, line);
            let Some(first) = words.words.first().copied() else {
                continue;
            };
            let texts: Vec<&str> = words.words.iter().map(|word| word.text).collect();
            let text = texts.join(" ");
            match (first.text, &machine) {
                ("machine", None) => {
                    words.used[0] = true;
                    let parsed = MachineLine::parse(&mut words)?;
                    names.nr_cpus = parsed.nr_cpus;
                    machine = Some(parsed);
                    header.push((number, text));
                }
                (_, None) => {
                    let error = words.error(first.column, "expected the machine");
                    return Err(error.hint("a script begins with a line such as `machine cpus=4`"));
                }
                ("policy", Some(_)) if policy.is_none() && lines.is_empty() => {
                    words.used[0] = true;
                    policy = Some(parse_policy(&mut words, number)?);
                    names.has_policy = true;
                    header.push((number, text));
                }
                _ => {
                    let command = command(&mut words, number, &mut names)?;
                    elapsed += match command {
                        Command::Advance(ns) => ns,
                        _ => 4_000_000,
                    };
                    if elapsed > MAX_NS {
                        return Err(words.error(first.column, "the script is longer than a day"));
                    }
                    lines.push(Line { number, text, command });
                }
            }
        }
        let Some(machine) = machine else {
            let error = Error::at(place, "the script is empty");
            return Err(error.hint("a script begins with a line such as `machine cpus=4`"));
        };
        Ok(Script {
            machine,
            policy,
            header,
            lines,
        })
    }
}

/// Parses the rest of a line: a policy and its parameters.
fn parse_policy(words: &mut Words, line: usize) -> Result<Policy, Error> {
    let name = words.next("the name of a policy")?.text.to_string();
    let mut parameters = Vec::new();
    for (word, used) in words.words.iter().zip(&mut words.used) {
        if let Some((parameter, value)) = word.text.split_once('=') {
            *used = true;
            parameters.push((parameter.to_string(), value.to_string()));
        }
    }
    words.finish(&[])?;
    Ok(Policy { name, parameters, line })
}
