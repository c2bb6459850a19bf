// SPDX-License-Identifier: GPL-2.0-only
//! Computes the version of the simulation, which is a hash of the crates' source code and of the
//! versions of the libraries. Only crates that can change the result of a run count. `windtunnel
//! sweep` stores results of runs under keys that contain this version. It therefore uses no result
//! that was computed before a change of the source code.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const CRATES: [&str; 9] = [
    "bpf",
    "input",
    "kernel",
    "machine",
    "profile",
    "report",
    "trace",
    "windtunnel",
    "workload",
];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut hasher = DefaultHasher::new();
    for name in CRATES {
        let folder = here.join("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        add(&folder, &mut hasher);
    }
    // If this crate is built outside of the workspace, there is no Cargo.lock.
    let lock = here.join("../../Cargo.lock");
    if let Ok(text) = std::fs::read(&lock) {
        text.hash(&mut hasher);
        println!("cargo::rerun-if-changed={}", lock.display());
    }
    println!("cargo::rustc-env=WINDTUNNEL_SIMULATION={:016x}", hasher.finish());
}

fn add(folder: &Path, hasher: &mut DefaultHasher) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of the folder").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, hasher);
        } else {
            path.file_name().hash(hasher);
            std::fs::read(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                .hash(hasher);
        }
    }
}
