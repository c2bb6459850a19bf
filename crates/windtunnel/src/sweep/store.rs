// SPDX-License-Identifier: GPL-2.0-only
//! Results of runs on disk, by the hash of everything that they depend on.
//!
//! Each result is a JSON file. It is written under a temporary name and then renamed, so several
//! processes may use one store. A file that cannot be read counts as missing.

use crate::destination;
use crate::error::Error;
use report::RunResult;
use std::path::PathBuf;

/// A directory with results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Uses a directory, which is created when the first result is written.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// Returns the result with this key, or `None` if it is not in the store.
    pub fn get(&self, key: u128) -> Option<RunResult> {
        let text = std::fs::read(self.path(key)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: u128, result: &RunResult) -> Result<(), Error> {
        let text = serde_json::to_vec(result).map_err(|error| Error::new(error.to_string()))?;
        destination::write(&self.path(key), &text)
    }

    fn path(&self, key: u128) -> PathBuf {
        self.folder.join(Store::name(key))
    }

    /// Returns the path of a result, relative to the directory. The first byte of the key is the
    /// name of a subdirectory, because some tools are slow with very large directories.
    pub fn name(key: u128) -> String {
        let name = format!("{key:032x}");
        format!("{}/{}.json", &name[..2], &name[2..])
    }
}
