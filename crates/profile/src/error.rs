// SPDX-License-Identifier: GPL-2.0-only
//! Errors of profiles (files that replace the user-space part of a policy): a profile does not fit
//! the machine or the policy's object.

use crate::expression::{MAX_DEPTH, MAX_FACTORS};
use crate::path::MAX_PATHS;
use crate::{MAX_CONTEXT, OPS};
use std::num::ParseIntError;
use thiserror::Error;

/// Why a text is not an expression, or why an expression has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExpressionError {
    #[error("unexpected '{0}'")]
    Unexpected(String),
    #[error("'{token}' is missing before '{before}'")]
    MissingToken { token: &'static str, before: String },
    #[error("a value is missing{}", before.as_ref().map(|before| format!(" before '{before}'")).unwrap_or_default())]
    MissingValue { before: Option<String> },
    #[error("the expression has more than {MAX_FACTORS} values: split it")]
    TooManyValues,
    #[error("the expression nests deeper than {MAX_DEPTH} levels: split it")]
    TooDeep,
    #[error("there is no function {0}: expected min, max, log2, sizeof or has")]
    UnknownFunction(String),
    #[error("'{word}': {error}")]
    Number { word: String, error: ParseIntError },
    #[error("log2({0}) is undefined")]
    Log2(i64),
    #[error("division by 0")]
    DivisionByZero,
    #[error("'{0}' is neither a property of the machine (nr_cpus, smt, cpu, ...) nor an enumerator of sched_ext")]
    UnknownName(String),
    /// A property of one of several objects, in a setting that is not repeated for each of them.
    #[error(
        "'{name}' is a property of {object}, but this setting is made only once: use an index such as {example}, or `each`"
    )]
    NeedsIndex {
        name: String,
        object: &'static str,
        example: &'static str,
    },
    #[error("sizeof and has cannot be used here")]
    NoTypes,
    #[error("sizeof({0}): the object has no struct of this name")]
    UnknownStruct(String),
}

impl ExpressionError {
    /// Adds the text of the expression.
    pub(crate) fn of(self, text: &str) -> ProfileError {
        ProfileError::Expression {
            text: text.into(),
            error: self,
        }
    }
}

/// Why a profile cannot be applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    #[error("{text}: {error}")]
    Expression { text: String, error: ExpressionError },
    /// An index of a path has no value.
    #[error(transparent)]
    Index(#[from] ExpressionError),
    #[error("{0}: ']' is missing")]
    MissingBracket(String),
    #[error(
        "the indices stand for {cpus} CPUs or groups with {others} partners and {words} words each, more than the limit of {MAX_PATHS}"
    )]
    TooManyInstances { cpus: usize, others: usize, words: usize },
    #[error("a range of {0} elements makes the setting exceed the limit of {MAX_PATHS} elements")]
    RangeTooLong(usize),
    #[error("{0}: the arguments take more than {MAX_CONTEXT} bytes, the limit for a program: reduce 'times'")]
    ArgumentsTooLong(String),
    #[error("{text} = {value} is not a valid number of elements")]
    NumberOfElements { text: String, value: i64 },
    /// The object refuses a number of elements or the value of a global.
    #[error("{0}")]
    Object(Box<bpf::error::Error>),
    #[error("the object has no map {0}")]
    UnknownMap(String),
    #[error("a profile can only set {}", OPS.join(", "))]
    NotSettable,
    #[error("the object has no program {name}{}", listed(known))]
    UnknownProgram { name: String, known: Vec<String> },
    #[error("{}", misfits(.0))]
    Misfits(Vec<Misfit>),
}

impl From<bpf::error::Error> for ProfileError {
    fn from(error: bpf::error::Error) -> ProfileError {
        ProfileError::Object(Box::new(error))
    }
}

/// A part of a profile that does not fit the object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{key} {name}: {error}")]
pub struct Misfit {
    /// Key of the profile that contains the part.
    pub key: &'static str,
    /// Name of the variable, map or program.
    pub name: String,
    pub error: ProfileError,
}

/// Maximum number of programs that a message lists.
const MAX_LISTED: usize = 12;

/// Returns the list of an object's programs that follows a message.
fn listed(known: &[String]) -> String {
    if known.is_empty() {
        return String::new();
    }
    let shown = &known[..known.len().min(MAX_LISTED)];
    let more = if known.len() > MAX_LISTED { ", ..." } else { "" };
    format!("; its programs are {}{more}", shown.join(", "))
}

fn misfits(misfits: &[Misfit]) -> String {
    let texts: Vec<String> = misfits.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [text] => text.clone(),
        texts => format!("{} parts do not fit the object:\n  {}", texts.len(), texts.join("\n  ")),
    }
}
