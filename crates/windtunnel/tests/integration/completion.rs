// SPDX-License-Identifier: GPL-2.0-only
//! Completion of command lines. The tests call the command as the scripts of the shells do.

use crate::support::root;
use std::process::Command;

/// Returns the completions of the last word, without descriptions.
fn completions(words: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_windtunnel"))
        .env("COMPLETE", "fish")
        .args(["--", "windtunnel"])
        .args(words)
        .current_dir(root())
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the text is UTF-8");
    let words = text
        .lines()
        .map(|line| line.split('\t').next().unwrap_or(line).to_owned());
    words.collect()
}

#[test]
fn words_are_completed_by_their_meaning() {
    for (words, expected) in [
        (vec!["ru"], vec!["run"]),
        (vec!["run", "vt"], vec!["vtime"]),
        (vec!["run", "fifo", "vt"], vec!["vtime"]),
        (vec!["compare", "eev"], vec!["eevdf"]),
        (vec!["policy", "show", "pm"], vec!["pmqs"]),
        (vec!["run", "fifo", "--machine", "numa"], vec!["numa16", "numa32"]),
        (vec!["run", "fifo", "-w", "mix"], vec!["mixed.json"]),
        (
            vec!["run", "fifo", "-w", "schbench:mess"],
            vec!["schbench:message_threads="],
        ),
        (
            vec!["run", "fifo", "-w", "closed:n=7,think_d"],
            vec!["closed:n=7,think_dist="],
        ),
        (
            vec!["run", "fifo", "-w", "hackbench:via="],
            vec!["hackbench:via=socket", "hackbench:via=pipe"],
        ),
        (vec!["run", "fifo", "--set", "sl"], vec!["slice_ns="]),
        (vec!["diff", "fifo", "rr", "--set", "B:ex"], vec!["B:exact="]),
        (vec!["tune", "vtime", "--param", "sl"], vec!["slice_ns="]),
        (vec!["run", "fifo", "--profile", "non"], vec!["none"]),
        (vec!["run", "fifo", "--kernel", "7."], vec!["7.0", "7.1", "7.2", "7.3"]),
        (vec!["run", "fifo", "--noise", "des"], vec!["desktop"]),
        (vec!["experiment", "run", "pmqs/table1"], vec!["pmqs/table1"]),
        (
            vec!["experiment", "show", "stea"],
            vec!["steal", "steal/hackbench", "steal/options"],
        ),
        (vec!["score", "fifo", "--suite", "def"], vec!["default"]),
        (vec!["live", "lo"], vec!["load"]),
        (vec!["live", "load", "vt"], vec!["vtime"]),
    ] {
        assert_eq!(completions(&words), expected, "{words:?}");
    }
    assert!(completions(&["run", ""]).contains(&"p9".to_owned()));
}

#[test]
fn files_of_the_right_kind_are_completed() {
    assert_eq!(
        completions(&["run", "fifo", "-m", "machines/epyc"]),
        ["machines/epyc-2s.toml"]
    );
    assert_eq!(
        completions(&["run", "fifo", "-w", "workloads/mix"]),
        ["workloads/mixed.json"]
    );
    assert_eq!(completions(&["run", "fifo", "-w", "Carg"]), [""; 0]);
}
