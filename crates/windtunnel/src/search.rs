// SPDX-License-Identifier: GPL-2.0-only
//! Where named things are looked for: below the working directory, then beside the command.

use std::path::PathBuf;

/// Folders that may hold `name` (policies, machines, workloads, profiles), nearest first.
pub fn folders(name: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(name), PathBuf::from("target").join(name)];
    if let Ok(exe) = std::env::current_exe() {
        // target/release/windtunnel: the repository's folder is two levels up, built policies one.
        for up in exe.ancestors().skip(2).take(2) {
            found.push(up.join(name));
        }
    }
    found.dedup();
    found.retain(|folder| folder.is_dir());
    found
}
