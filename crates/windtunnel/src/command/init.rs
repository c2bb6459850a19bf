// SPDX-License-Identifier: GPL-2.0-only
//! The commands `init` and `policy new`, which write the files of a new policy.
//!
//! `policy new` adds a policy to a directory. Files that all policies of the directory share, such
//! as the Makefile, are written if they are missing. `init` does the same in a new directory, and
//! adds a job for CI.

use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::outln;
use runner::quote::quote;
use std::path::{Path, PathBuf};

#[derive(ClapArgs)]
pub struct Init {
    /// Directory of the project. It is created, or must be empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(ClapArgs)]
pub struct New {
    /// Name of the policy: lower-case letters, digits and underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// Directory for its files
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

const POLICY: &str = include_str!("../../starter/policy.bpf.c");
const WORKLOAD: &str = include_str!("../../starter/workload.json");
const MAKEFILE: &str = include_str!("../../starter/Makefile");
/// Files that the policies of a directory share.
const SHARED: [(&str, &str); 2] = [
    ("machine.toml", include_str!("../../starter/machine.toml")),
    (".gitignore", include_str!("../../starter/.gitignore")),
];
const CI: (&str, &str) = (
    ".github/workflows/scheduler.yml",
    include_str!("../../starter/.github/workflows/scheduler.yml"),
);
/// The word in the starter files that stands for the name of the policy.
const PLACEHOLDER: &str = "NAME";
/// The name of the policy that `init` writes.
const FIRST: &str = "first";
/// How a line of the Makefile begins that adds a policy.
const MAKE_LINE: &str = "POLICIES += ";
/// Longest name of a policy. The kernel cuts the names of BPF programs, such as NAME_select_cpu, to
/// 15 characters, and shows names of policies in full.
const MAX_NAME: usize = 32;

impl Init {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let folder = &self.folder;
        if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(
                Error::new(format!("{}: the directory is not empty", folder.display())).hint(
                    "give the name of a new directory, or add a policy to this one: windtunnel policy new NAME DIR",
                ),
            );
        }
        add(folder, FIRST)?;
        write(&folder.join(CI.0), CI.1)?;
        outln!(
            "{}: a policy ({FIRST}.bpf.c), a machine, a workload and a job for CI",
            folder.display()
        );
        outln!("next: cd {} && make run", quote(&folder.display().to_string()));
        Ok(ExitStatus::SUCCESS)
    }
}

impl New {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let (folder, name) = (&self.folder, &self.name);
        check_name(name)?;
        let make = add(folder, name)?;
        let at = |file: &str| {
            folder
                .strip_prefix(".")
                .unwrap_or(folder)
                .join(file)
                .display()
                .to_string()
        };
        outln!(
            "{}: a policy to change; its comments explain the callbacks",
            at(&format!("{name}.bpf.c"))
        );
        outln!("{}: a workload, in the format of rt-app", at(&format!("{name}.json")));
        match make {
            Make::Added => {
                outln!("{}: {MAKE_LINE}{name}", at("Makefile"));
                let change = match folder.as_path() == Path::new(".") {
                    true => String::new(),
                    false => format!("cd {} && ", quote(&folder.display().to_string())),
                };
                outln!("next: {change}make run-{name}");
            }
            Make::Foreign => {
                outln!("{}: unchanged, because it has no line '{MAKE_LINE}...'", at("Makefile"));
                let (source, object) = (at(&format!("{name}.bpf.c")), at(&format!("{name}.bpf.o")));
                outln!(
                    "next: clang-19 -g -O2 -mcpu=v3 -Wall -target bpf -c {} -o {}",
                    quote(&source),
                    quote(&object)
                );
            }
        }
        Ok(ExitStatus::SUCCESS)
    }
}

/// What happened to the Makefile of a directory.
enum Make {
    /// It has a line for the policy now.
    Added,
    /// It was not written by this command, and is left alone.
    Foreign,
}

/// Writes the files of a policy, and the shared files that are missing.
///
/// # Errors
/// The directory already has a policy or a workload of this name. No file is written then. Or a
/// file cannot be written.
fn add(folder: &Path, name: &str) -> Result<Make, Error> {
    let own = [(format!("{name}.bpf.c"), POLICY), (format!("{name}.json"), WORKLOAD)];
    for (file, _) in &own {
        let path = folder.join(file);
        if path.exists() {
            return Err(Error::new(format!("{}: the file exists", path.display())).hint("give another name"));
        }
    }
    let makefile = folder.join("Makefile");
    let before = match std::fs::read_to_string(&makefile) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(&makefile, &error)),
    };
    for (file, text) in &own {
        write(&folder.join(file), text.replace(PLACEHOLDER, name))?;
    }
    let shipped = shipped::files().map_err(|error| Error::new(error.to_string()))?;
    for (path, contents) in shipped {
        let header = path
            .strip_prefix("policies/")
            .filter(|path| path.starts_with("include/"));
        if let Some(header) = header {
            write_missing(&folder.join(header), contents)?;
        }
    }
    for (file, text) in SHARED {
        write_missing(&folder.join(file), text)?;
    }
    let after = match &before {
        None => Some(MAKEFILE.replace(&format!("{MAKE_LINE}{PLACEHOLDER}"), &format!("{MAKE_LINE}{name}"))),
        Some(text) => with_line(text, name),
    };
    match after {
        Some(text) => write(&makefile, &text).map(|()| Make::Added),
        None => Ok(Make::Foreign),
    }
}

/// Returns a Makefile with a line that adds a policy, behind the last such line. Returns `None` if
/// there is no such line.
fn with_line(text: &str, name: &str) -> Option<String> {
    let numbered = text.lines().enumerate();
    let (last, _) = numbered.filter(|(_, line)| line.starts_with(MAKE_LINE)).last()?;
    let own = format!("{MAKE_LINE}{name}");
    let lines = text.lines().enumerate();
    let lines = lines.flat_map(|(number, line)| [Some(line), (number == last).then_some(own.as_str())]);
    Some(lines.flatten().map(|line| format!("{line}\n")).collect())
}

/// Checks that a name can be part of C identifiers and of targets of the Makefile.
fn check_name(name: &str) -> Result<(), Error> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && name.len() <= MAX_NAME {
        return Ok(());
    }
    Err(
        Error::new(format!("'{name}' cannot be the name of a policy")).hint(format!(
            "names have up to {MAX_NAME} lower-case letters, digits and underscores, for example my_policy"
        )),
    )
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, &error))?;
    std::fs::write(path, contents).map_err(|error| Error::io(path, &error))
}

fn write_missing(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Error> {
    if path.exists() { Ok(()) } else { write(path, contents) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makefile_gets_one_line_per_policy() {
        let first = MAKEFILE.replace(PLACEHOLDER, "one");
        let second = with_line(&first, "two").expect("the Makefile has a line");
        assert!(second.contains("POLICIES += one\nPOLICIES += two\n"), "{second}");
        assert_eq!(second.lines().count(), first.lines().count() + 1);
        assert_eq!(with_line("all:\n", "two"), None);
    }

    #[test]
    fn a_name_is_part_of_identifiers() {
        for name in ["fifo", "my_policy2"] {
            check_name(name).expect("the name is valid");
        }
        for name in ["", "2fast", "my-policy", "Mine", "../x", "_x", &"x".repeat(33)] {
            check_name(name).expect_err("the name is not valid");
        }
    }
}
