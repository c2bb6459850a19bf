// SPDX-License-Identifier: GPL-2.0-only
//! Executes many workloads for 30 ms each: each generator with its defaults, each file of the
//! repository, and rt-app's own examples if they are installed. The simulator accepts all of these
//! workloads.

use crate::alone::run;
use report::RunResult;
use std::path::{Path, PathBuf};

/// Checks that the run had tasks and context switches.
fn did_something(name: &str, r: &RunResult) {
    assert!(r.context_switches > 0 && r.tasks_total > 0, "{name}: {r:?}");
    // The tasks still use CPU time while they are being stopped. On a busy host, stopping them can
    // take longer than the run, so the busy time may exceed 100 %.
    assert!(r.busy_percent <= 400.0, "{name}: {}", r.busy_percent);
}

#[test]
fn every_generator_and_every_file_runs() {
    let names = workload::generators().iter().map(|generator| generator.name.to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let files = workload::files(&[&folder]);
    assert!(!files.is_empty());
    for name in names.chain(files.into_iter().map(|(name, _)| name)) {
        let workload = workload::load(&name, &[&folder]).expect("the workload can be loaded");
        // A workload with disturbances (such as CPU hotplug) is refused, because it would change
        // the host.
        if workload.disturbances.is_empty() {
            did_something(&name, &run(&[&name, "--for", "30ms"]));
        }
    }
}

#[test]
fn rt_apps_own_examples_run() {
    let mut folders = vec![PathBuf::from("/usr/share/doc/rt-app/examples")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(ending) if ending == "json" => files.push(path.display().to_string()),
                _ => {}
            }
        }
    }
    if files.is_empty() {
        golden::skip!("the examples of rt-app (package rt-app) are not installed");
    }
    for file in files {
        // The files in merge/ are in rt-app's format before version 1.0. They are fragments of
        // workloads, which a script merges.
        if !file.contains("/merge/") {
            did_something(&file, &run(&[&file, "--for", "30ms"]));
        }
    }
}
