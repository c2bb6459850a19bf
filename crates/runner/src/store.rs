// SPDX-License-Identifier: GPL-2.0-only
//! Results of runs on disk, by a digest of everything that they depend on.
//!
//! Each result is a JSON file. It is written under a temporary name and then renamed, so several
//! processes may use one store. A file that cannot be read counts as missing.

use crate::destination;
use input::error::Error;
use report::RunResult;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::PathBuf;

/// The name of a result: the SHA-256 digest of everything that it depends on, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Key(String);

impl Key {
    /// Computes the digest of a value's JSON. The order of its fields is that of their declaration,
    /// so equal values have equal digests on every host.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn of(value: &impl Serialize) -> Result<Key, Error> {
        let json = serde_json::to_vec(value).map_err(|error| Error::new(error.to_string()))?;
        Ok(Key::of_bytes(&json))
    }

    /// Computes the digest of the contents of a file.
    pub fn of_bytes(bytes: &[u8]) -> Key {
        let mut text = String::new();
        for byte in Sha256::digest(bytes) {
            let _ = write!(text, "{byte:02x}");
        }
        Key(text)
    }

    /// Returns the path of the result, relative to the directory of the store. The first byte of the
    /// digest is the name of a subdirectory, because some tools are slow with very large
    /// directories.
    pub fn path(&self) -> String {
        format!("{}/{}.json", &self.0[..2], &self.0[2..])
    }
}

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
    pub fn get(&self, key: &Key) -> Option<RunResult> {
        let text = std::fs::read(self.folder.join(key.path())).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: &Key, result: &RunResult) -> Result<(), Error> {
        let text = serde_json::to_vec(result).map_err(|error| Error::new(error.to_string()))?;
        destination::write(&self.folder.join(key.path()), &text)
    }
}
