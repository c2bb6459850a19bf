// SPDX-License-Identifier: GPL-2.0-only
//! Finds the directories that contain policies, machines, workloads, profiles and experiments. The
//! working directory is searched first, then the directory of the executable and the repository
//! around it.

use std::path::PathBuf;

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
    found.dedup();
    found.retain(|folder| folder.is_dir());
    found
}
