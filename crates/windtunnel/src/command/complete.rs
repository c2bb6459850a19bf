// SPDX-License-Identifier: GPL-2.0-only
//! Completion in shells. The shell calls the command with the variable COMPLETE and the words of the
//! command line, and the command prints the words that can follow. It therefore knows the policies,
//! machines, workloads and experiments of the working directory, and the parameters of a policy.

use clap::Args as ClapArgs;
use clap_complete::Shell;
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use input::error::Error;
use kernel::release::RELEASES;
use lab::{compare, experiment};
use runner::console::Stdout;
use runner::exit::ExitStatus;
use runner::policy::{self, Policy};
use runner::{load, search};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use workload::{Unit, generators};

/// The variable that tells the command to complete a command line for a shell.
const VARIABLE: &str = "COMPLETE";
/// The shells whose command lines can be completed.
const SHELLS: Shells = Shells(&[&SplitBash, &Elvish, &Fish, &Powershell, &Zsh]);

/// The words of the command line that is completed.
static WORDS: OnceLock<Vec<String>> = OnceLock::new();

#[derive(ClapArgs)]
pub struct Completions {
    /// The shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script that makes a shell ask this command for completions.
    pub fn run(self) -> Result<ExitStatus, Error> {
        let shell = self.shell.to_string();
        let Some(completer) = SHELLS.completer(&shell) else {
            return Err(Error::new(format!("completions: {shell} is not supported")));
        };
        let name = "windtunnel";
        completer
            .write_registration(VARIABLE, name, name, name, &mut Stdout)
            .map_err(|error| Error::new(format!("completions: {error}")))?;
        Ok(ExitStatus::SUCCESS)
    }
}

/// Completes a command line, if a shell has called the command for this. Returns whether it has.
///
/// # Errors
/// The shell is unknown, or standard output cannot be written.
pub fn requested(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let words = arguments.iter().skip_while(|word| *word != "--").skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
    WORDS.get_or_init(|| words);
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(super::command)
        .var(VARIABLE)
        .bin("windtunnel")
        .shells(SHELLS)
        .try_complete(arguments, folder.as_deref())
}

/// Bash splits words at `:` and `=`, for example `--workload closed:n=7` into five words. This
/// completer joins these words, and returns only the part of a completion that replaces the last of
/// them.
struct SplitBash;

impl EnvCompleter for SplitBash {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let mut script = Vec::new();
        Bash.write_registration(var, name, bin, completer, &mut script)?;
        let script = String::from_utf8_lossy(&script);
        to.write_all(script.replace(CURRENT_WORD, &kept_separator()).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let variable = |name| std::env::var(name).ok();
        let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
        let separator = variable("_CLAP_IFS").unwrap_or_else(|| "\n".to_owned());
        let joined = join(&words, index.unwrap_or_default());
        let found = engine::complete(command, joined.words, joined.index, folder)?;
        let values = found.iter().filter_map(|candidate| {
            let value = candidate.get_value().to_string_lossy().into_owned();
            value.strip_prefix(&joined.prefix).map(str::to_owned)
        });
        write!(to, "{}", values.collect::<Vec<_>>().join(&separator))
    }
}

/// The line of clap's script that replaces the current word by the part before the cursor.
const CURRENT_WORD: &str = r#"words[COMP_CWORD]="$2""#;

/// Returns the replacement of [`CURRENT_WORD`]. If the current word is a separator, Bash passes an
/// empty text, and the separator would be lost.
fn kept_separator() -> String {
    format!("[[ ${{COMP_WORDS[COMP_CWORD]}} == [:=]* ]] || {CURRENT_WORD}")
}

/// The words of a command line after the words that Bash split were joined.
#[derive(Debug, PartialEq)]
struct Joined {
    words: Vec<OsString>,
    /// Index of the word that is completed.
    index: usize,
    /// The part of this word that precedes the last of the words that were joined.
    prefix: String,
}

fn join(words: &[OsString], index: usize) -> Joined {
    let is_break = |word: &OsString| {
        let text = word.to_string_lossy();
        !text.is_empty() && text.chars().all(|c| c == ':' || c == '=')
    };
    let mut joined = Joined {
        words: Vec::new(),
        index: 0,
        prefix: String::new(),
    };
    for (at, word) in words.iter().enumerate() {
        // The first words are the name of the program and a subcommand.
        let joins = at > 1 && !word.is_empty() && (is_break(word) || is_break(&words[at - 1]));
        match joined.words.last_mut() {
            Some(last) if joins => {
                if at == index {
                    joined.prefix = last.to_string_lossy().into_owned();
                    // Bash keeps the separators, and replaces what follows them.
                    if is_break(word) {
                        joined.prefix += &word.to_string_lossy();
                    }
                }
                last.push(word);
            }
            _ => joined.words.push(word.clone()),
        }
        if at == index {
            joined.index = joined.words.len() - 1;
        }
    }
    joined
}

