// SPDX-License-Identifier: GPL-2.0-only
//! The hand-written attack objects in `corpus/*.bpf.c`. The first comment of each file lists its
//! variants:
//!
//! ```text
//! ATTACK name EXPECTATION                         a variant that -DNAME compiles
//! ATTACK name EXPECTATION; checked: EXPECTATION   with another end under --check
//! ```
//!
//! An expectation is `runs`, `refused "text"` or `ejected "text"`, where the text is part of the
//! message. `ends` allows all three, for attacks that are not about the policy's end.

use crate::execute::{End, Mode};
use std::path::PathBuf;

/// Expected end of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    Ends,
    Runs,
    Refused(String),
    Ejected(String),
}

/// A variant of a C file.
#[derive(Clone, Debug)]
pub struct Attack {
    pub source: PathBuf,
    pub name: String,
    pub plain: Expectation,
    pub checked: Expectation,
}

impl Expectation {
    fn parse(text: &str) -> Result<Expectation, String> {
        let (word, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let message = rest.trim().trim_matches('"').to_owned();
        match word {
            "ends" => Ok(Expectation::Ends),
            "runs" => Ok(Expectation::Runs),
            "refused" => Ok(Expectation::Refused(message)),
            "ejected" => Ok(Expectation::Ejected(message)),
            _ => Err(format!(
                "'{text}': expected ends, runs, refused \"text\" or ejected \"text\""
            )),
        }
    }

    /// Returns whether an attack ended as expected.
    pub fn holds(&self, end: &End) -> bool {
        match (self, end) {
            (Expectation::Ends, _) | (Expectation::Runs, End::Runs) => true,
            (Expectation::Refused(text), End::Refused(message)) => message.contains(text),
            (Expectation::Ejected(text), End::Ejected(message)) => message.contains(text),
            _ => false,
        }
    }
}

impl Attack {
    pub fn expected(&self, mode: Mode) -> &Expectation {
        if mode.checked { &self.checked } else { &self.plain }
    }

    /// The macro that selects this variant.
    pub fn define(&self) -> String {
        self.name.to_uppercase()
    }
}

/// Reads the lists of variants of all corpus files.
///
/// # Errors
/// If a file cannot be read, or a line is not a valid attack.
pub fn attacks() -> Result<Vec<Attack>, String> {
    let folder = crate::root().join("crates/attack/corpus");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    sources.sort();
    let mut attacks = Vec::new();
    for source in sources {
        let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        for line in text.lines().filter_map(|line| line.strip_prefix(" * ATTACK ")) {
            let attack = parse(&source, line).map_err(|message| format!("{}: {message}", source.display()))?;
            attacks.push(attack);
        }
    }
    Ok(attacks)
}

fn parse(source: &std::path::Path, line: &str) -> Result<Attack, String> {
    let (name, expected) = line
        .split_once(' ')
        .ok_or_else(|| format!("'{line}': no expectation"))?;
    let (plain, checked) = match expected.split_once("; checked:") {
        Some((plain, checked)) => (plain, Some(checked)),
        None => (expected, None),
    };
    let plain = Expectation::parse(plain)?;
    // The sanitizer may reject a policy that runs without it.
    let checked = match (checked, &plain) {
        (Some(checked), _) => Expectation::parse(checked)?,
        (None, Expectation::Runs) => Expectation::Ends,
        (None, plain) => plain.clone(),
    };
    Ok(Attack {
        source: source.to_owned(),
        name: name.to_owned(),
        plain,
        checked,
    })
}

/// Compiles the attacks' objects on all CPUs, or takes them from the cache.
///
/// # Errors
/// The first compiler message.
pub fn compile(attacks: &[Attack]) -> Result<Vec<PathBuf>, String> {
    let sources: Vec<_> = attacks
        .iter()
        .map(|attack| (attack.source.clone(), attack.define()))
        .collect();
    crate::compile::objects(&sources)
}
