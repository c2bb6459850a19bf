// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policies, and generates the list of the files that are embedded in the command.
//!
//! The list is Rust code: an array of names and contents (`include_bytes!`). The files themselves
//! stay in the folders of the repository.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// Folders of the repository whose files are embedded in the command.
const FOLDERS: [&str; 6] = ["policies", "machines", "workloads", "profiles", "experiments", "scores"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = here
        .join("../..")
        .canonicalize()
        .expect("the folder of the repository exists");

    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        add(&root, &root.join(folder), &mut files);
    }
    let objects = match compile(&root, &out, &files) {
        Ok(objects) => objects,
        Err(reason) => {
            // Without clang, the command can be built, but it contains no compiled policies.
            println!("cargo::warning=the command is built without policies: {reason}");
            Vec::new()
        }
    };
    files.extend(objects);
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in &files {
        let _ = writeln!(code, "    ({name:?}, include_bytes!({path:?}).as_slice()),");
    }
    code.push_str("]\n");
    std::fs::write(out.join("files.rs"), code).expect("OUT_DIR is writable");
    println!("cargo::rustc-env=SHIPPED_HASH={:016x}", hash(&files));
}

/// Returns a hash of the names and contents of the files.
fn hash(files: &[(String, PathBuf)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, path) in files {
        let contents = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (name, contents).hash(&mut hasher);
    }
    hasher.finish()
}

/// Adds the names and paths of all files below `folder`. A name is a path relative to `root`.
fn add(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            add(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("the path is below root");
            files.push((name.to_str().expect("the name is in UTF-8").to_owned(), path.clone()));
        }
    }
}

/// Compiles each policy of `files`. Returns the names and paths of the objects.
///
/// clang runs in the folder of the repository and gets relative paths. The objects are therefore
/// the same wherever the repository is.
fn compile(root: &Path, out: &Path, files: &[(String, PathBuf)]) -> Result<Vec<(String, PathBuf)>, String> {
    std::env::set_current_dir(root).map_err(|error| error.to_string())?;
    let sources = files.iter().filter(|(name, _)| name.ends_with(".bpf.c"));
    sources
        .map(|(name, _)| {
            let object = Path::new(name).with_extension("o");
            let path = out.join(&object);
            clang::compile(Path::new(name), &["-g", "-Wall", "-fdebug-compilation-dir=."], &path)?;
            Ok((object.to_str().expect("the name is in UTF-8").to_owned(), path))
        })
        .collect()
}
