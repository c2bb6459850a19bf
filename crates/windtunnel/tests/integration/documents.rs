// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the documents: the commands in them print the output that the page shows, links
//! resolve, and pages obey the rules of style.
//!
//! A fenced block is a part of a page between lines of three backquotes. Its first line (the fence)
//! determines what the test does with the block:
//!
//! | fence | test |
//! |---|---|
//! | `console` | runs the lines that begin with `$ ` and compares their output |
//! | `console head=5 tail=1` | as `console`, but the page shows only the first 5 lines and the last |
//! | `console status=1` | as `console`, but the exit status of the last command must be 1 |
//! | `console norun=live` | runs nothing; golden/documents-not-run.txt lists the commands |
//! | `toml file=my.toml` | writes the block to a file that later commands of the page read |
//!
//! `UPDATE_GOLDEN=1 cargo test -p windtunnel documents::` writes the current output of the commands
//! into the pages, and draws outdated pictures. It fails if somebody must then read the text around
//! a changed output: see the module `reading`.

mod pictures;
mod reading;

use crate::support::page::{Block, Page, Part, pages};
use crate::support::root;
use crate::support::terminal::run_on_terminal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Width of the terminal on which the commands run.
const COLUMNS: u16 = 100;
/// Languages that a fenced block may have. Commands are only allowed in `console` blocks. A test
/// therefore either runs each command or lists it as not run.
const LANGUAGES: [&str; 8] = ["c", "console", "json", "python", "sql", "text", "toml", "yaml"];
/// Reasons that a page may give why no test runs a command. `make compat` runs those of `compat`.
const REASONS: [&str; 5] = ["build", "compat", "live", "long", "screen"];
/// Directories of the repository that must exist in the working directory of the commands.
const DIRECTORIES: [&str; 9] = [
    "crates",
    "experiments",
    "labs",
    "machines",
    "policies",
    "profiles",
    "scores",
    "scripts",
    "workloads",
];
/// Maximum length of a line, except in tables and fenced blocks.
const LONGEST_LINE: usize = 100;
const LONGEST_PARAGRAPH: usize = 6;
/// Maximum number of lines in README.md, which is two screens.
const LONGEST_README: usize = 120;
/// This page consists of tables. The machine crate writes it from machines/*.toml.
const COSTS: &str = "docs/costs.md";

/// Returns the documents for users and developers. READMEs of other directories are not included.
fn documents() -> Vec<Page> {
    let top = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    let mut documents: Vec<Page> = top.iter().map(|name| Page::read(&root().join(name))).collect();
    documents.extend(pages("docs"));
    documents
}

