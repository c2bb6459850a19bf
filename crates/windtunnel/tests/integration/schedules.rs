// SPDX-License-Identifier: GPL-2.0-only
//! Golden schedules: who runs where, drawn as text. A change that moves a task shows as a diff of a picture.

use crate::support::{object, windtunnel};

const CASES: &[(&str, &str, &str, &str, &str)] = &[
    // Three hogs take turns on two CPUs, a slice each.
    ("fifo-turns", "fifo", "core:2 pu:1", "closed:n=3,compute=1s", "0ms-60ms"),
    // Equal shares, whoever sleeps.
    (
        "vtime-sleepers",
        "vtime",
        "core:2 pu:1",
        "closed:n=4,compute=3ms,think=2ms",
        "0ms-60ms",
    ),
    // Queues of their own; who runs dry takes from the longest.
    (
        "percpu-steal",
        "percpu",
        "core:4 pu:1",
        "closed:n=7,compute=8ms,think=2ms,start_cpu=0",
        "0ms-80ms",
    ),
    // All on the first CPU: new-idle and periodic balancing spread them.
    (
        "eevdf-spread",
        "eevdf",
        "core:4 pu:1",
        "closed:n=6,compute=1s,start_cpu=0",
        "0ms-100ms",
    ),
    // Shares of groups: 300 for one task, 100 for three and 2 of 20 ms for two.
    ("eevdf-groups", "eevdf", "core:1 pu:1", "groups.json", "0ms-80ms"),
    // Realtime above all else.
    ("fifo-rt", "fifo", "core:2 pu:1", "rt.json", "0ms-60ms"),
];

#[test]
fn schedules_are_those_drawn() {
    for (name, policy, machine, workload, window) in CASES {
        let policy = match *policy {
            "eevdf" => "eevdf".to_owned(),
            name => object(&format!("policies/{name}.bpf.c")).display().to_string(),
        };
        let to = window.split_once('-').expect("a window").1;
        let ran = windtunnel(&[
            "run",
            &policy,
            "--machine",
            machine,
            "--workload",
            workload,
            "--for",
            to,
            "--draw",
            window,
        ]);
        assert_eq!(ran.status, 0, "{name}: {}", ran.stderr);
        // The drawing ends where the table begins.
        let drawing: String = ran
            .stdout
            .lines()
            .take_while(|line| !line.starts_with("machine "))
            .map(|line| format!("{line}\n"))
            .collect();
        golden::check!(format!("{name}.txt"), &drawing);
    }
}