/// Adds the completers of the options that describe runs ([`RunSpec`](runner::spec::RunSpec)).
pub fn add_to_runs(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|subcommand| {
        if !subcommand.get_groups().any(|group| group.get_id() == "RunSpec") {
            return subcommand;
        }
        subcommand.mut_args(|option| match option.get_id().as_str() {
            "machine" => option.add(machines()),
            "workload" => option.add(workloads()),
            "set" => option.add(settings()),
            "profile" => option.add(profiles()),
            "kernel" => option.add(releases()),
            _ => option,
        })
    })
}

fn candidates(rows: impl IntoIterator<Item = (String, String)>, current: &str) -> Vec<CompletionCandidate> {
    let fits = rows.into_iter().filter(|(name, _)| name.starts_with(current));
    fits.map(|(name, help)| {
        let help = (!help.is_empty()).then(|| help.into());
        CompletionCandidate::new(name).help(help)
    })
    .collect()
}

/// Adds the files with one of these endings. Directories are added only after a part of a name, so
/// that they do not hide the names.
fn with_files(
    mut found: Vec<CompletionCandidate>,
    current: &OsStr,
    endings: &'static [&'static str],
) -> Vec<CompletionCandidate> {
    let folders = !current.is_empty();
    let files = PathCompleter::any().filter(move |path| match path.is_dir() {
        true => folders,
        false => endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)),
    });
    found.extend(files.complete(current));
    found
}

fn completer(complete: impl Fn(&str) -> Vec<CompletionCandidate> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| current.to_str().map(&complete).unwrap_or_default())
}

fn policy_rows() -> Vec<(String, String)> {
    let mut rows = vec![(policy::EEVDF.to_owned(), "the kernel's fair class".to_owned())];
    rows.extend(policy::list().into_iter().map(|(name, _)| {
        let idea = policy::header(&name).and_then(|header| policy::idea(&header));
        (name, idea.unwrap_or_default())
    }));
    rows
}

/// Completes policies: names, and files of objects.
pub fn policies() -> ArgValueCompleter {
    completer(|current| with_files(candidates(policy_rows(), current), OsStr::new(current), &[".bpf.o"]))
}

/// Completes machines: names, and files of machines.
pub fn machines() -> ArgValueCompleter {
    completer(|current| {
        let folders = search::folders("machines");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let (listed, _) = machine::list(&folders);
        let rows = listed.into_iter().map(|machine| (machine.name, machine.description));
        let host = ("host".to_owned(), "this computer".to_owned());
        let found = candidates(rows.chain([host]), current);
        with_files(found, OsStr::new(current), &[".toml", ".xml"])
    })
}

/// Completes workloads: names, generators with their parameters, and files.
pub fn workloads() -> ArgValueCompleter {
    completer(|current| {
        if let Some((name, given)) = current.split_once(':')
            && let Some(generator) = generators().iter().find(|generator| generator.name == name)
        {
            return parameters_of(generator, given, name);
        }
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let files = workload::files(&folders).into_iter();
        let files = files.map(|(name, _)| (format!("{name}.json"), String::new()));
        let generators = generators().iter();
        let generators = generators.flat_map(|generator| {
            let name = generator.name.to_owned();
            [
                (name.clone(), generator.about.to_owned()),
                (name + ":", "with parameters".to_owned()),
            ]
        });
        with_files(
            candidates(files.chain(generators), current),
            OsStr::new(current),
            &[".json", ".wtt", ".txt", ".trace"],
        )
    })
}

/// Completes the parameters of a generator after `NAME:a=1,`.
fn parameters_of(generator: &workload::Generator, given: &str, name: &str) -> Vec<CompletionCandidate> {
    let (before, last) = given
        .rsplit_once(',')
        .map_or(("", given), |(before, last)| (before, last));
    let comma = if before.is_empty() { "" } else { "," };
    let mut rows = Vec::new();
    for parameter in generator.parameters {
        let start = format!("{name}:{before}{comma}{}=", parameter.name);
        match (last.split_once('='), parameter.unit) {
            (Some((key, _)), Unit::Choice(words)) if key == parameter.name => {
                rows.extend(words.iter().map(|word| (format!("{start}{word}"), String::new())));
            }
            (Some(_), _) => {}
            (None, _) => rows.push((start, parameter.meaning.to_owned())),
        }
    }
    candidates(rows, &format!("{name}:{given}"))
}

