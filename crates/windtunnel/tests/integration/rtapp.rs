// SPDX-License-Identifier: GPL-2.0-only
//! Tests that two sets of rt-app files can be run: rt-app's own examples, which Debian's package
//! installs, and the files in workloads/. Also a test of NUMA balancing, for which a file pins a task
//! to the wrong node.

use crate::support::{object, results, root, windtunnel};
use std::path::{Path, PathBuf};

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        // The directory merge/ is left out, because its files are fragments in the grammar of
        // rt-app before version 1.0.
        if path.is_dir() && !path.ends_with("merge") {
            json_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "json") {
            found.push(path);
        }
    }
}

fn all_run(folder: &Path, least: usize) {
    let mut files = Vec::new();
    json_files(folder, &mut files);
    if files.is_empty() && !folder.starts_with(root()) {
        golden::skip!("the examples of rt-app (package rt-app) are not installed");
        return;
    }
    assert!(files.len() >= least, "{}: {files:?}", folder.display());
    let vtime = object("policies/vtime.bpf.c").display().to_string();
    for file in files {
        let file = file.display().to_string();
        let ran = windtunnel(&[
            "run",
            "eevdf",
            &vtime,
            "--machine",
            "numa32",
            "--workload",
            &file,
            "--for",
            "500ms",
            // Threads that start at the same instant would hand over to each other too early.
            "--phase",
            "random",
        ]);
        assert_eq!(ran.status, 0, "{file}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn the_examples_of_rt_app_run() {
    all_run(Path::new("/usr/share/doc/rt-app/examples"), 15);
}

#[test]
fn the_workload_files_of_the_repository_run() {
    all_run(&root().join("workloads"), 5);
}

/// Does 4 s of work on node 1 with memory on node 0. Returns the time in ns, and the numbers of
/// hinting faults and of moved pages.
fn work_on_the_wrong_node(machine: &str) -> [u64; 3] {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-node.json");
    let text = r#"{"tasks": {"t": {"footprint": 67108864, "touch": 8000, "loop": 1, "phases": {
        "first": {"run": 1000, "cpus": [0]},
        "then": {"loop": 4, "run": 1000000, "cpus": [8]}}}}}"#;
    std::fs::write(&file, text).expect("the directory is writable");
    let file = file.display().to_string();
    let found = results(&["eevdf", "--machine", machine, "--workload", &file, "--for", "20s"]);
    ["simulated_ns", "numa_faults", "numa_pages_migrated"]
        .map(|key| found[0][key].as_u64().expect("the value is a number"))
}

#[test]
fn numa_balancing_moves_the_memory_of_a_task_on_the_wrong_node() {
    let text = std::fs::read_to_string(root().join("machines/numa32.toml")).expect("the machine file exists");
    let off = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-numa-balancing.toml");
    std::fs::write(&off, text.replace("\nhz =", "\nnuma_balancing = false\nhz =")).expect("the directory is writable");
    let [without, faults, pages] = work_on_the_wrong_node(&off.display().to_string());
    assert_eq!((faults, pages), (0, 0));
    // Without NUMA balancing, all of the work takes 1.39 times as long as on the right node.
    assert!((5_500_000_000..5_600_000_000).contains(&without), "{without}");
    let [with, faults, pages] = work_on_the_wrong_node("numa32");
    assert_eq!(pages, 64 * 256, "each page of 4 KiB moves once");
    assert!(faults >= pages, "{faults}");
    // With it, only the first second is slow.
    assert!((4_300_000_000..4_450_000_000).contains(&with), "{with}");
}
