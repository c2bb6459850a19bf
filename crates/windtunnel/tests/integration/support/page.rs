// SPDX-License-Identifier: GPL-2.0-only
//! Reads Markdown pages of the repository and divides them into fenced blocks and other lines. A
//! fenced block is the text between two lines of three backquotes.

use super::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A Markdown file of the repository.
pub struct Page {
    /// Path relative to the root of the repository, for example `docs/tutorial.md`.
    pub name: String,
    pub path: PathBuf,
    pub text: String,
}

/// A part of a page.
pub enum Part<'a> {
    /// A line outside of fenced blocks. The number of the line starts from 1.
    Line(usize, &'a str),
    Block(Block<'a>),
}

/// A fenced block.
pub struct Block<'a> {
    /// Number of the block's first line, which opens the fence. It starts from 1.
    pub line: usize,
    /// First word after the backquotes, for example `console`.
    pub language: &'a str,
    /// The words `KEY=VALUE` that follow the language.
    pub options: BTreeMap<&'a str, &'a str>,
    /// The first line of the block, which opens the fence.
    pub opening: &'a str,
    pub lines: Vec<&'a str>,
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path
            .strip_prefix(root())
            .expect("the page lies in the repository")
            .display()
            .to_string();
        Page {
            name,
            path: path.to_owned(),
            text,
        }
    }

    /// Returns the parts of the page in order.
    ///
    /// # Panics
    /// A fence is not closed, or a word after the language is not `KEY=VALUE`.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut open: Option<Block> = None;
        for (index, line) in self.text.lines().enumerate() {
            open = match (open, line.strip_prefix("```")) {
                (Some(block), Some("")) => {
                    parts.push(Part::Block(block));
                    None
                }
                (Some(mut block), _) => {
                    block.lines.push(line);
                    Some(block)
                }
                (None, Some(info)) => Some(self.block(index + 1, line, info)),
                (None, None) => {
                    parts.push(Part::Line(index + 1, line));
                    None
                }
            };
        }
        assert!(open.is_none(), "{}: a fence is not closed", self.name);
        parts
    }

    fn block<'a>(&self, line: usize, opening: &'a str, info: &'a str) -> Block<'a> {
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default();
        let option = |word: &'a str| {
            word.split_once('=')
                .unwrap_or_else(|| panic!("{}:{line}: '{word}' is not KEY=VALUE", self.name))
        };
        Block {
            line,
            language,
            options: words.map(option).collect(),
            opening,
            lines: Vec::new(),
        }
    }

    /// Returns the fenced blocks of the page.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let block = |part| match part {
            Part::Block(block) => Some(block),
            Part::Line(..) => None,
        };
        self.parts().into_iter().filter_map(block).collect()
    }

    /// Returns the lines outside of fenced blocks, with their numbers.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let line = |part| match part {
            Part::Line(number, line) => Some((number, line)),
            Part::Block(_) => None,
        };
        self.parts().into_iter().filter_map(line).collect()
    }

    /// Returns the targets of all links and pictures of the page, with their line numbers.
    pub fn links(&self) -> Vec<(usize, &str)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            // Text between backquotes is code. Only the parts outside of backquotes are searched
            // for links.
            for text in line.split('`').step_by(2) {
                let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
                links.extend(targets.map(|target| (number, target)));
            }
            // If the text of a link is code, as in [`name`](target), the target follows a
            // backquote.
            let after_code = line.split("`](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(after_code.map(|target| (number, target)));
        }
        links
    }

    /// Returns the anchors of the page's headings. Links refer to headings by these names, which
    /// GitHub and mdBook generate.
    pub fn anchors(&self) -> BTreeSet<String> {
        let heading = |(_, line): (usize, &str)| line.starts_with('#').then(|| anchor(line.trim_start_matches('#')));
        self.prose().into_iter().filter_map(heading).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Returns all Markdown files in a directory of the repository and below it, sorted by name.
pub fn pages(directory: &str) -> Vec<Page> {
    let mut found = Vec::new();
    let mut directories = vec![root().join(directory)];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for path in entries.map(|entry| entry.expect("the directory can be read").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                directories.push(path);
            } else if name.ends_with(".md") && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found.iter().map(|path| Page::read(path)).collect()
}
