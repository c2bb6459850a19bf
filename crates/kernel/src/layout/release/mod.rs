// SPDX-License-Identifier: GPL-2.0-only
//! The Linux releases against which a BPF object can be linked. Each release has certain kfuncs,
//! callbacks, fields, types and enumerators.
//!
//! Up to Linux 7.2, the release determines only which symbols exist, and the simulated sched_ext core
//! behaves like Linux 7.2. With Linux 7.3, the core behaves like that release. Symbols that the
//! release lacks are handled as libbpf and the kernel do:
//!
//! - Weak symbols are 0.
//! - CO-RE existence checks for fields, types and enumerators are false.
//! - An object that needs a missing symbol is rejected.
//!
//! No table of BPF helpers is necessary, because all helpers in bpf(2) are older than Linux 6.12.

pub mod absent;
mod symbols;

use crate::layout::callbacks::OPS;
use crate::layout::enums;
use crate::layout::release::symbols::{SYMBOLS, SymbolKind, Symbols};
use bpf::rows::*;
use thiserror::Error;

/// A Linux release, displayed as `major.minor`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(Version);

/// All releases that have sched_ext, oldest first.
pub const RELEASES: [Release; 12] = [
    Release(V6_12),
    Release(V6_13),
    Release(V6_14),
    Release(V6_15),
    Release(V6_16),
    Release(V6_17),
    Release(V6_18),
    Release(V6_19),
    Release(V7_0),
    Release(V7_1),
    Release::MODELLED,
    Release::LINUX_7_3,
];

/// The number of a release that is not in [`RELEASES`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("Linux {0} is not supported: choose one of {known}", known = RELEASES.map(|known| known.to_string()).join(", "))]
pub struct UnknownRelease(String);

impl Default for Release {
    fn default() -> Release {
        Release::MODELLED
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.0, self.0.1)
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Release {
    type Err = UnknownRelease;

    /// Parses the number of a release, from `6.12` to `7.3`.
    ///
    /// # Errors
    /// If the release is unknown.
    fn from_str(text: &str) -> Result<Release, UnknownRelease> {
        let found = RELEASES.into_iter().find(|release| release.to_string() == text);
        found.ok_or_else(|| UnknownRelease(text.into()))
    }
}

impl Release {
    /// The release whose behaviour the simulator reproduces unless a newer one is chosen.
    pub const MODELLED: Release = Release(V7_2);
    /// The release that added capabilities of sub-schedulers. From this release on, the simulated
    /// sched_ext core behaves like Linux 7.3.
    pub const LINUX_7_3: Release = Release(V7_3);
    /// Patch levels of the two kernels whose source the simulator follows.
    const PATCHES: [(Release, u32); 2] = [(Release::MODELLED, 13), (Release::LINUX_7_3, 4)];

    /// Returns the value of LINUX_KERNEL_VERSION.
    pub fn version_code(self) -> u32 {
        let patch = Release::PATCHES.iter().find(|(release, _)| *release == self);
        let patch = patch.map_or(0, |&(_, patch)| patch);
        let Version(major, minor) = self.0;
        u32::from(major) << 16 | u32::from(minor) << 8 | patch
    }

    /// Returns whether this release is in a range of releases.
    pub(crate) fn is_among(self, releases: Releases) -> bool {
        releases.contains(self.0)
    }

    /// Returns the release in a range that is nearest to `from`, which is not in the range.
    pub(crate) fn nearest(range: Releases, from: Release) -> Release {
        let mut newer = RELEASES
            .into_iter()
            .filter(|release| *release > from && release.is_among(range));
        let older = RELEASES.into_iter().rev().find(|release| release.is_among(range));
        newer.next().or(older).unwrap_or_default()
    }

    /// Returns whether the release has a struct or enum.
    pub fn has_type(self, name: &str) -> bool {
        self.has(SymbolKind::Type, "", name)
    }

    pub fn has_enumerator(self, parent: &str, name: &str) -> bool {
        self.has(SymbolKind::Enumerator, parent, name)
    }

    fn has(self, kind: SymbolKind, parent: &str, name: &str) -> bool {
        find(kind, parent, name).is_none_or(|symbols| self.is_among(symbols.releases))
    }

