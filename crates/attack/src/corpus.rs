// SPDX-License-Identifier: GPL-2.0-only
//! The hand-written attack objects, `corpus/*.bpf.c`. A file contains several attacks. To compile
//! an attack, its name in upper case is defined as a macro. The first comment of the file lists the
//! attacks and how they must end:
//!
//! ```text
//! ATTACK name EXPECTATION                         the option -DNAME compiles the attack
//! ATTACK name EXPECTATION; checked: EXPECTATION   the attack has another end with --sanitize
//! ATTACK name EXPECTATION; cpus: NUMBER           the machine has NUMBER CPUs
//! ```
//!
//! A line can have both `checked` and `cpus`, in this order. An expectation is `runs`, `refused
//! "text"`, `ejected "text"` or `ends`. The text is a part of the message with which the policy
//! must be refused or ejected. `ends` allows every end: it does not matter how such an attack ends,
//! as long as it does not harm the simulator.

use crate::execute::{End, Mode};
use std::path::PathBuf;

/// Expected end of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Any end.
    Ends,
    /// The policy is still loaded at the end of the run.
    Runs,
    /// The object or the policy is refused with a message that contains this text.
    Refused(String),
    /// The policy is ejected during the run with a message that contains this text.
    Ejected(String),
}

/// An attack: a C file, and the name that selects one of the attacks in the file.
#[derive(Clone, Debug)]
pub struct Attack {
    pub source: PathBuf,
    pub name: String,
    /// Expected end without the sanitizer (`--sanitize`).
    pub plain: Expectation,
    /// Expected end with the sanitizer.
    pub checked: Expectation,
    /// Number of CPUs of the machine.
    pub cpus: u32,
}

/// Number of CPUs of the machine for an attack whose line does not have `cpus`.
pub const CPUS: u32 = 4;

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

    /// Returns whether the attack ended as expected.
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

    /// Returns the macro that selects this attack in its file.
    pub fn define(&self) -> String {
        self.name.to_uppercase()
    }
}

/// Reads the attacks that the corpus files list.
///
/// # Errors
/// A file cannot be read, or a line is not a valid list entry.
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
    let (expected, cpus) = match expected.split_once("; cpus:") {
        Some((expected, cpus)) => {
            let cpus = cpus.trim().parse();
            (expected, cpus.map_err(|error| format!("'{line}': cpus: {error}"))?)
        }
        None => (expected, CPUS),
    };
    let (plain, checked) = match expected.split_once("; checked:") {
        Some((plain, checked)) => (plain, Some(checked)),
        None => (expected, None),
    };
    let plain = Expectation::parse(plain)?;
    // The sanitizer may reject a policy that runs without the sanitizer, so any end is then
    // allowed.
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
        cpus,
    })
}

/// Compiles the objects of all attacks, on all CPUs in parallel. Objects in the cache are reused.
///
/// # Errors
/// The message of the compiler for the first file that cannot be compiled.
pub fn compile(attacks: &[Attack]) -> Result<Vec<PathBuf>, String> {
    let sources: Vec<_> = attacks
        .iter()
        .map(|attack| (attack.source.clone(), attack.define()))
        .collect();
    crate::compile::objects(&sources)
}
