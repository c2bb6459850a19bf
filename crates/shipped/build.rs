// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policies, and generates the list of the files that are embedded in the command.
//!
//! The list is Rust code: an array of names and contents (`include_bytes!`). The files themselves
//! stay in the folders of the repository.
//!
//! The development build embeds nothing. Otherwise, each change of a policy or of an experiment
//! would compile this crate and all crates that depend on it again, which takes minutes.

#[path = "src/files.rs"]
mod files;

use std::fmt::Write;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/files.rs");
    println!("cargo::rustc-check-cfg=cfg(embedded)");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let out = PathBuf::from(variable("OUT_DIR"));
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the folder of the repository exists");

    let mut all = files::sources(&root).unwrap_or_else(|error| panic!("{error}"));
    // In the development build, this only saves time: the first command finds the objects.
    let objects = files::objects(&root, &out, &all);
    // scripts/build/as-released.toml changes only the level of the profile.
    if variable("PROFILE") != "release" && variable("OPT_LEVEL") != "3" {
        return;
    }
    println!("cargo::rustc-cfg=embedded");
    for folder in files::FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    match objects {
        Ok(objects) => all.extend(objects),
        // Without clang, the command can be built, but it contains no compiled policies.
        Err(reason) => println!("cargo::warning=the command is built without policies: {reason}"),
    }
    all.sort();
    let mut code = String::from("&[\n");
    for (name, path) in &all {
        let _ = writeln!(code, "    ({name:?}, include_bytes!({path:?}).as_slice()),");
    }
    code.push_str("]\n");
    std::fs::write(out.join("files.rs"), code).expect("OUT_DIR is writable");
    let read = |path: &PathBuf| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let contents: Vec<Vec<u8>> = all.iter().map(|(_, path)| read(path)).collect();
    let names = all.iter().map(|(name, _)| name.as_str());
    println!(
        "cargo::rustc-env=SHIPPED_HASH={}",
        files::hash(names.zip(contents.iter().map(Vec::as_slice)))
    );
}
