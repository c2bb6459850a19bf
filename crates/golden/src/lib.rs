// SPDX-License-Identifier: GPL-2.0-only
//! Compares texts that tests produce with committed texts. The committed text is a golden file or a
//! section of a document.
//!
//! `golden::check!("table.txt", &text)` compares a text with the file `tests/golden/table.txt` of
//! the package. If the texts differ, the test fails. The message shows the lines that differ, and a
//! command that accepts the new text. This command sets `UPDATE_GOLDEN=1`. The check then writes
//! the new text to the file instead of comparing the texts.
//!
//! A test that cannot run on this host, for example because a program is missing, passes, but calls
//! `golden::skip!("lstopo is not installed")`. `make test` lists these tests.

use similar::TextDiff;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Number of lines that a message shows before and after each difference.
const CONTEXT: usize = 2;
/// Maximum number of lines that a message shows of one file.
const MAX_LINES: usize = 100;

/// Compares a text with a file in the directory `tests/golden` of the package.
#[macro_export]
macro_rules! check {
    ($name:expr, $text:expr $(,)?) => {
        $crate::check_file(
            env!("CARGO_PKG_NAME"),
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
                .join($name)
                .as_path(),
            $text,
        )
    };
}

/// Compares a text with a section of a document. The section is between the lines `<!-- MARK -->`
/// and `<!-- end -->`. The path is relative to the package's directory.
#[macro_export]
macro_rules! check_section {
    ($path:expr, $mark:expr, $text:expr $(,)?) => {
        $crate::check_section_in(
            env!("CARGO_PKG_NAME"),
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($path).as_path(),
            $mark,
            $text,
        )
    };
}

/// Reports that the running test is skipped, and why.
#[macro_export]
macro_rules! skip {
    ($reason:expr $(,)?) => {
        $crate::report_skipped(env!("CARGO_PKG_NAME"), $reason)
    };
}

/// Prints that the running test of a package is skipped. If the environment variable SKIPPED_TESTS
/// names a file, also appends the line to this file, because a passing test's output is not shown.
pub fn report_skipped(package: &str, reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {package} {}: {reason}\n", thread.name().unwrap_or_default());
    eprint!("{line}");
    if let Some(path) = std::env::var_os("SKIPPED_TESTS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file that SKIPPED_TESTS names can be written");
    }
}

/// Compares a text with a section of a document. `package` is the package that contains the test.
///
/// # Panics
/// The texts differ, or the document has no such section.
#[track_caller]
pub fn check_section_in(package: &str, path: &Path, mark: &str, text: &str) {
    let document = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let begin = format!("<!-- {mark} -->\n");
    let Some((before, (_, after))) = document
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once("<!-- end -->")?)))
    else {
        panic!(
            "{}: there is no section between {begin}and <!-- end -->",
            path.display()
        );
    };
    check_file(package, path, &format!("{before}{begin}{text}<!-- end -->{after}"));
}

/// Compares a text with a file. `package` is the package that contains the test.
///
/// # Panics
/// The texts differ, or the file cannot be written.
#[track_caller]
pub fn check_file(package: &str, path: &Path, text: &str) {
    check_files(package, &[(path.to_owned(), text.to_owned())]);
}

/// Compares several texts with their files. The message shows the differences of all files.
/// `package` is the package that contains the test.
///
/// # Panics
/// A text differs, or a file cannot be written.
#[track_caller]
pub fn check_files(package: &str, files: &[(PathBuf, String)]) {
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        for (path, text) in files {
            std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        return;
    }
    let thread = std::thread::current();
    // The thread in which a test runs has the name of the test.
    let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
    if let Some(message) = mismatches(files) {
        let caller = std::panic::Location::caller();
        eprintln!("{message}\n{caller} compares the texts.");
        eprintln!("To accept the new text: UPDATE_GOLDEN=1 cargo test -p {package} {test}");
        // Unlike `panic!`, this prints no backtrace, which would hide the command above.
        std::panic::resume_unwind(Box::new("the texts differ"));
    }
}

/// Compares texts with files. Returns a message about all that differ.
fn mismatches(files: &[(PathBuf, String)]) -> Option<String> {
    let messages: Vec<String> = files.iter().filter_map(|(path, text)| mismatch(path, text)).collect();
    (!messages.is_empty()).then(|| messages.join("\n"))
}

/// Compares a text with a file. If they differ, or if the file cannot be read, returns a message.
fn mismatch(path: &Path, text: &str) -> Option<String> {
    let golden = match std::fs::read_to_string(path) {
        Ok(golden) => golden,
        Err(error) => return Some(format!("{} cannot be read: {error}", relative(path))),
    };
    let lines = || difference(&golden, text);
    (golden != text).then(|| format!("{} differs (- committed, + now):\n{}", relative(path), lines()))
}

/// Returns a path relative to the repository.
fn relative(path: &Path) -> String {
    let full = || {
        let folder = path.parent()?.canonicalize().ok()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .ok()?;
        Some(folder.strip_prefix(root).ok()?.join(path.file_name()?))
    };
    full().unwrap_or_else(|| path.to_owned()).display().to_string()
}

/// Returns the lines that differ, and some lines around them. A line of `old` is marked with `-`, a
/// line of `new` with `+`.
pub fn difference(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let text = diff.unified_diff().context_radius(CONTEXT).to_string();
    let mut lines: Vec<&str> = text.lines().take(MAX_LINES + 1).collect();
    if lines.len() > MAX_LINES {
        lines[MAX_LINES] = "... and more";
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_some_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = old.replace("3\n", "three\n").replace("10\n", "9.5\n10\n");
        let shown = difference(old, &new);
        for line in ["-3", "+three", "+9.5", " 2", " 11"] {
            assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
        }
        assert!(!shown.lines().any(|line| line == " 6"), "{shown}");
        assert!(difference("a", "a\n").contains("No newline at end of file"));
        let long = difference("", &"x\n".repeat(1000));
        assert_eq!(long.lines().count(), MAX_LINES + 1);
    }

    #[test]
    fn a_difference_names_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).expect("the test's source exists");
        assert_eq!(mismatch(&path, &text), None);
        let message = mismatch(&path, &text.replace("golden", "silver")).expect("the texts differ");
        assert!(message.starts_with("crates/golden/Cargo.toml differs"), "{message}");
        let missing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/missing.md");
        let absent = mismatch(&missing, "").expect("a missing file is an error, even for an empty text");
        assert!(absent.starts_with("docs/missing.md cannot be read: "), "{absent}");
        assert_eq!(relative(&missing), "docs/missing.md");
        assert!(
            message.contains("-name = \"golden\"\n+name = \"silver\"\n"),
            "{message}"
        );
    }

    #[test]
    fn all_files_that_differ_are_named() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = |name: &str| {
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path).expect("the file exists");
            (path, text)
        };
        let [mut manifest, mut source, other] = ["Cargo.toml", "src/lib.rs", "../random/Cargo.toml"].map(file);
        assert_eq!(mismatches(&[manifest.clone(), source.clone(), other.clone()]), None);
        manifest.1 += "more\n";
        source.1 += "more\n";
        let message = mismatches(&[manifest, other, source]).expect("two texts differ");
        for name in ["Cargo.toml", "src/lib.rs"] {
            assert!(message.contains(&format!("crates/golden/{name} differs")), "{message}");
        }
        assert!(!message.contains("crates/random"), "{message}");
    }
}
