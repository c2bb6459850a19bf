// SPDX-License-Identifier: GPL-2.0-only
//! Reasons why a binary recording cannot be read.

use super::input::MAX_PART;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// Reason why a binary recording cannot be read. The texts follow "this recording is damaged: ",
/// except that of [`Damage::Unsuitable`].
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The number of bytes that are missing at the end.
    #[error("it ends {0} bytes too early")]
    Short(u64),
    /// The end is inside of this.
    #[error("it ends inside {0}")]
    EndsInside(&'static str),
    /// The number of bytes of a part that is read at once.
    #[error("a part of {0} bytes is larger than the maximum of {MAX_PART}")]
    LargePart(u64),
    #[error("CPU {0} is higher than the maximum of Linux")]
    Cpu(i64),
    #[error("line {line} of the metadata: expected {expected}, found {found}")]
    Grammar { line: u32, expected: String, found: String },
    /// A file of a recording that consists of several.
    #[error("{}: {damage}", path.display())]
    File { path: PathBuf, damage: Box<Damage> },
    /// The recording is not damaged, but contains nothing that can be read. The text is a whole
    /// message.
    #[error("{0}")]
    Unsuitable(Cow<'static, str>),
    /// Any other contradiction to the format.
    #[error("{0}")]
    Malformed(Cow<'static, str>),
}

impl From<&'static str> for Damage {
    fn from(text: &'static str) -> Damage {
        Damage::Malformed(text.into())
    }
}

impl From<String> for Damage {
    fn from(text: String) -> Damage {
        Damage::Malformed(text.into())
    }
}
