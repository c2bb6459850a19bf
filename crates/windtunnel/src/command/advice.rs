// SPDX-License-Identifier: GPL-2.0-only
//! Advice for wrong command lines: the subcommand or option that the user probably means, and an
//! example if an argument is missing.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use input::suggest;
use runner::policy;

/// Words that are no subcommands, and the command lines that do what a user expects of them.
const SUBCOMMANDS: &[(&[&str], &str)] = &[
    (
        &["list", "ls"],
        "policy list, machine list, workload list, experiment list",
    ),
    (
        &["show", "info", "describe", "inspect"],
        "policy show, machine show, workload show, experiment show",
    ),
    (&["policies", "scheduler", "schedulers", "sched"], "policy list"),
    (&["machines", "topology", "hardware", "cpus"], "machine list"),
    (&["workloads", "load", "loads", "generators"], "workload list"),
    (&["experiments", "reproduce"], "experiment list"),
    (&["parameters", "params", "settings", "set"], "policy show"),
    (&["simulate", "sim", "simulation", "start", "execute", "play"], "run"),
    (&["bench", "benchmark", "rate", "rank"], "score, compare"),
    (&["trace", "draw", "plot", "graph", "html"], "run, report"),
    (&["record", "capture"], "live record"),
    (
        &[
            "perf",
            "latency",
            "timehist",
            "analyse",
            "analyze",
            "stats",
            "schedstat",
        ],
        "report",
    ),
    (&["validate", "verify", "verifier", "lint", "sanitize"], "check"),
    (&["test", "tests", "cases"], "suite"),
    (&["step", "scenario"], "script"),
    (&["optimize", "optimise", "search", "autotune"], "tune"),
    (&["grid", "matrix", "batch"], "sweep"),
    (
        &["new", "create", "template", "starter", "scaffold"],
        "init, policy new",
    ),
    (&["calibrate", "measure"], "machine calibrate"),
    (&["install", "attach", "kernel"], "live load"),
    (&["watch", "monitor", "htop"], "top"),
    (&["completion", "complete"], "completions"),
    (&["man", "doc", "documentation", "commands", "topics", "usage"], "help"),
];

/// Names that are no options: the option that has this meaning, and how it is used. The advice is
/// given only where the option exists.
const OPTIONS: &[(&[&str], &str, &str)] = &[
    (
        &[
            "t", "time", "duration", "length", "seconds", "sim-time", "until", "timeout", "runtime",
        ],
        "for",
        "simulated time: --for 500ms",
    ),
    (
        &[
            "c", "cpu", "cpus", "cores", "ncpu", "ncpus", "nr-cpus", "smp", "topology", "hardware", "host",
        ],
        "machine",
        "a machine: --machine smp4 (`windtunnel machine list`), or any number of CPUs: --machine 'core:6 pu:2'",
    ),
    (
        &[
            "load",
            "tasks",
            "task",
            "bench",
            "benchmark",
            "input",
            "i",
            "recording",
            "n",
        ],
        "workload",
        "a workload: --workload schbench (`windtunnel workload list`)",
    ),
    (
        &[
            "param",
            "params",
            "parameter",
            "parameters",
            "setting",
            "settings",
            "option",
            "D",
        ],
        "set",
        "a parameter: --set NAME=VALUE (`windtunnel policy show POLICY` lists them)",
    ),
    (
        &["o", "out", "output", "report", "result", "results", "format", "csv"],
        "details",
        "files: --json FILE, --details FILE, --html FILE or --trace FILE",
    ),
    (
        &["plot", "graph", "chart", "gantt", "timeline", "svg"],
        "html",
        "drawings: --html FILE, or --draw 0-20ms",
    ),
    (
        &["v", "verbose", "d", "debug", "log"],
        "dump",
        "more output: --details - for figures, --printk for what the policy prints, --dump for the debug dump",
    ),
    (&["random", "rng", "random-seed"], "seed", "the seed: --seed 7"),
    (&["release", "k", "linux"], "kernel", "the Linux release: --kernel 6.12"),
    (
        &["threads-number", "j", "jobs", "parallel"],
        "threads",
        "threads: --threads 4",
    ),
];

/// Names of options under which users expect to give the policy.
const POLICY_OPTIONS: [&str; 6] = ["p", "policy", "policies", "scheduler", "sched", "s"];

/// Adds advice to the error of a command line. `args` begins with the name of the program.
pub fn add(error: &mut Error, root: &Command, args: &[String]) {
    let mut root = root.clone();
    root.build();
    let command = current(&root, args);
    match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_subcommand(error, &root, command),
        ErrorKind::UnknownArgument => unknown_option(error, &root, command),
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => {
            if let Some(example) = super::examples::first(&path(command)) {
                tip(error, format!("for example: {example}"));
            }
        }
        _ => {}
    }
}

