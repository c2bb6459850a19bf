// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the HTML pages that the command writes for runs and trace files. How a page behaves in
//! a browser is tested by the report crate.

use crate::support::{object, windtunnel};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    folder
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Tests that a run and its trace file give the same page.
#[test]
fn a_run_and_its_trace_give_the_same_page() {
    let folder = folder("page");
    let vtime = text(&object("policies/vtime.bpf.c"));
    let (traces, direct, read) = (
        folder.join("t.wtt"),
        folder.join("direct.html"),
        folder.join("new/read.html"),
    );
    let inputs = [
        "--machine",
        "numa:2 core:4 pu:1",
        "--workload",
        "closed:n=12,compute=2ms",
        "--for",
        "100ms",
    ];
    let run = |more: &[&str]| {
        let ran = windtunnel(&[&["run", "eevdf", &vtime], &inputs[..], more].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran
    };
    // A trace has no decisions, so it explains waits in fewer words.
    let ran = run(&["--html", &text(&direct), "--set", "slice_ns=3000000", "--explain", "0"]);
    assert!(
        ran.stdout.contains(&format!("report: {}", direct.display())),
        "{}",
        ran.stdout
    );
    run(&["--trace", &text(&traces), "--set", "slice_ns=3000000"]);
    let [eevdf, vtime] = ["t.eevdf.wtt", "t.vtime.wtt"].map(|name| text(&folder.join(name)));
    let ran = windtunnel(&["report", &eevdf, &vtime, "-o", &text(&read), "--explain", "0"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let [direct, read] = [&direct, &read].map(|path| std::fs::read_to_string(path).expect("the page exists"));
    for page in [&direct, &read] {
        for expected in [
            "8 CPUs, 2 LLCs, 2 nodes",
            "slice_ns=3000000",
            "rounds/s",
            "2 tasks share a CPU",
            "select_cpu",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
    }
    // The command that explains a wait names the trace or the run.
    let rest = |page: &str| {
        let parts = page.split("\"why\":\"").enumerate();
        let parts = parts.map(|(n, part)| part.split_once("\",").filter(|_| n > 0).map_or(part, |(_, rest)| rest));
        parts.collect::<String>()
    };
    assert!(rest(&direct) == rest(&read), "the pages differ");
}

#[test]
fn a_missing_trace_is_refused() {
    let folder = folder("page-errors");
    let missing = text(&folder.join("none.wtt"));
    let ran = windtunnel(&["report", &missing, "-o", &text(&folder.join("x.html"))]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("none.wtt"), "{}", ran.stderr);
    let ran = windtunnel(&["report", &missing, "--timeslice", "3ms"]);
    assert_eq!(ran.status, 2, "--timeslice is accepted without a page");
}
