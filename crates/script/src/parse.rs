// SPDX-License-Identifier: GPL-2.0-only
//! The parser of scripts.

mod command;
mod names;

use crate::machine::MachineLine;
use crate::words::{MAX_NS, Words};
pub(crate) use command::Attributes;
pub use command::Command;
use command::command;
use input::Error;
pub(crate) use names::MAX_TASKS;
use names::Names;

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
