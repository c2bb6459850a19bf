// SPDX-License-Identifier: GPL-2.0-only
//! Makes sure that somebody reads the text of a page again when an output on the page changes.
//!
//! `UPDATE_GOLDEN=1` refreshes outputs, but no program can tell whether the sentences around them
//! are still true. The last line of a page therefore records the checksums of the outputs that its
//! text was read against:
//!
//!     <!-- The text was read against the outputs 1cc3874c 426074f5. -->
//!
//! An output is a block of commands that a test runs, or a section that a program writes (the lines
//! between `<!-- NAME -->` and `<!-- end -->`). `make read PAGE=docs/tutorial.md` records the
//! present outputs. Refreshing the outputs leaves the record as it is.

use super::{is_run, updating};
use crate::support::page::{Page, pages};
use crate::support::root;
use std::fmt::Write as _;

const RECORD: &str = "<!-- The text was read against the outputs ";
const RECORD_END: &str = ". -->";
/// Environment variable in which `make read` passes the names of pages, separated by spaces.
const PAGES_READ: &str = "PAGES_READ";

struct Output {
    /// Number of the first line, from 1.
    line: usize,
    /// First command of a block, or the name of a section.
    name: String,
    /// CRC-32 of the lines, in hexadecimal.
    checksum: String,
}

/// Returns a message about each page whose outputs differ from its record.
pub fn unread() -> Vec<String> {
    readable_pages().iter().filter_map(fault).collect()
}

/// Returns all pages except the READMEs of experiments, whose records name measured.csv instead.
fn readable_pages() -> Vec<Page> {
    let mut pages = pages("");
    pages.retain(|page| !page.path.with_file_name("measured.csv").exists());
    pages
}

fn outputs(page: &Page) -> Vec<Output> {
    let mut found = sections(page);
    let ranges: Vec<_> = found.iter().map(|(range, _)| range.clone()).collect();
    let blocks = page.blocks().into_iter().filter(is_run);
    for block in blocks.filter(|block| ranges.iter().all(|range| !range.contains(&block.line))) {
        let name = block.lines.first().copied().unwrap_or_default().to_owned();
        let output = Output {
            line: block.line,
            name,
            checksum: checksum(&block.lines),
        };
        found.push((block.line..block.line, output));
    }
    found.sort_by_key(|(_, output)| output.line);
    found.into_iter().map(|(_, output)| output).collect()
}

/// Returns the sections that programs write, each with the range of its lines.
fn sections(page: &Page) -> Vec<(std::ops::Range<usize>, Output)> {
    let lines: Vec<&str> = page.text.lines().collect();
    let mut found = Vec::new();
    let mut start = None;
    for (index, line) in lines.iter().enumerate() {
        match (start, mark(line)) {
            (Some((first, name)), Some("end")) => {
                let output = Output {
                    line: first + 1,
                    name: format!("section '{name}'"),
                    checksum: checksum(&lines[first + 1..index]),
                };
                found.push((first + 1..index + 1, output));
                start = None;
            }
            (_, Some(name)) => start = Some((index, name)),
            _ => {}
        }
    }
    found
}

