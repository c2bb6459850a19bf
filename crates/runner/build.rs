// SPDX-License-Identifier: GPL-2.0-only
//! Computes the version of the simulation: a digest of the source code of this crate and of all
//! crates of the repository that it uses, and of the versions of the libraries. The store of results
//! keeps results under keys that contain this version. It therefore uses no result that was computed
//! before a change of the source code.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut crates = BTreeSet::new();
    collect(&here, &mut crates);
    let mut digest = Sha256::new();
    // If this crate is built outside of the workspace, there is no Cargo.lock.
    let lock = here.join("../../Cargo.lock");
    let parts = ["Cargo.toml", "build.rs", "src"];
    let files = crates.iter().flat_map(|folder| parts.map(|part| folder.join(part)));
    for path in files.chain([lock]).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
        add(&path, &mut digest);
    }
    let version: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=WINDTUNNEL_SIMULATION={version}");
}

/// Adds the directory of a crate, and those of the crates of the repository on which it depends.
fn collect(folder: &Path, crates: &mut BTreeSet<PathBuf>) {
    let folder = folder.canonicalize().expect("the crate has a directory");
    if !crates.insert(folder.clone()) {
        return;
    }
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("the crate has a manifest");
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
    for line in dependencies.lines().take_while(|line| !line.starts_with('[')) {
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let dependency = folder.join("..").join(name);
        if dependency.join("Cargo.toml").is_file() && !name.is_empty() {
            collect(&dependency, crates);
        }
    }
}

/// Adds a file, or the files of a directory in the order of their names.
fn add(path: &Path, digest: &mut Sha256) {
    let failed = |error| panic!("{}: {error}", path.display());
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap_or_else(failed);
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry of the folder").path())
            .collect();
        paths.sort();
        paths.iter().for_each(|path| add(path, digest));
        return;
    }
    let contents = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // The length separates a file from the next one.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    digest.update(format!("{name} {}\n", contents.len()));
    digest.update(contents);
}
