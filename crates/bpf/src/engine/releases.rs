// SPDX-License-Identifier: GPL-2.0-only
//! Ranges of Linux releases. A row of a function table ([`rows`](crate::rows)) has such a range,
//! which says which releases have the function.

use std::ops::{Range, RangeFrom};

/// A release of Linux: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u8, pub u8);

/// A range of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Releases {
    /// First release that has the function.
    pub since: Version,
    /// First later release without the function, or `None` if the function was not removed.
    pub before: Option<Version>,
}

impl Releases {
    /// Returns whether the range contains this release.
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