/// Returns the name in a line `<!-- NAME -->`.
fn mark(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

fn checksum(lines: &[&str]) -> String {
    let mut check = flate2::Crc::new();
    for line in lines {
        check.update(line.as_bytes());
        check.update(b"\n");
    }
    format!("{:08x}", check.sum())
}

/// Returns the checksums in the record of a page, which is its last line.
fn record(page: &Page) -> Option<Vec<&str>> {
    let sums = page
        .text
        .lines()
        .last()?
        .strip_prefix(RECORD)?
        .strip_suffix(RECORD_END)?;
    Some(sums.split_whitespace().collect())
}

fn fault(page: &Page) -> Option<String> {
    let outputs = outputs(page);
    let recorded = record(page);
    let now: Vec<&str> = outputs.iter().map(|output| output.checksum.as_str()).collect();
    if recorded.clone().unwrap_or_default() == now {
        return None;
    }
    let known = recorded.unwrap_or_default();
    let mut message = format!("{}: the outputs have changed since the text was read:\n", page.name);
    for output in &outputs {
        if !known.contains(&output.checksum.as_str()) {
            let _ = writeln!(message, "  {}:{}: {}", page.name, output.line, output.name);
        }
    }
    let gone = known.iter().filter(|sum| !now.contains(sum)).count();
    let changed = outputs.len() - now.iter().filter(|sum| known.contains(sum)).count();
    if gone > changed {
        let _ = writeln!(message, "  outputs that the page no longer has: {}", gone - changed);
    }
    let _ = write!(
        message,
        "  Read the text, correct it, and record that it is true: make read PAGE={}",
        page.name
    );
    Some(message)
}

/// Returns the text of a page with a record of its present outputs.
fn with_record(page: &Page) -> String {
    let outputs = outputs(page);
    let text = match record(page) {
        Some(_) => page.text.trim_end().rsplit_once('\n').map_or("", |(before, _)| before),
        None => &page.text,
    };
    let text = text.trim_end();
    if outputs.is_empty() {
        return format!("{text}\n");
    }
    let sums: Vec<&str> = outputs.iter().map(|output| output.checksum.as_str()).collect();
    format!("{text}\n\n{RECORD}{}{RECORD_END}\n", sums.join(" "))
}

#[test]
fn the_text_of_each_page_was_read_against_its_outputs() {
    let read = std::env::var(PAGES_READ).unwrap_or_default();
    for name in read.split_whitespace() {
        let page = readable_pages().into_iter().find(|page| page.name == name);
        let page = page.unwrap_or_else(|| panic!("there is no page '{name}'; PAGE is a path such as docs/tutorial.md"));
        std::fs::write(&page.path, with_record(&page)).expect("the page can be written");
        println!("{name}: read against {} outputs", outputs(&page).len());
    }
    // While UPDATE_GOLDEN=1 rewrites outputs, the test that rewrites them also looks for unread
    // text.
    if read.is_empty() && !updating() {
        let unread = unread();
        assert!(unread.is_empty(), "{}", unread.join("\n"));
    }
}

fn example(text: &str) -> Page {
    Page {
        name: "docs/example.md".to_owned(),
        path: root().join("docs/example.md"),
        text: text.to_owned(),
    }
}

const EXAMPLE: &str = "Two CPUs.\n\n```console\n$ nproc\n2\n```\n\n```console norun=live\n$ uname\n```\n\n\
    <!-- table -->\n| a |\n<!-- end -->\n";

#[test]
fn a_changed_output_is_named_until_the_text_has_been_read() {
    let fresh = example(EXAMPLE);
    let missing = fault(&fresh).expect("a page with outputs needs a record");
    assert!(missing.contains("docs/example.md:3: $ nproc"), "{missing}");
    assert!(missing.contains("docs/example.md:12: section 'table'"), "{missing}");

    let read = example(&with_record(&fresh));
    assert_eq!(fault(&read), None);
    assert_eq!(with_record(&read), read.text, "a second reading changes nothing");

    let changed = example(&read.text.replace("2\n", "4\n"));
    let message = fault(&changed).expect("an output has changed");
    assert!(message.contains("docs/example.md:3: $ nproc"), "{message}");
    assert!(!message.contains("table"), "{message}");
    assert!(message.contains("make read PAGE=docs/example.md"), "{message}");
    assert_eq!(fault(&example(&with_record(&changed))), None);

    let section = example(&read.text.replace("| a |", "| b |"));
    let message = fault(&section).expect("a section has changed");
    assert!(
        message.contains("section 'table'") && !message.contains("nproc"),
        "{message}"
    );
}

#[test]
fn text_and_blocks_that_no_test_runs_need_no_new_reading() {
    let read = with_record(&example(EXAMPLE));
    let edited = read
        .replace("Two CPUs.", "The host has two CPUs.")
        .replace("uname", "id");
    assert_eq!(fault(&example(&edited)), None);
    assert_eq!(fault(&example("Nothing is run.\n")), None);
}

#[test]
fn a_removed_output_needs_a_new_reading() {
    let read = with_record(&example(EXAMPLE));
    let removed = example(&read.replace("```console\n$ nproc\n2\n```\n", ""));
    let message = fault(&removed).expect("an output is gone");
    assert!(message.contains("outputs that the page no longer has: 1"), "{message}");
    let none = example(&with_record(&example("Text.\n")));
    assert_eq!(none.text, "Text.\n", "a page without outputs has no record");
    let (head, record) = read.trim_end().rsplit_once('\n').expect("the record is the last line");
    assert!(head.contains("end"));
    let emptied = example(&format!("Text.\n\n{record}\n"));
    assert_eq!(with_record(&emptied), "Text.\n");
}
