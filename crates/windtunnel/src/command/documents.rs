// SPDX-License-Identifier: GPL-2.0-only
//! Generates documents from the command-line options: reference pages and man pages.

use super::examples;
use clap::{Arg, Args as ClapArgs, Command, CommandFactory};
use clap_mangen::Man;
use input::error::Error;
use roff::{Roff, roman};
use runner::exit::ExitStatus;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// First lines of each reference page.
const NOTE: &str = "<!-- SPDX-License-Identifier: GPL-2.0-only -->\n\
    <!-- Written by UPDATE_GOLDEN=1 cargo test -p windtunnel documents:: from the command's options. -->\n";

#[derive(ClapArgs)]
pub struct Documents {
    /// Directory for the pages; commands/ and man/ are created in it
    directory: PathBuf,
}

impl Documents {
    /// Writes a reference page and a man page for each command.
    pub fn run(self) -> Result<ExitStatus, Error> {
        let mut command = super::Command::command();
        command.build();
        let (pages, manuals) = (self.directory.join("commands"), self.directory.join("man"));
        for directory in [&pages, &manuals] {
            fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        }
        for subcommand in command.get_subcommands().filter(|subcommand| has_page(subcommand)) {
            write(
                &pages.join(format!("{}.md", subcommand.get_name())),
                page(subcommand).as_bytes(),
            )?;
        }
        manual(&command, &manuals)?;
        Ok(ExitStatus::SUCCESS)
    }
}

/// Writes the man page of a command and those of its subcommands.
fn manual(command: &Command, folder: &Path) -> Result<(), Error> {
    for subcommand in command.get_subcommands().filter(|subcommand| has_page(subcommand)) {
        manual(subcommand, folder)?;
    }
    // clap adds a subcommand `help` to each command, which has no man page.
    let page = Man::new(command.clone().disable_help_subcommand(true));
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| failed(&path, &error))?;
    let examples = examples::of(&words_of(command));
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    for (meaning, line) in &examples {
        section.text([roman(format!("{meaning}:"))]);
        section.control("sp", []).control("RS", []).control("nf", []);
        section.text([roman(*line)]);
        section.control("fi", []).control("RE", []).control("sp", []);
    }
    if !examples.is_empty() {
        section.to_writer(&mut text).map_err(|error| failed(&path, &error))?;
    }
    write(&path, &text)
}

/// Returns the words of a command without the name of the program, such as `policy show`.
fn words_of(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_default();
    name.split_once(' ').map_or("", |(_, words)| words).to_owned()
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|error| failed(path, &error))
}

fn has_page(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Returns the reference page of a command and its subcommands.
fn page(command: &Command) -> String {
    let mut text = NOTE.to_owned();
    section(command, "#", &mut text);
    for subcommand in command.get_subcommands().filter(|subcommand| has_page(subcommand)) {
        text.push('\n');
        section(subcommand, "##", &mut text);
    }
    text
}

/// Appends a heading, the usage, and a table of arguments and one of options.
fn section(command: &Command, heading: &str, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "{heading} {name}\n\n{}.\n\n```text\n{usage}\n```\n",
        wrapped(&about)
    );
    let examples = examples::of(&words_of(command));
    if !examples.is_empty() {
        text.push_str("\n```text\n");
        for (meaning, line) in examples {
            let _ = writeln!(text, "# {meaning}\n{line}");
        }
        text.push_str("```\n");
    }
    let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let (arguments, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(shown)
        .partition(|arg| arg.is_positional());
    for (kind, rows) in [("argument", arguments), ("option", options)] {
        if rows.is_empty() {
            continue;
        }
        let _ = write!(text, "\n| {kind} | meaning | by default |\n|---|---|---|\n");
        for arg in rows {
            let _ = writeln!(text, "| {} | {} | {} |", usage_of(arg), meaning(arg), default(arg));
        }
    }
}

/// Breaks a text into lines of at most 98 columns, like the other pages of the documentation.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        // The full stop that follows the last word needs one more column.
        let separator = if column + width > 96 { "\n" } else { " " };
        column = if separator == "\n" { width } else { column + 1 + width };
        lines += if lines.is_empty() { "" } else { separator };
        lines += word;
    }
    lines
}

/// Returns how the argument is written, for example `-m`, `--machine <MACHINE>`.
fn usage_of(arg: &Arg) -> String {
    let values: Vec<String> = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    if arg.is_positional() {
        return format!("`{}`", values.join(" "));
    }
    let value = match values.is_empty() || !arg.get_action().takes_values() {
        true => String::new(),
        false => format!(" {}", values.join(" ")),
    };
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let long = arg.get_long().map(|long| format!("`--{long}{value}`"));
    [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values: Vec<&str> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name())
        .collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, ": `{}`", values.join("`, `"));
    }
    text.replace('|', "\\|").replace('\n', " ")
}

fn default(arg: &Arg) -> String {
    let values = arg.get_default_values();
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    match arg.get_action().takes_values() {
        true => values.join(" "),
        false => String::new(),
    }
}
