// SPDX-License-Identifier: GPL-2.0-only
//! Finds and reads profiles: files `profiles/NAME.toml` that replace a policy's user-space part.

use crate::error::Error;
use crate::search;
use input::Source;
use profile::{Profile, file};
use std::path::{Path, PathBuf};

/// Maximum number of levels at which profiles may include other profiles.
const MAX_DEPTH: usize = 8;

/// Returns the profile of the policy `name`. If there is none, the profile is empty.
///
/// # Errors
/// The file is not a valid profile.
pub fn find(name: &str) -> Result<Profile, Error> {
    match path(name) {
        Some(path) => read(&path),
        None => Ok(Profile::default()),
    }
}

/// Returns the profile `name`, for a profile that includes it.
///
/// # Errors
/// There is no such profile, or it is not valid.
pub(crate) fn by_name(name: &str) -> Result<Profile, Error> {
    read(&path(name).ok_or_else(|| Error::new(format!("there is no profile {name}")))?)
}

fn path(name: &str) -> Option<PathBuf> {
    let folders = search::folders("profiles").into_iter();
    let mut paths = folders.map(|folder| folder.join(format!("{name}.toml")));
    paths.find(|path| path.is_file())
}

/// Reads a profile from a file.
///
/// # Errors
/// The file cannot be read or is not a valid profile.
pub fn read(path: &Path) -> Result<Profile, Error> {
    read_deep(path, 0)
}

fn read_deep(path: &Path, depth: usize) -> Result<Profile, Error> {
    let source = Source::read(path, file::MAX_BYTES)?;
    // An included profile is looked up first in the directory of the profile that includes it, then
    // in the `profiles` directories.
    file::parse(&source, &mut |name| {
        if depth == MAX_DEPTH {
            return Err(Error::new(format!(
                "{name}: profiles include each other more than {MAX_DEPTH} levels deep"
            )));
        }
        let beside = path.with_file_name(format!("{name}.toml"));
        let found = Some(beside).filter(|path| path.is_file()).or_else(|| self::path(name));
        let found = found.ok_or_else(|| Error::new(format!("there is no profile {name}")))?;
        read_deep(&found, depth + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_of_the_repository_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
        let files = std::fs::read_dir(folder)
            .expect("the directory of profiles exists")
            .flatten()
            .map(|entry| entry.path());
        let profiles: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        assert!(!profiles.is_empty());
        for path in profiles {
            read(&path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
