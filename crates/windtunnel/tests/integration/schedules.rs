// SPDX-License-Identifier: GPL-2.0-only
//! Compares drawings of schedules with committed files. A drawing shows which task runs on which
//! CPU, so a change of the schedule appears as a readable difference.

use crate::support::{object, windtunnel};

const CASES: &[(&str, &str, &str, &str, &str)] = &[
    // Three tasks that never pause take turns on two CPUs. A turn is one slice.
    ("fifo-turns", "fifo", "core:2 pu:1", "closed:n=3,compute=1s", "0ms-60ms"),
    // All tasks get equal CPU time, although they sleep.
    (
        "vtime-sleepers",
        "vtime",
        "core:2 pu:1",
        "closed:n=4,compute=3ms,think=2ms",
        "0ms-60ms",
    ),
    // Each CPU has its own queue. A CPU whose queue is empty steals a task from the longest queue.
    (
        "percpu-steal",
        "percpu",
        "core:4 pu:1",
        "closed:n=7,compute=8ms,think=2ms,start_cpu=0",
        "0ms-80ms",
    ),
    // All tasks start on the first CPU. Load balancing spreads them, both periodically and when a
    // CPU becomes idle.
    (
        "eevdf-spread",
        "eevdf",
        "core:4 pu:1",
        "closed:n=6,compute=1s,start_cpu=0",
        "0ms-100ms",
    ),
    // There are three groups. The first has weight 300 and one task. The second has weight 100 and
    // three tasks. The third has two tasks and a limit of 2 ms of CPU time in every 20 ms.
    ("eevdf-groups", "eevdf", "core:1 pu:1", "groups.json", "0ms-80ms"),
    // Real-time tasks run before all other tasks.
    ("fifo-rt", "fifo", "core:2 pu:1", "rt.json", "0ms-60ms"),
];

#[test]
fn schedules_match_the_golden_drawings() {
    for (name, policy, machine, workload, window) in CASES {
        let policy = match *policy {
            "eevdf" => "eevdf".to_owned(),
            name => object(&format!("policies/{name}.bpf.c")).display().to_string(),
        };
        let to = window.split_once('-').expect("the window has the form FROM-TO").1;
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
        // The table of results follows the drawing.
        let drawing: String = ran
            .stdout
            .lines()
            .take_while(|line| !line.starts_with("machine "))
            .map(|line| format!("{line}\n"))
            .collect();
        golden::check!(format!("{name}.txt"), &drawing);
    }
}
