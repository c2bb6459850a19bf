// SPDX-License-Identifier: GPL-2.0-only
//! Tests that commands say on standard error which parts of a machine are estimated or ignored.

use crate::support::windtunnel;

/// A hybrid machine whose kernel exported the same capacity for all CPUs, with a memory node without
/// CPUs.
const HYBRID: &str = "crates/machine/tests/data/hybrid-memory.xml";
const LOAD: [&str; 4] = ["--workload", "closed:n=4,compute=1ms", "--for", "20ms"];

/// Returns the notes on standard error that a command prints about [`HYBRID`].
fn notes(command: &[&str]) -> Vec<String> {
    let args = [command, &["--machine", HYBRID], &LOAD].concat();
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 0, "{args:?}: {}{}", ran.stdout, ran.stderr);
    let beginning = format!("{HYBRID}: note: ");
    ran.stderr
        .lines()
        .filter_map(|line| line.strip_prefix(&beginning).map(str::to_owned))
        .collect()
}

#[test]
fn commands_name_each_estimate_and_what_they_ignore_once() {
    let expected = [
        "no CPU belongs to NUMA node 1, so its memory is not modelled",
        "the capacity that the kernel exported, 1024 for all CPUs, is ignored, because their core types and \
         highest frequencies differ",
        "capacities are estimated from core types and highest frequencies: 1024 (CPUs 0-1), 608 (CPUs 2-4), \
         400 (CPU 5)",
        "an IntelAtom or IntelLowPower core is assumed to do 3/4 of a fast core's work per cycle",
    ];
    for command in [
        &["run", "eevdf", "eevdf"][..],
        &["run", "eevdf", "--json", "-"],
        &["compare", "eevdf", "eevdf", "--runs", "2"],
        &["diff", "eevdf", "eevdf"],
        &["top", "eevdf"],
    ] {
        assert_eq!(notes(command), expected, "{command:?}");
    }
}

#[test]
fn a_machine_without_estimates_has_no_notes() {
    let ran = windtunnel(&[&["run", "eevdf", "--machine", "hybrid"], &LOAD[..]].concat());
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}
