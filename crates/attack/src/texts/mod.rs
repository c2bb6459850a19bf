// SPDX-License-Identifier: GPL-2.0-only
//! Hand-written hostile texts of the formats that windtunnel reads.

mod machines;
mod profiles;
mod recordings;
mod suites;
mod workloads;

use crate::kind;

/// A hostile text.
pub struct Text {
    pub name: &'static str,
    pub kind: TextKind,
    pub text: String,
    /// Text that the result of reading or running must contain. Empty if any result is allowed.
    pub expected: &'static str,
}

/// The format in which a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    Machine,
    Workload,
    Profile,
    Suite,
    Recording,
}

/// Reads and runs the text with this index. Returns the result, for example `refused: ...`.
pub fn run(index: u64) -> String {
    let Some(text) = texts().into_iter().nth(index as usize) else {
        return "no such text".to_owned();
    };
    match text.kind {
        TextKind::Machine => kind::machine(&text.text),
        TextKind::Workload => kind::workload(&text.text),
        TextKind::Profile => kind::profile(&text.text),
        TextKind::Suite => kind::suite(&text.text),
        TextKind::Recording => kind::recording(&text.text),
    }
}

/// Number of repetitions that make a text very long or deeply nested.
const DEEP: usize = 100_000;

/// Returns `inner` in many pairs of `open` and `close`.
fn nested(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(DEEP), close.repeat(DEEP))
}

/// Joins `count` texts with commas.
fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(",")
}

/// Adds a text: name, text, and expected result.
type Add<'a> = dyn FnMut(&'static str, String, &'static str) + 'a;

/// Returns all texts.
pub fn texts() -> Vec<Text> {
    use TextKind::{Machine, Profile, Recording, Suite, Workload};
    let mut texts = Vec::new();
    for kind in [Machine, Workload, Profile, Suite, Recording] {
        let add = &mut |name, text, expected| {
            texts.push(Text {
                name,
                kind,
                text,
                expected,
            })
        };
        match kind {
            Machine => machines::add_all(add),
            Workload => workloads::add_all(add),
            Profile => profiles::add_all(add),
            Suite => suites::add_all(add),
            Recording => recordings::add_all(add),
        }
    }
    texts
}
