// SPDX-License-Identifier: GPL-2.0-only
//! The files of /sys and /proc that the program sees.

use super::Entry;
use std::collections::BTreeMap;

/// Files by their absolute paths. A directory exists if a file lies in it.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

/// What is at a path.
pub(crate) enum Found<'a> {
    File(&'a [u8]),
    Dir,
}

impl Tree {
    pub fn insert(&mut self, path: impl Into<String>, contents: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), contents.into());
    }

    pub fn find(&self, path: &str) -> Option<Found<'_>> {
        if let Some(contents) = self.files.get(path) {
            return Some(Found::File(contents));
        }
        let inside = directory(path);
        let next = self.files.range(inside.clone()..).next();
        next.filter(|(path, _)| path.starts_with(&inside)).map(|_| Found::Dir)
    }

    /// Returns the entries of a directory in the order of their names.
    pub fn entries(&self, path: &str) -> Vec<Entry> {
        let inside = directory(path);
        let mut entries: Vec<Entry> = Vec::new();
        for path in self.files.range(inside.clone()..).map(|(path, _)| path) {
            let Some(rest) = path.strip_prefix(&inside) else { break };
            let (name, is_dir) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
            if entries.last().is_none_or(|(last, _)| last != name) {
                entries.push((name.to_owned(), is_dir));
            }
        }
        entries
    }
}

fn directory(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}

/// Makes a path absolute, and removes `.` and `..`.
pub(crate) fn absolute(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_follow_from_files() {
        let mut tree = Tree::default();
        for path in ["/sys/a/one", "/sys/a/two/x", "/sys/a/two/y", "/sys/ab"] {
            tree.insert(path, "1\n");
        }
        assert!(matches!(tree.find("/sys/a"), Some(Found::Dir)));
        assert!(matches!(tree.find("/sys/ab"), Some(Found::File(b"1\n"))));
        assert!(tree.find("/sys/b").is_none());
        let entries = [("one".to_owned(), false), ("two".to_owned(), true)];
        assert_eq!(tree.entries("/sys/a"), entries);
        assert_eq!(tree.entries("/sys").len(), 2);
    }

    #[test]
    fn paths_become_absolute() {
        assert_eq!(absolute("/sys/../etc/./passwd"), "/etc/passwd");
        assert_eq!(absolute("a//b/"), "/a/b");
        assert_eq!(absolute("/../.."), "/");
    }
}
