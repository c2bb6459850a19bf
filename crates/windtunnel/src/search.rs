// SPDX-License-Identifier: GPL-2.0-only
//! Where named things are looked for: below the working directory, then beside the command.

use std::path::PathBuf;

/// The known name that looks most like `name`, if one is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known
        .into_iter()
        .map(|known| (strsim::osa_distance(name, known), known));
    let near = distances.filter(|&(distance, known)| distance <= 1 + name.len().min(known.len()) / 3);
    near.min().map(|(_, known)| known)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant_if_it_is_near() {
        let known = ["fifo", "o1", "pmqs", "pmqs/table1", "vtime"];
        assert_eq!(nearest("ffio", known), Some("fifo"));
        assert_eq!(nearest("vtimes", known), Some("vtime"));
        assert_eq!(nearest("pmsq/table1", known), Some("pmqs/table1"));
        assert_eq!(nearest("something", known), None);
    }
}
