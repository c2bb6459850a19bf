// SPDX-License-Identifier: GPL-2.0-only
//! Examples of each command, for help, man pages and reference pages. The file `examples.txt` has
//! the examples.

use clap::Command;
use std::fmt::Write;
use std::sync::LazyLock;

/// An example: what it does, and its command line.
type Example = (&'static str, &'static str);

/// The examples of each command. A command is named by its words without `windtunnel`.
static EXAMPLES: LazyLock<Vec<(&str, Vec<Example>)>> = LazyLock::new(|| {
    let commands = include_str!("examples.txt").split("\n\n");
    commands.map(parse).collect()
});

/// Parses the examples of one command. The first line names the command. Each example has two
/// lines, as in the help: what it does, after `#`, and its command line.
fn parse(text: &'static str) -> (&'static str, Vec<Example>) {
    let mut lines = text.lines().map(str::trim_start);
    let name = lines.next().unwrap_or_default();
    let mut examples = Vec::new();
    while let (Some(meaning), Some(line)) = (lines.next(), lines.next()) {
        examples.push((meaning.trim_start_matches("# "), line));
    }
    (name.trim_start_matches("windtunnel").trim_start(), examples)
}

/// Returns the examples of a command. A group of subcommands has the first example of each.
pub fn of(path: &str) -> Vec<Example> {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(known, _)| *known == path) {
        return examples.clone();
    }
    let inside = |known: &str| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '));
    let group = EXAMPLES.iter().filter(|(known, _)| inside(known));
    group.filter_map(|(_, examples)| examples.first().copied()).collect()
}

/// Returns the command line of the first example of a command.
pub fn first(path: &str) -> Option<&'static str> {
    of(path).first().map(|(_, line)| *line)
}

/// Adds the examples of a command and of its subcommands to their help.
pub fn add_to_help(command: Command) -> Command {
    add(command, "")
}

fn add(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |sub| add(sub, &path));
    }
    let examples = of(path);
    if examples.is_empty() {
        return command;
    }
    let mut help = command
        .get_after_help()
        .map(|text| format!("{text}\n\n"))
        .unwrap_or_default();
    help += "Examples:";
    for (meaning, line) in examples {
        // Writing to a String cannot fail.
        let _ = write!(help, "\n  # {meaning}\n  {line}");
    }
    command.after_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a command line as a shell does, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words.into_iter().take_while(|word| word != ">").collect()
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (path, examples) in EXAMPLES.iter() {
            for (_, line) in examples {
                let line = line.trim_start_matches("source <(").trim_end_matches(')');
                let words = words(line);
                super::super::command()
                    .try_get_matches_from(&words)
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                let command = words[1..].join(" ");
                assert!(command.starts_with(path), "{line} is an example of {path}");
            }
        }
    }

    #[test]
    fn the_commands_of_a_starter_project_are_valid() {
        let makefile = include_str!("../../starter/Makefile").replace("$*", "first");
        let workflow = include_str!("../../starter/.github/workflows/scheduler.yml").replace("\\\n", "");
        let mut found = 0;
        for line in makefile.lines().chain(workflow.lines()).map(str::trim) {
            if line.starts_with("windtunnel ") {
                let words: Vec<String> = words(line).into_iter().filter(|word| !word.is_empty()).collect();
                super::super::command()
                    .try_get_matches_from(&words)
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                found += 1;
            }
        }
        assert_eq!(found, 5);
    }

    #[test]
    fn every_command_has_examples() {
        fn visit(command: &Command, path: &str) {
            let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            for sub in subcommands.filter(|sub| sub.get_name() != "help") {
                visit(sub, format!("{path} {}", sub.get_name()).trim_start());
            }
            assert!(!of(path).is_empty(), "'{path}' has no example");
        }
        visit(&super::super::command(), "");
    }
}
