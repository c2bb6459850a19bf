// SPDX-License-Identifier: GPL-2.0-only
//! Search path of policies, machines, workloads, profiles and experiments: the working directory,
//! then the directory of the executable.

use std::path::PathBuf;

/// Returns the existing directories that may contain `name`, for example `machines`, nearest first.
pub fn folders(name: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(name), PathBuf::from("target").join(name)];
    if let Ok(exe) = std::env::current_exe() {
        // The executable is target/release/windtunnel. The repository is two levels above its
        // directory, the built policies are one level above.
        for up in exe.ancestors().skip(2).take(2) {
            found.push(up.join(name));
        }
    }
    found.dedup();
    found.retain(|folder| folder.is_dir());
    found
}
