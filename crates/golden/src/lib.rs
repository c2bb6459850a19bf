// SPDX-License-Identifier: GPL-2.0-only
//! Compares the text that a test produces with committed text: a golden file, or a section of a document.
//!
//! `golden::check!("table.txt", &text)` compares with `tests/golden/table.txt` of the package. A difference fails the test,
//! and the message shows the lines that differ and the command that accepts them. That command sets `UPDATE_GOLDEN=1`,
//! with which the text is written instead of compared.

use similar::TextDiff;
use std::path::Path;

/// Lines shown before and after each difference.
const CONTEXT: usize = 2;
/// Lines shown in all; the rest is in the file once the text is accepted.
const MOST_SHOWN: usize = 100;

/// Compares a text with the file of this name in the package's `tests/golden`.
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

/// Compares a text with the section of a document between `<!-- MARK -->` and `<!-- end -->`, each on a line of its own.
/// The document is a file of the repository; its path begins at the package's folder.
#[macro_export]
macro_rules! check_section {
    ($path:expr, $mark:expr, $text:expr $(,)?) => {
        $crate::check_section_of(
            env!("CARGO_PKG_NAME"),
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($path).as_path(),
            $mark,
            $text,
        )
    };
}

/// Compares a text with a section of a document; `package` is the package whose test compares.
///
/// # Panics
/// If they differ, or if the document has no such section.
#[track_caller]
pub fn check_section_of(package: &str, path: &Path, mark: &str, text: &str) {
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

/// Compares a text with a file; `package` is the package whose test compares.
///
/// # Panics
/// If they differ, or if the file cannot be written.
#[track_caller]
pub fn check_file(package: &str, path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let thread = std::thread::current();
    // The test harness names a test's thread after the test.
    let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
    if let Some(message) = disagreement(path, text) {
        panic!("{message}\nTo accept the new text: UPDATE_GOLDEN=1 cargo test -p {package} {test}");
    }
}

/// Returns how a text differs from a file, if it does. A file that does not exist is empty.
fn disagreement(path: &Path, text: &str) -> Option<String> {
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let lines = || difference(&golden, text);
    (golden != text).then(|| format!("{} differs (- committed, + now):\n{}", path.display(), lines()))
}

/// Returns the lines that differ, `-` before those of `old` and `+` before those of `new`, with some lines around them.
pub fn difference(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let text = diff.unified_diff().context_radius(CONTEXT).to_string();
    let mut lines: Vec<&str> = text.lines().take(MOST_SHOWN + 1).collect();
    if lines.len() > MOST_SHOWN {
        lines[MOST_SHOWN] = "... and more";
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_that_differ_are_shown_with_lines_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = old.replace("3\n", "three\n").replace("10\n", "9.5\n10\n");
        let shown = difference(old, &new);
        for line in ["-3", "+three", "+9.5", " 2", " 11"] {
            assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
        }
        assert!(!shown.lines().any(|line| line == " 6"), "{shown}");
        assert!(difference("a", "a\n").contains("No newline at end of file"));
        let long = difference("", &"x\n".repeat(1000));
        assert_eq!(long.lines().count(), MOST_SHOWN + 1);
    }

    #[test]
    fn a_difference_names_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).expect("this package's file");
        assert_eq!(disagreement(&path, &text), None);
        let message = disagreement(&path, &text.replace("golden", "silver")).expect("a disagreement");
        assert!(message.contains("golden/Cargo.toml differs"), "{message}");
        assert!(
            message.contains("-name = \"golden\"\n+name = \"silver\"\n"),
            "{message}"
        );
    }
}
