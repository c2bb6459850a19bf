// SPDX-License-Identifier: GPL-2.0-only
//! Releases of Linux, for the column of [`rows`](crate::rows) that says which of them have a function.

use std::ops::{Range, RangeFrom};

/// A release: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8);

/// The releases that have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Releases {
    /// The first one that has it.
    pub since: Version,
    /// The first one that has it no longer.
    pub before: Option<Version>,
}

impl Releases {
    /// Returns whether this release is among them.
    pub fn contains(&self, version: Version) -> bool {
        version >= self.since && self.before.is_none_or(|before| version < before)
    }
}

impl From<RangeFrom<Version>> for Releases {
    fn from(range: RangeFrom<Version>) -> Releases {
        Releases {
            since: range.start,
            before: None,
        }
    }
}

impl From<Range<Version>> for Releases {
    fn from(range: Range<Version>) -> Releases {
        Releases {
            since: range.start,
            before: Some(range.end),
        }
    }
}
