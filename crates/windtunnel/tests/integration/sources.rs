// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the source files of all crates.

use crate::support::root;
use std::path::Path;

/// Maximum number of lines of a file, except files of tests.
const LONGEST_FILE: usize = 500;

#[test]
fn files_of_logic_are_short() {
    let mut faults = Vec::new();
    for package in std::fs::read_dir(root().join("crates"))
        .expect("the directory of crates exists")
        .flatten()
    {
        visit(&package.path().join("src"), &mut faults);
    }
    faults.sort();
    assert!(
        faults.is_empty(),
        "\n{}\nDivide a file with more than {LONGEST_FILE} lines by subject, or move its tests to tests.rs.",
        faults.join("\n")
    );
}

/// Adds a message about each file in a directory that is too long.
fn visit(folder: &Path, faults: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if path.is_dir() && !is_test(&path) {
            visit(&path, faults);
        } else if is_rust && !is_test(&path) {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let lines = text.lines().count();
            if lines > LONGEST_FILE {
                let name = path.strip_prefix(root()).unwrap_or(&path).display();
                faults.push(format!("{name} has {lines} lines"));
            }
        }
    }
}

/// Returns whether a file or directory contains only tests.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests" || stem == "testbed" || stem.starts_with("test_") || stem.ends_with("_tests")
}

#[test]
fn files_of_tests_are_known_by_their_names() {
    for name in [
        "src/tests.rs",
        "src/fair/tests",
        "src/testbed.rs",
        "src/test_case.rs",
        "src/ring_tests.rs",
    ] {
        assert!(is_test(Path::new(name)), "{name}");
    }
    for name in ["tests/src", "src/lib.rs", "src/untested", "src/testing.rs"] {
        assert!(!is_test(Path::new(name)), "{name}");
    }
}
