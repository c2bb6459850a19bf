// SPDX-License-Identifier: GPL-2.0-only
//! Hand-written hostile texts of the formats that windtunnel reads. They are in `texts/*.toml`, with
//! what the result of reading and running them must contain:
//!
//! ```toml
//! [frames]
//! tasks = '{"tasks": {@}}'
//!
//! [plain]
//! "deep lists" = ["refused", '«100000|[»«100000|]»']
//!
//! [tasks]                          # these texts replace the @ of the frame
//! "negative time" = ["refused", '"t": {"run": -5}']
//! ```
//!
//! `«COUNT SEPARATOR|PART»` stands for many copies of a part, with a separator (often none) between
//! them. In the part, `{n}` is the number of the copy, from 0. `{n+1%100}` calculates from left to
//! right, and `set` at the end makes the bitmap that contains only this number, as hwloc writes it.

use crate::readers;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A hostile text.
pub struct Text {
    pub name: String,
    pub text: String,
    /// Text that the result of reading or running must contain.
    pub expected: String,
    run: Run,
}

/// Reads and runs a text. Returns the result.
type Run = fn(&str) -> String;

/// The files, with the functions that read and run their texts.
const FILES: [(&str, Run); 6] = [
    (include_str!("../texts/machines.toml"), readers::machine),
    (include_str!("../texts/workloads.toml"), readers::workload),
    (include_str!("../texts/profiles.toml"), readers::profile),
    (include_str!("../texts/suites.toml"), readers::suite),
    (include_str!("../texts/recordings.toml"), readers::recording),
    (include_str!("../texts/dumps.toml"), readers::dump),
];

#[derive(Deserialize)]
struct File {
    frames: BTreeMap<String, String>,
    /// For each frame, the names of texts, and their expected results and contents.
    #[serde(flatten)]
    texts: BTreeMap<String, BTreeMap<String, (String, String)>>,
}

/// Reads and runs the text with this index. Returns the result, for example `refused: ...`.
pub fn run(index: u64) -> String {
    match texts().get(index as usize) {
        Some(text) => (text.run)(&text.text),
        None => "no such text".to_owned(),
    }
}

/// Returns all texts.
///
/// # Panics
/// A file in `texts` has a mistake.
pub fn texts() -> Vec<Text> {
    let mut all = Vec::new();
    for (file, run) in FILES {
        let File { frames, texts } = toml::from_str(file).unwrap_or_else(|error| panic!("{error}"));
        for (frame, texts) in texts {
            let frame = match frame.as_str() {
                "plain" => "@",
                name => frames.get(name).unwrap_or_else(|| panic!("there is no frame '{name}'")),
            };
            all.extend(texts.into_iter().map(|(name, (expected, text))| Text {
                name,
                text: frame.replace('@', &expand(&text)),
                expected,
                run,
            }));
        }
    }
    all
}

/// Replaces the marks of repetition.
fn expand(text: &str) -> String {
    let Some((before, rest)) = text.split_once('«') else {
        return text.to_owned();
    };
    let (mark, after) = rest.split_once('»').expect("« has a »");
    let (head, part) = mark.split_once('|').expect("a mark has a |");
    let digits = head.trim_start_matches(|c: char| c.is_ascii_digit());
    let (count, separator) = head.split_at(head.len() - digits.len());
    let count: u64 = count.parse().expect("a mark begins with a count");
    let copies: Vec<String> = (0..count).map(|n| numbered(part, n)).collect();
    format!("{before}{}{}", copies.join(separator), expand(after))
}

/// Replaces the expressions in copy number `n` of a part.
fn numbered(part: &str, n: u64) -> String {
    let Some((before, rest)) = part.split_once("{n") else {
        return part.to_owned();
    };
    let (expression, after) = rest.split_once('}').expect("{n has a }");
    format!("{before}{}{}", value(expression, n), numbered(after, n))
}

fn value(expression: &str, mut n: u64) -> String {
    let (expression, is_set) = match expression.strip_suffix("set") {
        Some(expression) => (expression, true),
        None => (expression, false),
    };
    let mut rest = expression;
    while let Some(operator) = rest.chars().next() {
        let end = rest[1..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |at| at + 1);
        let number: u64 = rest[1..end].parse().expect("an operator has a number");
        n = match operator {
            '+' => n + number,
            '*' => n * number,
            '%' => n % number,
            _ => panic!("{expression}: unknown operator"),
        };
        rest = &rest[end..];
    }
    match is_set {
        true => format!("0x{:x}{}", 1u64 << (n % 32), ",0x0".repeat((n / 32) as usize)),
        false => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn marks_are_expanded() {
        assert_eq!(expand("a«3|(»b«2,|t{n}:{n*10+1%7}»c"), "a(((bt0:1,t1:4c");
        assert_eq!(expand("«2 |{n+33set}»"), "0x2,0x0 0x4,0x0");
        assert_eq!(expand("{n}"), "{n}");
    }
}
