// SPDX-License-Identifier: GPL-2.0-only
//! Finds the files of the repository that belong to the command, and compiles the policies.
//!
//! This file is part of the build script, which embeds the files in the command. In the development
//! build, it is part of the command, which reads the files at run time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the repository whose files belong to the command. Pages (`*.md`) are left out.
pub const FOLDERS: [&str; 7] = [
    "policies",
    "machines",
    "workloads",
    "profiles",
    "experiments",
    "scores",
    "labs",
];

/// Returns the names and paths of the files below the folders of the repository `root`. A name is a
/// path relative to `root`.
///
/// # Errors
/// A folder cannot be read.
pub fn sources(root: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        add(root, &root.join(folder), &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn add(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() {
            add(root, &path, files)?;
        } else if path.extension().is_none_or(|ending| ending != "md") {
            let name = path.strip_prefix(root).unwrap_or(&path);
            files.push((name.to_string_lossy().into_owned(), path));
        }
    }
    Ok(())
}

/// Compiles each policy of `sources` into the folder `out`, unless `out` already has its object.
/// Returns the names and paths of the objects. They are the same wherever the repository is.
///
/// # Errors
/// clang's message.
pub fn objects(root: &Path, out: &Path, sources: &[(String, PathBuf)]) -> Result<Vec<(String, PathBuf)>, String> {
    let relative = format!("-fdebug-prefix-map={}/=", root.display());
    let options = ["-g", "-Wall", "-fdebug-compilation-dir=.", &relative];
    let is_policy = |name: &str| name.starts_with("policies/") && name.ends_with(".bpf.c");
    let policies = sources.iter().filter(|(name, _)| is_policy(name));
    policies
        .map(|(name, source)| {
            let object = Path::new(name).with_extension("o");
            let path = out.join(&object);
            clang::compile_in(root, source, &options, &path)?;
            Ok((object.to_string_lossy().into_owned(), path))
        })
        .collect()
}

/// Returns a hash of the names and contents of files, as text.
pub fn hash<'f>(files: impl Iterator<Item = (&'f str, &'f [u8])>) -> String {
    let mut hasher = DefaultHasher::new();
    files.for_each(|file| file.hash(&mut hasher));
    format!("{:016x}", hasher.finish())
}
