// SPDX-License-Identifier: GPL-2.0-only
//! Finds the directories that contain policies, machines, workloads, profiles and experiments. The
//! working directory is searched first, then the directory of the executable and the repository
//! around it, and last the files that the command carries inside it.

use crate::errln;
use std::path::PathBuf;
use std::sync::Once;

/// Returns the existing directories called `name`, for example `machines`, in the order of the
/// search.
pub fn folders(name: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(name), PathBuf::from("target").join(name)];
    if let Ok(exe) = std::env::current_exe() {
        // The executable is target/release/windtunnel. The built policies are in a directory of
        // target, and the repository is the parent directory of target.
        for up in exe.ancestors().skip(2).take(2) {
            found.push(up.join(name));
        }
    }
    match shipped::folder() {
        Ok(folder) => found.push(folder.join(name)),
        Err(error) => {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| errln!("windtunnel: warning: the built-in files cannot be used: {error}"));
        }
    }
    found.dedup();
    found.retain(|folder| folder.is_dir());
    found
}