    /// Returns the types and members that this release lacks but other releases have. Each member
    /// is returned with its struct.
    pub(crate) fn absent(self) -> impl Iterator<Item = (Option<&'static str>, &'static str)> {
        let absent = SYMBOLS.iter().filter(move |symbols| !self.is_among(symbols.releases));
        let symbols = absent.flat_map(|symbols| {
            let parent = match symbols.kind {
                SymbolKind::Type => Some(None),
                SymbolKind::Member => Some(Some(symbols.parent)),
                SymbolKind::Enumerator => None,
            };
            let names = symbols.names.iter();
            parent
                .into_iter()
                .flat_map(move |parent| names.clone().map(move |&name| (parent, name)))
        });
        let later = OPS.into_iter().filter(move |op| op.since() > self.0);
        let cid = self.has_type("sched_ext_ops_cid");
        symbols.chain(later.flat_map(move |op| {
            let by_cid = cid.then(|| (Some("sched_ext_ops_cid"), op.cid_name()));
            [(Some("sched_ext_ops"), op.name())].into_iter().chain(by_cid)
        }))
    }

    /// Returns the value of SCX_OPS_ALL_FLAGS.
    pub fn ops_flags(self) -> u64 {
        let flags = enums::ENUMS.iter().find(|an_enum| an_enum.name == "scx_ops_flags");
        let flags = flags.map_or(&[][..], |flags| flags.values);
        let public = |&&(name, value): &&(&str, u64)| {
            value.is_power_of_two()
                && value & enums::__SCX_OPS_INTERNAL_MASK == 0
                && self.has_enumerator("scx_ops_flags", name)
        };
        flags.iter().filter(public).fold(0, |all, (_, flag)| all | flag)
    }

    /// Returns the enumerators of an enum and their values. The result is empty if the release does
    /// not have the enum.
    pub(crate) fn enumerators(self, an_enum: &enums::Enum) -> Vec<(&'static str, u64)> {
        if !self.has_type(an_enum.name) {
            return Vec::new();
        }
        let here = an_enum
            .values
            .iter()
            .filter(|(name, _)| self.has_enumerator(an_enum.name, name));
        here.map(|&(name, value)| match name {
            "SCX_OPS_ALL_FLAGS" => (name, self.ops_flags()),
            // Linux 7.3 made room for a fourth reason.
            "SCX_TASK_REENQ_REASON_BITS" if self < Release::LINUX_7_3 => (name, 2),
            "SCX_TASK_REENQ_REASON_MASK" if self < Release::LINUX_7_3 => (name, 0x3000),
            _ => (name, value),
        })
        .collect()
    }

    /// Returns the value of a sched_ext enumerator, or `None` if the release has no enumerator with
    /// this name.
    pub(crate) fn enumerator(self, name: &str) -> Option<u64> {
        let mut all = enums::ENUMS.iter().flat_map(|an_enum| self.enumerators(an_enum));
        all.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Gives expressions in profiles (descriptions of a policy's user-space part) access to
/// enumerators. An enumerator that the release lacks is 0, as in user space that was compiled with
/// newer headers.
impl profile::Enumerators for Release {
    fn enumerator(&self, name: &str) -> Option<i64> {
        let modelled = Release::MODELLED.enumerator(name);
        let value = (*self).enumerator(name).or(modelled.map(|_| 0));
        value.map(|value| value as i64)
    }
}

fn find(kind: SymbolKind, parent: &str, name: &str) -> Option<&'static Symbols> {
    let here = |symbols: &&Symbols| symbols.kind == kind && symbols.parent == parent && symbols.names.contains(&name);
    SYMBOLS.iter().find(here)
}

/// Returns a description of a range of releases, for example `since Linux 6.13` or `in Linux 6.12
/// to 6.16`.
pub(crate) fn describe(releases: Releases) -> String {
    let since = Release(releases.since);
    let last = releases
        .before
        .and_then(|before| RELEASES.iter().rev().find(|release| release.0 < before));
    match last {
        None => format!("since Linux {since}"),
        Some(last) => format!("in Linux {since} to {last}"),
    }
}

#[cfg(test)]
mod tests;