/// Completes `NAME=` with the parameters of the policies that the command line names. The prefix
/// `POLICY:`, `A:` or `B:` is kept.
pub fn settings() -> ArgValueCompleter {
    completer(|current| {
        if current.contains('=') {
            return Vec::new();
        }
        let words = WORDS.get().map(Vec::as_slice).unwrap_or_default();
        let known: Vec<Policy> = words
            .iter()
            .filter(|word| !word.starts_with('-'))
            .filter_map(|word| Policy::find(word).ok())
            .collect();
        let (owner, prefix) = match current.split_once(':') {
            Some((owner, _)) => (Some(owner), format!("{owner}:")),
            None => (None, String::new()),
        };
        let mut rows = Vec::new();
        for policy in known
            .iter()
            .filter(|policy| owner.is_none_or(|owner| owner.len() == 1 || owner == policy.name()))
        {
            for (name, meaning) in load::parameter_names(policy).unwrap_or_default() {
                let row = (format!("{prefix}{name}="), meaning);
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        candidates(rows, current)
    })
}

/// Completes profiles: names in `profiles` directories, `none`, and files.
pub fn profiles() -> ArgValueCompleter {
    completer(|current| {
        let none = ("none".to_owned(), "no profile".to_owned());
        let found = candidates(files_in("profiles").into_iter().chain([none]), current);
        with_files(found, OsStr::new(current), &[".toml"])
    })
}

/// Completes score suites.
pub fn score_suites() -> ArgValueCompleter {
    completer(|current| {
        let names = files_in("scores").into_iter();
        let names = names.map(|(name, help)| (name.trim_end_matches(".toml").to_owned(), help));
        with_files(candidates(names, current), OsStr::new(current), &[".toml"])
    })
}

/// Returns the names of the TOML files in all directories called `folder`.
fn files_in(folder: &str) -> Vec<(String, String)> {
    let entries = search::folders(folder)
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok());
    let names = entries
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<(String, String)> = names
        .filter(|name| name.ends_with(".toml"))
        .map(|name| (name, String::new()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Completes experiments and groups of experiments.
pub fn experiments() -> ArgValueCompleter {
    completer(|current| {
        let known = experiment::list();
        let mut names: Vec<String> = known.iter().map(|(name, _)| name.clone()).collect();
        names.extend(
            known
                .iter()
                .filter_map(|(name, _)| Some(name.split_once('/')?.0.to_owned())),
        );
        names.sort();
        names.dedup();
        candidates(names.into_iter().map(|name| (name, String::new())), current)
    })
}

/// Completes the metrics of comparisons, as the beginnings of conditions.
pub fn metrics() -> ArgValueCompleter {
    completer(|current| {
        let rows = compare::metric::metrics().map(|metric| (metric.name.to_owned(), metric.figure.about.to_owned()));
        candidates(rows, current)
    })
}

/// Completes Linux releases.
pub fn releases() -> ArgValueCompleter {
    completer(|current| {
        let rows = RELEASES.iter().map(|release| (release.to_string(), String::new()));
        candidates(rows, current)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_script_for_bash_keeps_separators() {
        let mut script = Vec::new();
        let written = SplitBash.write_registration(VARIABLE, "windtunnel", "windtunnel", "windtunnel", &mut script);
        written.expect("a vector can be written");
        let script = String::from_utf8(script).expect("the script is UTF-8");
        assert!(script.contains(&kept_separator()), "{script}");
    }

    #[test]
    fn words_that_bash_splits_are_joined() {
        for (split, index, whole, prefix) in [
            (
                "windtunnel run fifo --set slice_ns = 5",
                6,
                "windtunnel run fifo --set slice_ns=5",
                "slice_ns=",
            ),
            (
                "windtunnel diff a b --set A : sl",
                7,
                "windtunnel diff a b --set A:sl",
                "A:",
            ),
            (
                "windtunnel run -w closed : n = 7,comp",
                7,
                "windtunnel run -w closed:n=7,comp",
                "closed:n=",
            ),
            ("windtunnel run -w closed :", 4, "windtunnel run -w closed:", "closed:"),
            ("windtunnel run --set x = ", 5, "windtunnel run --set x= ", ""),
            ("windtunnel run --for=5ms fi", 3, "windtunnel run --for=5ms fi", ""),
        ] {
            let joined = join(&words(split), index);
            assert_eq!(joined.words, words(whole), "{split}");
            assert_eq!(joined.prefix, prefix, "{split}");
            assert_eq!(joined.index, joined.words.len() - 1, "{split}");
        }
    }
}
