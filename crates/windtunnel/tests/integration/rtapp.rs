// SPDX-License-Identifier: GPL-2.0-only
//! Tests that two sets of rt-app files can be run: rt-app's own examples, which Debian's package
//! installs, and the files in workloads/.

use crate::support::{object, root, windtunnel};
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
        eprintln!("rt-app is not installed: its examples are not run");
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
