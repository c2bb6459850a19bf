// SPDX-License-Identifier: GPL-2.0-only
//! A machine together with where its numbers come from.

use crate::MachineSpec;
use std::collections::BTreeMap;

/// A loaded machine and the story behind it, for people.
#[derive(Clone, Debug)]
pub struct Definition {
    pub spec: MachineSpec,
    /// Where the machine was read from: a file, `built in`, an hwloc string, `host`.
    pub origin: String,
    /// What was left out or assumed while reading, a sentence each.
    pub notes: Vec<String>,
    /// Source of each constant of the cost table by its name in machine files; what a machine
    /// does not set itself has no entry and stands at the default.
    pub cost_sources: BTreeMap<String, String>,
}
