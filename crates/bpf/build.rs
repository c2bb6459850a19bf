// SPDX-License-Identifier: GPL-2.0-only
//! Sets the environment variable BPF_BUILD, which identifies this build of the JIT. Its value is a
//! hash of the crate's sources, the version of rustc (which decides the layout of types) and the
//! build settings. The JIT can store compiled programs in files, and looks them up by a hash that
//! includes BPF_BUILD. It therefore never runs code that another build has compiled.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

fn main() {
    let mut hash = Sha256::new();
    let mut files = vec![PathBuf::from("Cargo.toml"), PathBuf::from("build.rs")];
    add(Path::new("src"), &mut files);
    files.sort();
    for file in &files {
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        hash.update(text.len().to_le_bytes());
        hash.update(&text);
    }
    let rustc = std::env::var_os("RUSTC").expect("cargo sets it");
    let version = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    hash.update(&version.stdout);
    for name in ["PROFILE", "OPT_LEVEL", "DEBUG", "TARGET", "CARGO_ENCODED_RUSTFLAGS"] {
        hash.update(std::env::var(name).unwrap_or_default());
        hash.update([0]);
    }
    let build: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=BPF_BUILD={build}");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.toml");
}

fn add(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            add(&path, files);
        } else {
            files.push(path);
        }
    }
}