#[test]
fn commands_print_what_the_pages_show() {
    let mut documents = documents();
    // Pages without commands that can be run are left out.
    documents.retain(|page| page.blocks().iter().any(is_run));
    // Different pages are independent of each other. Commands of one page may read files that
    // earlier commands of the page wrote.
    let refreshed: Vec<Refreshed> = std::thread::scope(|scope| {
        let threads: Vec<_> = documents.iter().map(|page| scope.spawn(|| refresh(page))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread that tests a page does not panic"))
            .collect()
    });
    let faults: Vec<&str> = refreshed
        .iter()
        .flat_map(|page| &page.faults)
        .map(String::as_str)
        .collect();
    if !updating() {
        // The next check shows the lines that differ, and ends the test.
        let changed = refreshed.iter().flat_map(|page| &page.changed).map(String::as_str);
        changed
            .chain(faults.iter().copied())
            .for_each(|message| eprintln!("{message}"));
    }
    let pages = documents.iter().zip(&refreshed);
    let pages: Vec<_> = pages.map(|(page, now)| (page.path.clone(), now.text.clone())).collect();
    golden::check_files("windtunnel", &pages);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    if updating() {
        let unread = reading::unread();
        assert!(unread.is_empty(), "{}", unread.join("\n"));
    }
}

#[test]
fn commands_that_no_test_runs_are_listed() {
    let mut list = String::new();
    for page in documents() {
        for block in page.blocks() {
            assert!(
                LANGUAGES.contains(&block.language),
                "{}:{}: the language of a block must be one of {LANGUAGES:?}, not '{}'",
                page.name,
                block.line,
                block.language
            );
            let Some(reason) = block.options.get("norun") else {
                continue;
            };
            assert!(
                REASONS.contains(reason),
                "{}:{}: the reason must be one of {REASONS:?}",
                page.name,
                block.line
            );
            for (command, _) in commands(&page, &block) {
                let _ = writeln!(list, "{reason} {}: {command}", page.name);
            }
        }
    }
    golden::check!("documents-not-run.txt", &list);
}

#[test]
fn links_resolve() {
    let mut broken = Vec::new();
    for page in pages("") {
        for (line, link) in page.links() {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.path.clone(),
                file => page.path.parent().unwrap_or(Path::new("/")).join(file),
            };
            let resolves = target.exists()
                && (anchor.is_empty()
                    || Page::read(&target.canonicalize().expect("the linked page exists"))
                        .anchors()
                        .contains(anchor));
            if !resolves {
                broken.push(format!("{}:{line}: {link}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "links without a target:\n{}", broken.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = Page::read(&root().join("docs/SUMMARY.md"));
    let folder = root().join("docs");
    let mut listed: Vec<PathBuf> = summary.links().iter().map(|(_, link)| folder.join(link)).collect();
    listed.sort();
    let twice: Vec<_> = listed.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "listed twice: {twice:?}");
    let missing: Vec<String> = pages("docs")
        .into_iter()
        .filter(|page| page.path != summary.path && !listed.contains(&page.path))
        .map(|page| page.name)
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

#[test]
fn pages_are_easy_to_read() {
    let mut faults = Vec::new();
    for page in documents().iter().filter(|page| page.name != COSTS) {
        let mut paragraph = 0;
        let mut before = 0;
        for (number, line) in page.prose() {
            let table = line.starts_with('|') || line.starts_with("<!--");
            if line.chars().count() > LONGEST_LINE && !table {
                faults.push(format!("{}:{number}: over {LONGEST_LINE} columns", page.name));
            }
            let trimmed = line.trim_start();
            let alone = trimmed.is_empty() || table || trimmed.starts_with('#');
            let item = ["- ", "* "].iter().any(|mark| trimmed.starts_with(mark)) || is_numbered(trimmed);
            paragraph = match (alone, item || number != before + 1) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => paragraph + 1,
            };
            before = number;
            if paragraph == LONGEST_PARAGRAPH + 1 {
                faults.push(format!(
                    "{}:{number}: a paragraph of over {LONGEST_PARAGRAPH} lines",
                    page.name
                ));
            }
        }
    }
    let readme = Page::read(&root().join("README.md")).text.lines().count();
    if readme > LONGEST_README {
        faults.push(format!("README.md has {readme} lines, more than {LONGEST_README}"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn reference_pages_and_man_pages_show_the_options_of_the_command() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents/generated");
    let ran = crate::support::windtunnel(&["docs", &directory.display().to_string()]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let entries = std::fs::read_dir(directory.join("commands")).expect("the directory of reference pages exists");
    let page = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).expect("the page exists");
        (root().join("docs/commands").join(entry.file_name()), text)
    };
    let pages = entries.map(|entry| page(entry.expect("the directory can be read")));
    golden::check_files("windtunnel", &pages.collect::<Vec<_>>());
    let manual = std::fs::read_to_string(directory.join("man/windtunnel-run.1")).expect("the man page exists");
    assert!(
        manual.contains(".TH windtunnel\\-run 1") || manual.contains(".TH windtunnel-run 1"),
        "{manual}"
    );
    assert!(manual.contains("machine"), "{manual}");
    // The commands that other programs execute have man pages with their options, too.
    for (name, option) in [
        ("windtunnel-run", "machine"),
        ("windtunnel-tune", "held"),
        ("windtunnel-mcp", "files"),
        ("windtunnel-live", "compare"),
        ("windtunnel-live-record", "buffer"),
        ("windtunnel-policy-show", "json"),
    ] {
        let path = directory.join(format!("man/{name}.1"));
        let manual = std::fs::read_to_string(&path).expect("the man page exists");
        assert!(manual.contains(option), "{name}: {manual}");
        assert!(manual.contains(".SH EXAMPLES"), "{name}: {manual}");
    }
}

#[test]
fn the_citation_names_this_version() {
    let citation = std::fs::read_to_string(root().join("CITATION.cff")).expect("the citation exists");
    let version = format!("version: {}", env!("CARGO_PKG_VERSION"));
    assert!(
        citation.lines().any(|line| line == version),
        "CITATION.cff lacks '{version}'"
    );
}

#[test]
fn completion_scripts_ask_the_command() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = crate::support::windtunnel(&["completions", shell]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        assert!(
            ran.stdout.contains("COMPLETE") && ran.stdout.contains("windtunnel"),
            "{shell}: {}",
            ran.stdout
        );
    }
}

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

/// Returns whether a test runs the commands of a fenced block.
fn is_run(block: &Block) -> bool {
    block.language == "console" && !block.options.contains_key("norun")
}

fn is_numbered(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(". ")
}

/// A page with the outputs that its commands print now.
struct Refreshed {
    text: String,
    /// Messages about the blocks whose output differs from that on the page.
    changed: Vec<String>,
    /// Messages about commands that ended with an unexpected exit status.
    faults: Vec<String>,
}

/// Runs the commands of a page.
fn refresh(page: &Page) -> Refreshed {
    let directory = directory(page);
    let mut text = String::new();
    let (mut changed, mut faults) = (Vec::new(), Vec::new());
    for part in page.parts() {
        match part {
            Part::Line(_, line) => text += &format!("{line}\n"),
            Part::Block(block) => {
                if let Some(file) = block.options.get("file") {
                    std::fs::write(directory.join(file), block.lines.join("\n") + "\n")
                        .expect("the page's file can be written");
                }
                text += &format!("{}\n", block.opening);
                let shown: String = block.lines.iter().map(|line| format!("{line}\n")).collect();
                let now = match is_run(&block) {
                    true => run_block(page, &block, &directory, &mut faults),
                    false => shown.clone(),
                };
                if now != shown {
                    let command = block.lines.first().copied().unwrap_or_default();
                    changed.push(format!("{}:{}: the output differs: {command}", page.name, block.line));
                }
                text += &now;
                text += "```\n";
            }
        }
    }
    Refreshed { text, changed, faults }
}

/// Creates an empty working directory for the commands of a page. It contains links to the
/// repository's directories.
fn directory(page: &Page) -> PathBuf {
    let name = page.name.replace(['/', '.'], "-");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory).expect("the directory of an earlier test can be removed");
    }
    std::fs::create_dir_all(&directory).expect("the directory can be created");
    for name in DIRECTORIES {
        std::os::unix::fs::symlink(root().join(name), directory.join(name)).expect("the link can be created");
    }
    directory
}

/// Returns the commands of a fenced block. For each command, also returns the lines of the page
/// that show the command.
fn commands<'a>(page: &Page, block: &Block<'a>) -> Vec<(String, Vec<&'a str>)> {
    let mut commands: Vec<(String, Vec<&str>)> = Vec::new();
    for line in &block.lines {
        let continued = commands.last().is_some_and(|(command, _)| command.ends_with('\\'));
        match (line.strip_prefix("$ "), line.strip_prefix("> ")) {
            (Some(command), _) => commands.push((command.to_owned(), vec![line])),
            (None, Some(more)) if continued => {
                let (command, lines) = commands.last_mut().expect("a command precedes the continued line");
                command.pop();
                *command += more.trim_start();
                lines.push(line);
            }
            _ => {}
        }
    }
    assert!(
        !commands.is_empty(),
        "{}:{}: a console block needs a command: `$ COMMAND`",
        page.name,
        block.line
    );
    commands
}

/// Runs the commands of a fenced block. Returns the commands and their output in the form that the
/// page shows.
fn run_block(page: &Page, block: &Block, directory: &Path, faults: &mut Vec<String>) -> String {
    let number = |name: &str| {
        let value = block.options.get(name)?;
        Some(
            value
                .parse::<usize>()
                .unwrap_or_else(|_| panic!("{}:{}: {name}={value}", page.name, block.line)),
        )
    };
    let commands = commands(page, block);
    let last = commands.len() - 1;
    let mut text = String::new();
    for (index, (command, lines)) in commands.into_iter().enumerate() {
        let expected = if index == last {
            number("status").unwrap_or(0)
        } else {
            0
        };
        let (status, output) = run(&command, directory);
        if status != expected as i32 {
            let place = format!("{}:{}", page.name, block.line);
            faults.push(format!(
                "{place}: the exit status is {status}, expected {expected}: {command}\n{output}"
            ));
        }
        lines.iter().for_each(|line| text += &format!("{line}\n"));
        shortened(&output, number("head"), number("tail"))
            .iter()
            .for_each(|line| text += &format!("{line}\n"));
    }
    text
}

/// Returns the first and the last lines of an output. If lines between them are left out, `...`
/// takes their place.
fn shortened(output: &str, head: Option<usize>, tail: Option<usize>) -> Vec<String> {
    let lines: Vec<String> = output.lines().map(|line| line.trim_end().to_owned()).collect();
    let kept = (head.unwrap_or(0), tail.unwrap_or(0));
    if (head, tail) == (None, None) || kept.0 + kept.1 >= lines.len() {
        return lines;
    }
    let mut short = lines[..kept.0].to_vec();
    short.push("...".to_owned());
    short.extend_from_slice(&lines[lines.len() - kept.1..]);
    short
}

/// Runs a command in a shell whose standard output is a terminal. Returns the exit status, and a
/// text that consists of standard output followed by standard error.
fn run(command: &str, directory: &Path) -> (i32, String) {
    let built = Path::new(env!("CARGO_BIN_EXE_windtunnel"))
        .parent()
        .expect("the path has a parent directory");
    let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).env("PATH", path);
    // If make runs the tests, a make in a page would print its directory.
    for name in [
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "UPDATE_GOLDEN",
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
    ] {
        shell.env_remove(name);
    }
    shell.env("TERM", "xterm").env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
    shell.stderr(Stdio::piped());
    let (status, text) = run_on_terminal(shell, 50, COLUMNS);
    // Removes the path of the repository, because the pages must not depend on it.
    let text = text
        .replace(&format!("{}/", directory.display()), "")
        .replace(&format!("{}/", root().display()), "");
    (status, text)
}
