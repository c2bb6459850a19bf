// SPDX-License-Identifier: GPL-2.0-only
//! Tests that read rt-app's own examples, as Debian's package installs them, and the files in
//! workloads/.

use std::path::{Path, PathBuf};
use workload::{Error, SchedPolicy, Workload, rtapp, to_rtapp_json};

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return found;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(json_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "json") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> Result<Workload, Error> {
    rtapp::read(&std::fs::read_to_string(path).unwrap(), &path.display().to_string())
}

/// Checks that a workload has the same tasks after it was written to a file and read again.
fn written_and_read(workload: &Workload) {
    let text = to_rtapp_json(workload).unwrap_or_else(|error| panic!("{error}"));
    let again = rtapp::read(&text, &workload.name).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.tasks, workload.tasks, "{text}");
    assert_eq!(to_rtapp_json(&again), Ok(text));
}

/// Returns whether an example is not a complete workload in the format of rt-app 1.0. These
/// examples, which are fragments of workloads, are in the directory `merge`.
fn is_old_format(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "merge")
}

#[test]
fn examples_of_rt_app_load() {
    let directory = Path::new("/usr/share/doc/rt-app/examples");
    if !directory.exists() {
        golden::skip!("the examples of rt-app (package rt-app) are not installed");
        return;
    }
    let files = json_files(directory);
    let mut loaded = 0;
    for path in files.iter().filter(|path| !is_old_format(path)) {
        let workload = read(path).unwrap_or_else(|error| panic!("{error}"));
        assert!(workload.tasks.iter().any(|task| task.spawn), "{}", path.display());
        written_and_read(&workload);
        loaded += 1;
    }
    assert!(loaded >= 17, "{loaded} of {files:?}");
    for path in files.iter().filter(|path| is_old_format(path)) {
        let message = read(path).unwrap_err().to_string();
        assert!(
            message.contains("before rt-app 1.0") || message.contains("needs \"tasks\""),
            "{message}"
        );
    }
}

fn ours(name: &str) -> Workload {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    workload::load(name, &[&directory]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn files_in_workloads_load() {
    for name in [
        "mixed",
        "periodic",
        "pingpong",
        "locks",
        "hogs",
        "fork",
        "rt",
        "desktop",
        "service",
        "background",
        "tenants",
    ] {
        let workload = ours(name);
        assert_eq!(workload.duration_ns, Some(2_000_000_000), "{name}");
        written_and_read(&workload);
    }
}

#[test]
fn mixed_has_all_kinds_of_tasks() {
    let workload = ours("mixed");
    assert_eq!(workload.tasks.len(), 125);
    let policies: Vec<_> = workload.tasks.iter().map(|task| task.policy).collect();
    for policy in [
        SchedPolicy::Normal { nice: 0 },
        SchedPolicy::Normal { nice: 10 },
        SchedPolicy::Fifo { rt_priority: 50 },
    ] {
        assert!(policies.contains(&policy), "{policy:?}");
    }
}
