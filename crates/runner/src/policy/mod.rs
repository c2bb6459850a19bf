// SPDX-License-Identifier: GPL-2.0-only
//! Finds policies. A policy is named by the path of an object, by its name in a `policies`
//! directory, or as `eevdf`.

mod command;
mod suggestion;

pub use command::{CommandParameter, command_parameters, command_with};

use crate::{quote, search};
use input::error::Error;
use std::path::{Path, PathBuf};

/// The name that selects the built-in fair class instead of a policy.
pub const EEVDF: &str = "eevdf";
const SUFFIX: &str = ".bpf.o";

/// The scheduler of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No sched_ext policy: all normal tasks are in the fair class.
    Eevdf,
    /// A sched_ext object.
    Object { name: String, path: PathBuf },
    /// The user-space program of a scheduler, with the words of its command line.
    Exec { name: String, command: Vec<String> },
}

/// Prefix of a command line in place of the name of a policy.
pub const EXEC: &str = "exec:";

impl Policy {
    /// Finds the policy that `spec` names: a path, the name of a built policy, or `eevdf`.
    ///
    /// # Errors
    /// There is no such file or policy.
    pub fn find(spec: &str) -> Result<Policy, Error> {
        if spec == EEVDF {
            return Ok(Policy::Eevdf);
        }
        if let Some(command) = spec.strip_prefix(EXEC) {
            return exec_policy(spec, command);
        }
        let path = Path::new(spec);
        if path.is_file() {
            if spec.ends_with(".c") {
                return Err(
                    Error::new(format!("{spec}: this is a source file, not an object")).hint(format!(
                        "compile it: clang-19 -g -O2 -mcpu=v3 -target bpf -c {spec} -o {}",
                        spec.replace(".bpf.c", SUFFIX)
                    )),
                );
            }
            return Ok(Policy::Object {
                name: name_from_path(path),
                path: path.into(),
            });
        }
        if spec.contains('/') || spec.ends_with(".o") {
            return Err(Error::new(format!("{spec}: no such file"))
                .hint("`windtunnel policy list` shows the policies that are known by name"));
        }
        for (name, path) in list() {
            if name == spec {
                return Ok(Policy::Object { name, path });
            }
        }
        Err(Error::new(format!("there is no policy '{spec}'")).hint(suggestion::hint(spec)))
    }

    pub fn name(&self) -> &str {
        match self {
            Policy::Eevdf => EEVDF,
            Policy::Object { name, .. } | Policy::Exec { name, .. } => name,
        }
    }
}

/// Returns the policy for the command line of a program. Its name is that of the program, with its
/// arguments.
fn exec_policy(spec: &str, command: &str) -> Result<Policy, Error> {
    let words = quote::split(command).map_err(|message| Error::new(format!("{spec}: {message}")))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::new(format!("{spec} is not followed by a command line"))
            .hint("for example 'exec: ./scx_rusty --slice-us-underutil 10000'"));
    };
    let mut name = name_from_path(Path::new(program));
    for argument in arguments {
        name = format!("{name} {}", quote::quote(argument));
    }
    Ok(Policy::Exec { name, command: words })
}

fn name_from_path(path: &Path) -> String {
    let file = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    file.trim_end_matches(SUFFIX).trim_end_matches(".o").to_owned()
}

/// Returns the names and paths of all objects in the `policies` directories. If two directories
/// have an object of the same name, the first directory wins.
pub fn list() -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for folder in search::folders("policies") {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths
            .into_iter()
            .filter(|path| path.to_string_lossy().ends_with(SUFFIX))
        {
            let name = name_from_path(&path);
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

/// Returns the header comment of a policy's source, `NAME.bpf.c` in a `policies` directory.
pub fn header(name: &str) -> Option<String> {
    let source = search::folders("policies")
        .into_iter()
        .map(|folder| folder.join(format!("{name}.bpf.c")));
    let text = source.into_iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let start = text.find("/*\n")?;
    let end = text[start..].find("*/")? + start;
    let lines = text[start + 3..end]
        .lines()
        .map(|line| line.trim_start_matches([' ', '*']));
    Some(lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// Returns the first paragraph of a policy's header in one line, without the policy's name and the
/// full stop. For example, for the header `dss: the default scheduler of Linux 2.4.`, this is `the
/// default scheduler of Linux 2.4`.
pub fn idea(header: &str) -> Option<String> {
    let paragraph = header.split("\n\n").next()?.replace('\n', " ");
    let (_, idea) = paragraph.split_once(": ")?;
    Some(idea.trim_end_matches('.').to_owned())
}

/// Returns the text that follows a title such as `Good for:` in a policy's header, in one line.
pub fn remark(header: &str, title: &str) -> Option<String> {
    let mut lines = header.lines();
    let first = lines.find_map(|line| line.strip_prefix(title)?.strip_prefix(':'))?;
    let more = lines.take_while(|line| !line.is_empty() && !begins_remark(line));
    let words = std::iter::once(first).chain(more).flat_map(str::split_whitespace);
    let remark = words.collect::<Vec<_>>().join(" ");
    (!remark.is_empty()).then_some(remark)
}

/// Returns whether a line begins with a title and a colon. A title consists of one to three words
/// and begins with a capital letter.
fn begins_remark(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(title, _)| {
        title.starts_with(|first: char| first.is_ascii_uppercase())
            && title.split(' ').count() <= 3
            && title.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "a: the idea, in\ntwo lines.\n\nProse: of all kinds.\n\nGood for: short tasks;\nlong ones.\n\
        Bad for: the rest.\nDifferent here: nothing.";

    #[test]
    fn a_command_line_takes_the_place_of_a_policy() {
        let found = Policy::find("exec: ./scx_x -a 'b c'").expect("the quotes are closed");
        assert_eq!(found.name(), "scx_x -a 'b c'");
        let words = ["./scx_x", "-a", "b c"].map(str::to_owned).to_vec();
        assert!(matches!(found, Policy::Exec { command, .. } if command == words));
        let error = Policy::find("exec:").expect_err("there is no program");
        assert!(
            error.to_string().contains("exec: is not followed by a command line"),
            "{error}"
        );
    }

    #[test]
    fn a_header_has_an_idea_and_remarks() {
        assert_eq!(idea(HEADER).as_deref(), Some("the idea, in two lines"));
        assert_eq!(remark(HEADER, "Good for").as_deref(), Some("short tasks; long ones."));
        assert_eq!(remark(HEADER, "Bad for").as_deref(), Some("the rest."));
        assert_eq!(remark(HEADER, "Source"), None);
    }
}
