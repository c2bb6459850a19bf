// SPDX-License-Identifier: GPL-2.0-only
//! Examples of each command, for help, man pages and reference pages.

use clap::Command;
use std::fmt::Write;

/// An example: what it does, and its command line.
type Example = (&'static str, &'static str);

/// The examples of each command. A command is named by its words without `windtunnel`.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            (
                "Three schedulers side by side",
                "windtunnel run fifo vtime eevdf -m smp4 -w schbench --for 1s",
            ),
            (
                "Your own object, with every memory access checked",
                "windtunnel run ./mine.bpf.o --sanitize",
            ),
            ("A project to start from", "windtunnel init mine"),
        ],
    ),
    (
        "run",
        &[
            (
                "Two schedulers side by side, on 4 CPUs",
                "windtunnel run fifo eevdf -m smp4 -w schbench --for 1s",
            ),
            (
                "Your own object, with one of its parameters",
                "windtunnel run ./mine.bpf.o --set slice_ns=5000000",
            ),
            (
                "The schedule of the first 20 ms",
                "windtunnel run rr -m smp4 -w closed:n=6,compute=5ms --draw 0-20ms",
            ),
            (
                "Locks, callbacks and counters of the policy",
                "windtunnel run pmqs -m numa16 -w chat --for 1s --details -",
            ),
            (
                "The source lines, fields and locks that cost most",
                "windtunnel run vtime -m numa16 -w chat --for 300ms --hotspots -",
            ),
            (
                "A page with timelines",
                "windtunnel run fifo vtime --for 500ms --html report.html",
            ),
        ],
    ),
    (
        "exec",
        &[(
            "A scheduler with its user-space part",
            "windtunnel exec -m numa32 -w mixed -- ./scx_rusty",
        )],
    ),
    (
        "report",
        &[
            ("The page of a trace", "windtunnel report run.wtt --output page.html"),
            (
                "Wake-up latencies of a recording, as perf prints them",
                "windtunnel report recording.txt --latency",
            ),
            ("The page of a sweep", "windtunnel report sweep.parquet"),
        ],
    ),
    (
        "replay",
        &[
            (
                "What a recording contains, and what it lacks",
                "windtunnel replay recording.txt",
            ),
            (
                "How accurately the simulator repeats it on a measured machine",
                "windtunnel replay recording.txt --machine here.toml --validate",
            ),
        ],
    ),
    (
        "compare",
        &[
            (
                "A new version of a policy, as a test in CI",
                "windtunnel compare old/fifo.bpf.o new/fifo.bpf.o -w hackbench --fail-if 'p99_wakeup > +5%'",
            ),
            (
                "Two values of a parameter",
                "windtunnel compare pmqs pmqs --set A:poolsize=4 --set B:poolsize=8 -w mkbench",
            ),
            (
                "Does the verdict depend on a constant of the machine?",
                "windtunnel compare fifo steal -m smp4 -w hackbench --runs 5 --robust",
            ),
        ],
    ),
    (
        "diff",
        &[
            (
                "Two policies",
                "windtunnel diff fifo vtime -w closed:n=9,compute=3ms,think=2ms -m smp4",
            ),
            (
                "Two values of a parameter",
                "windtunnel diff fifo fifo --set B:slice_ns=5000000 --only run",
            ),
            (
                "Two versions of an object",
                "windtunnel diff old/fifo.bpf.o new/fifo.bpf.o -w hackbench --json",
            ),
        ],
    ),
    (
        "explain",
        &[
            ("A term", "windtunnel explain idle while waiting"),
            ("A check of the sanitizer", "windtunnel explain out-of-bounds"),
        ],
    ),
    (
        "why",
        &[
            (
                "The longest wait of a run",
                "windtunnel why fifo -m smp4 -w mixed --for 100ms",
            ),
            (
                "A wait of a task",
                "windtunnel why eevdf hog@12ms -m smp4 -w mixed --for 100ms",
            ),
            (
                "The three longest waits of a recording",
                "windtunnel why perf.data --longest 3",
            ),
        ],
    ),
    (
        "invariants",
        &[(
            "Two policies on 16 CPUs",
            "windtunnel invariants pmqs fifo -m numa16 -w chat --for 1s --idle 2ms",
        )],
    ),
    (
        "stall",
        &[
            ("What a dump says", "windtunnel stall dump.txt"),
            (
                "A run of the scheduler that stalls in the same way",
                "windtunnel stall dump.txt ./mine.bpf.o --wall 5min",
            ),
        ],
    ),
    (
        "bisect",
        &[
            (
                "The commit since which an exploration finds something",
                "windtunnel bisect v1.0 main --build make --object mine.bpf.o -- explore {} --runs 200",
            ),
            (
                "The first of four objects that fails in a run",
                "windtunnel bisect a.bpf.o b.bpf.o c.bpf.o d.bpf.o -- run {} -m smp4 -w hackbench",
            ),
        ],
    ),
    (
        "explore",
        &[
            (
                "A policy, for a minute or until something is found",
                "windtunnel explore ./mine.bpf.o",
            ),
            (
                "A machine and a workload of your own",
                "windtunnel explore ./mine.bpf.o -m smp4 -w hackbench:groups=1,loops=5 --runs 500",
            ),
            (
                "The run of a finding again, with the accesses of its CPUs side by side",
                "windtunnel explore --replay TOKEN",
            ),
            (
                "The same run, one access at a time",
                "windtunnel explore --replay TOKEN --step",
            ),
        ],
    ),
    (
        "top",
        &[
            (
                "A simulation at a tenth of its speed",
                "windtunnel top vtime -m numa32 -w chat --speed 0.1",
            ),
            (
                "A row for each 50 ms, in a file",
                "windtunnel top vtime -w chat --for 1s --every 50ms > rows.txt",
            ),
        ],
    ),
    (
        "script",
        &[
            (
                "What does the scheduler do in this situation?",
                "windtunnel script situation.script",
            ),
            (
                "The logs of many scripts",
                "windtunnel script scripts/*.script --output logs",
            ),
        ],
    ),
    (
        "check",
        &[
            (
                "One object, with everything that it needs",
                "windtunnel check -v ./mine.bpf.o",
            ),
            (
                "Does it load into an older kernel?",
                "windtunnel check ./mine.bpf.o --kernel 6.12",
            ),
        ],
    ),
    (
        "suite",
        &[(
            "All cases of a suite, on the objects in a directory",
            "windtunnel suite cases.toml --objects build",
        )],
    ),
    (
        "sweep",
        &[
            (
                "All runs of a sweep, on all CPUs of this host",
                "windtunnel sweep sweep.toml",
            ),
            ("The commands of these runs", "windtunnel sweep sweep.toml --list"),
        ],
    ),
    (
        "score",
        &[
            ("One number for a policy", "windtunnel score vtime"),
            (
                "The same with your own cases",
                "windtunnel score ./mine.bpf.o --suite cases.toml --json",
            ),
        ],
    ),
    (
        "grade",
        &[
            ("What a lab asks for", "windtunnel grade lab1"),
            (
                "The code from which to start",
                "windtunnel grade lab1 --starter mine.bpf.c",
            ),
            ("The points of a submission", "windtunnel grade lab1 mine.bpf.c"),
        ],
    ),
    ("policy list", &[("The built policies", "windtunnel policy list")]),
    (
        "policy show",
        &[
            ("A built policy", "windtunnel policy show steal"),
            ("The globals of an object", "windtunnel policy show ./mine.bpf.o"),
        ],
    ),
    (
        "policy new",
        &[("A policy in the current directory", "windtunnel policy new lottery")],
    ),
    ("machine list", &[("The known machines", "windtunnel machine list")]),
    (
        "machine show",
        &[
            ("A known machine", "windtunnel machine show epyc-2s"),
            ("This computer", "windtunnel machine show host"),
        ],
    ),
    (
        "machine calibrate",
        &[(
            "A machine file for this computer",
            "windtunnel machine calibrate --output mine.toml",
        )],
    ),
    ("workload list", &[("Files and generators", "windtunnel workload list")]),
    (
        "workload show",
        &[
            ("The parameters of a generator", "windtunnel workload show schbench"),
            (
                "The tasks of a workload",
                "windtunnel workload show closed:n=7,compute=2ms",
            ),
            (
                "The tasks as an rt-app file",
                "windtunnel workload show mixed.json --rtapp",
            ),
        ],
    ),
    ("experiment list", &[("The experiments", "windtunnel experiment list")]),
    (
        "experiment show",
        &[("One experiment", "windtunnel experiment show pmqs/table1")],
    ),
    (
        "experiment measures",
        &[("Everything that can be measured", "windtunnel experiment measures")],
    ),
    (
        "experiment run",
        &[
            ("One experiment", "windtunnel experiment run pmqs/table1"),
            (
                "A group of experiments, as a page",
                "windtunnel experiment run smp --report smp.html",
            ),
        ],
    ),
    ("init", &[("A project in the directory mine", "windtunnel init mine")]),
    (
        "tune",
        &[
            (
                "A time slice that improves the score",
                "windtunnel tune vtime -m numa32 -w schbench --for 500ms --param slice_ns",
            ),
            (
                "Shorter latency without a worse score",
                "windtunnel tune steal -m numa32 -w hackbench --objective p99_wakeup --constraint 'score >= -2%'",
            ),
        ],
    ),
    (
        "mcp",
        &[(
            "A server on standard input and output",
            "windtunnel mcp --files results",
        )],
    ),
    (
        "live load",
        &[("A policy for a minute", "windtunnel live load fifo --for 60s")],
    ),
    (
        "live status",
        &[("What the kernel schedules with", "windtunnel live status")],
    ),
    (
        "live set",
        &[("Another time slice", "windtunnel live set slice_ns=2000000")],
    ),
    (
        "live unload",
        &[("Back to the kernel's own scheduler", "windtunnel live unload")],
    ),
    (
        "live run",
        &[(
            "Message passing on two CPUs",
            "windtunnel live run hackbench:groups=2 --cpus 0-1",
        )],
    ),
    (
        "live record",
        &[
            (
                "A recording of five seconds",
                "windtunnel live record --for 5s --output system.wtt",
            ),
            (
                "A recording of a command",
                "windtunnel live record --output build.wtt -- make -j4",
            ),
        ],
    ),
    (
        "live study",
        &[(
            "An experiment on this machine",
            "windtunnel live study smp/priorities --seeds 3",
        )],
    ),
    (
        "live compare",
        &[(
            "The simulator beside this machine",
            "windtunnel live compare vtime hackbench:groups=1 --machine mine.toml --why",
        )],
    ),
    (
        "live why",
        &[("Two traces", "windtunnel live why simulated.wtt recorded.wtt")],
    ),
    (
        "completions",
        &[
            ("For this Bash", "source <(windtunnel completions bash)"),
            (
                "For every Bash",
                "windtunnel completions bash > ~/.local/share/bash-completion/completions/windtunnel",
            ),
        ],
    ),
];

/// Returns the examples of a command. A group of subcommands has the first example of each.
pub fn of(path: &str) -> Vec<Example> {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(known, _)| *known == path) {
        return examples.to_vec();
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
        for (path, examples) in EXAMPLES {
            for (_, line) in *examples {
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