/// Returns the subcommand that the arguments name.
fn current<'a>(root: &'a Command, args: &[String]) -> &'a Command {
    let mut command = root;
    for arg in args.iter().skip(1).filter(|arg| !arg.starts_with('-')) {
        match command.find_subcommand(arg) {
            // `help` accepts the names of all other commands.
            Some(found) if found.get_name() != "help" => command = found,
            Some(_) => {}
            None => break,
        }
    }
    command
}

/// Returns the words of a subcommand without the name of the program, such as `policy show`.
fn path(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_default();
    name.split_once(' ').map_or("", |(_, path)| path).to_owned()
}

fn tip(error: &mut Error, text: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

fn unknown_subcommand(error: &mut Error, root: &Command, command: &Command) {
    let Some(word) = text(error, ContextKind::InvalidSubcommand) else {
        return;
    };
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let near = suggest::nearest_short(&word, visible.map(Command::get_name)).map(str::to_owned);
    // clap's own suggestion compares beginnings of words, and suggests `suite` for `simulate`.
    error.remove(ContextKind::SuggestedSubcommand);
    let is_root = command.get_name() == root.get_name();
    let meant = SUBCOMMANDS
        .iter()
        .find(|(words, _)| is_root && words.contains(&word.as_str()));
    let advice = match (meant, near) {
        (Some((_, commands)), _) => {
            let commands: Vec<String> = commands
                .split(", ")
                .map(|command| format!("`windtunnel {command}`"))
                .collect();
            match commands.len() {
                1 => format!("did you mean {}?", commands[0]),
                _ => format!("did you mean one of {}?", commands.join(", ")),
            }
        }
        (None, Some(near)) => format!("did you mean '{near}'?"),
        (None, None) if word == "version" => "did you mean `windtunnel --version`?".to_owned(),
        (None, None) if is_root && is_policy(&word) => format!("to run a policy: windtunnel run {word}"),
        (None, None) => {
            let name = command.get_bin_name().unwrap_or(command.get_name());
            format!("`{name} --help` lists the commands")
        }
    };
    tip(error, advice);
}

fn is_policy(word: &str) -> bool {
    word == policy::EEVDF || word.ends_with(".bpf.o") || policy::list().iter().any(|(name, _)| name == word)
}

fn unknown_option(error: &mut Error, root: &Command, command: &Command) {
    let Some(given) = text(error, ContextKind::InvalidArg) else {
        return;
    };
    let name = given.trim_start_matches('-');
    if name == given {
        return;
    }
    let options = |command: &Command| -> Vec<String> {
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
        visible.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
    };
    let own = options(command);
    let takes_policies = command
        .get_positionals()
        .any(|arg| ["a", "policy", "policies"].contains(&arg.get_id().as_str()));
    let meant = OPTIONS
        .iter()
        .find(|(names, option, _)| names.contains(&name) && own.iter().any(|own| own == option));
    // A name of one letter is similar to everything.
    let near = suggest::nearest_short(name, own.iter().map(String::as_str)).filter(|_| name.len() > 1);
    let elsewhere = root
        .get_subcommands()
        .filter(|other| !other.is_hide_set() && options(other).iter().any(|option| option == name))
        .map(|other| format!("`windtunnel {}`", other.get_name()))
        .collect::<Vec<_>>();
    let advice = if takes_policies && POLICY_OPTIONS.contains(&name) {
        format!(
            "policies are given without an option: windtunnel {} fifo",
            path(command)
        )
    } else if let Some((_, _, advice)) = meant {
        (*advice).to_owned()
    } else if let Some(near) = near {
        format!("a similar argument exists: '--{near}'")
    } else if !elsewhere.is_empty() {
        format!("this is an option of {}", elsewhere.join(", "))
    } else {
        return;
    };
    error.remove(ContextKind::SuggestedArg);
    // clap's usage contains the option that it suggests.
    error.insert(
        ContextKind::Usage,
        ContextValue::StyledStr(command.clone().render_usage()),
    );
    tip(error, advice);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn advice_names_commands_and_options_that_exist() {
        let mut root = super::super::Command::command();
        root.build();
        for (words, commands) in SUBCOMMANDS {
            for path in commands.split(", ") {
                let mut command = &root;
                for word in path.split(' ') {
                    command = command
                        .find_subcommand(word)
                        .unwrap_or_else(|| panic!("there is no command {path}"));
                }
            }
            for word in *words {
                assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            }
        }
        let run = root.find_subcommand("run").expect("the command exists");
        let compare = root.find_subcommand("compare").expect("the command exists");
        for (names, option, _) in OPTIONS {
            let has = |command: &Command| command.get_arguments().any(|arg| arg.get_long() == Some(option));
            assert!(has(run) || has(compare), "there is no option --{option}");
            for name in *names {
                let known = run.get_arguments().any(|arg| {
                    arg.get_long() == Some(name) || arg.get_short().is_some_and(|short| short.to_string() == *name)
                });
                assert!(!known, "--{name} is an option");
            }
        }
    }
}
