// SPDX-License-Identifier: GPL-2.0-only
//! The files of /sys and /proc that the program sees.

use super::Entry;
use std::collections::BTreeMap;

/// Files by their absolute paths, and the directories above them.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    /// The names in each directory, and whether they are directories. A machine of 256 CPUs has 6500
    /// files below one directory, and programs list that directory hundreds of times.
    directories: BTreeMap<String, BTreeMap<String, bool>>,
}

/// A file or directory of the tree.
pub(crate) enum Found<'a> {
    File(&'a [u8]),
    Dir,
}

impl Tree {
    pub fn insert(&mut self, path: impl Into<String>, contents: impl Into<Vec<u8>>) {
        let path = path.into();
        let (mut rest, mut is_dir) = (path.as_str(), false);
        while let Some((above, name)) = rest.rsplit_once('/') {
            let names = self.directories.entry(above.to_owned()).or_default();
            if names.insert(name.to_owned(), is_dir).is_some() {
                break;
            }
            (rest, is_dir) = (above, true);
        }
        self.files.insert(path, contents.into());
    }

    /// Removes a directory that is not empty, with everything below it.
    pub fn remove(&mut self, dir: &str) {
        let below = |path: &String| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        self.files.retain(|path, _| !below(path));
        self.directories.retain(|path, _| path != dir && !below(path));
    }

    pub fn find(&self, path: &str) -> Option<Found<'_>> {
        match self.files.get(path) {
            Some(contents) => Some(Found::File(contents)),
            None => self.directories.contains_key(directory(path)).then_some(Found::Dir),
        }
    }

    /// Returns the entries of a directory in the order of their names.
    pub fn entries(&self, path: &str) -> Vec<Entry> {
        let names = self.directories.get(directory(path)).into_iter().flatten();
        names.map(|(name, &is_dir)| (name.clone(), is_dir)).collect()
    }
}

/// Returns the key of a directory in [`Tree::directories`]. That of `/` is empty.
fn directory(path: &str) -> &str {
    path.trim_end_matches('/')
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
        assert_eq!(tree.entries("/"), [("sys".to_owned(), true)]);
        assert!(tree.entries("/proc").is_empty());
        tree.remove("/sys/a");
        assert!(tree.find("/sys/a/two/x").is_none());
        tree.insert("/sys/a/two/z", "1\n");
        assert_eq!(tree.entries("/sys/a"), [("two".to_owned(), true)]);
        assert_eq!(tree.entries("/sys").len(), 2);
    }

    #[test]
    fn paths_become_absolute() {
        assert_eq!(absolute("/sys/../etc/./passwd"), "/etc/passwd");
        assert_eq!(absolute("a//b/"), "/a/b");
        assert_eq!(absolute("/../.."), "/");
    }
}
