// SPDX-License-Identifier: GPL-2.0-only
//! Finds and reads profiles: TOML files that replace a policy's user-space part.
//!
//! The profile of a policy is the first of these that exists:
//!
//! 1. the file that `--profile` names. A name without a directory can also be a file of a `profiles`
//!    directory. The name `none` stands for no profile.
//! 2. `NAME.toml` in the directory of the object `NAME.bpf.o`.
//! 3. `NAME.toml` in a `profiles` directory ([`search::folders`]).

use crate::search;
use input::error::Error;
use input::{Source, suggest};
use profile::{Profile, file};
use std::path::{Path, PathBuf};

/// Maximum number of levels at which profiles may include other profiles.
const MAX_DEPTH: usize = 8;
/// The argument of `--profile` for a run without a profile.
pub const NONE: &str = "none";

/// The profile of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The argument of `--profile` that selects the profile.
    pub word: String,
    path: PathBuf,
    /// Whether the file was found beside the object.
    beside: bool,
}

impl Located {
    /// Reads the profile.
    ///
    /// # Errors
    /// The file cannot be read or is not a valid profile.
    pub fn read(&self) -> Result<Profile, Error> {
        read(&self.path).map_err(|mut error| {
            if self.beside {
                error.message +=
                    " (this file is the policy's profile, because it is beside the object and has its name)";
                return error.hint(format!("if the file is something else: --profile {NONE}"));
            }
            error
        })
    }
}

/// Finds the profile of the policy `name`, whose object is the file `object`. `given` is the
/// argument of `--profile`. Returns `None` if the policy has no profile.
///
/// # Errors
/// There is no profile `given`.
pub fn locate(given: Option<&Path>, name: &str, object: &Path) -> Result<Option<Located>, Error> {
    let located = |path: PathBuf| Located {
        word: path.display().to_string(),
        path,
        beside: false,
    };
    if let Some(given) = given {
        if given == Path::new(NONE) {
            return Ok(None);
        }
        if given.is_file() {
            return Ok(Some(located(given.to_owned())));
        }
        let text = given.display().to_string();
        let found = named(&text).filter(|_| !text.contains('/'));
        return match found {
            Some(path) => Ok(Some(Located {
                word: text,
                ..located(path)
            })),
            None => Err(missing(&text)),
        };
    }
    let file_name = format!("{name}.toml");
    let beside = object.with_file_name(&file_name);
    if beside.is_file() {
        return Ok(Some(Located {
            beside: true,
            ..located(beside)
        }));
    }
    Ok(named(name).map(|path| {
        // A file of the same name in the working directory would be found first.
        let unique = !Path::new(&file_name).is_file();
        let found = located(path);
        match unique {
            true => Located {
                word: file_name,
                ..found
            },
            false => found,
        }
    }))
}

fn missing(wanted: &str) -> Error {
    let error = Error::new(format!("--profile {wanted}: there is no such file"));
    let entries = search::folders("profiles")
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok());
    let files = entries.flat_map(|entries| entries.flatten());
    let mut names: Vec<String> = files
        .filter_map(|file| file.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    // Profiles of schedulers from other repositories are called scx_NAME.toml.
    let plain = |name: &str| name.trim_start_matches("scx_").trim_end_matches(".toml").to_owned();
    let same = names.iter().find(|name| plain(name) == plain(wanted));
    let near = suggest::nearest(wanted, names.iter().map(String::as_str)).map(str::to_owned);
    let near = same.cloned().or(near);
    error.hint(match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("give the path of a profile, the name of a file in profiles/, or {NONE}"),
    })
}

/// Returns the profile of the policy `name`, whose object is the file `object`. If there is none, the
/// profile is empty.
///
/// # Errors
/// The file is not a valid profile.
pub fn find(name: &str, object: &Path) -> Result<Profile, Error> {
    locate(None, name, object)?.map_or_else(|| Ok(Profile::default()), |located| located.read())
}

/// Returns the profile `name`, for a profile that includes it.
///
/// # Errors
/// There is no such profile, or it is not valid.
pub fn by_name(name: &str) -> Result<Profile, Error> {
    read(&named(name).ok_or_else(|| Error::new(format!("there is no profile {name}")))?)
}

/// Finds a profile in the `profiles` directories by its name, with or without `.toml`.
pub fn named(name: &str) -> Option<PathBuf> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
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
        let found = Some(beside).filter(|path| path.is_file()).or_else(|| named(name));
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
