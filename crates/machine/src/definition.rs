// SPDX-License-Identifier: GPL-2.0-only
//! A loaded machine together with the sources of its numbers: the measurement, document or
//! assumption from which each number comes.

use crate::MachineSpec;
use std::collections::BTreeMap;

/// A loaded machine and the origin of its contents.
#[derive(Clone, Debug)]
pub struct Definition {
    pub spec: MachineSpec,
    /// Origin of the machine: a file, `built in`, an hwloc string, or `host`.
    pub origin: String,
    /// Sentences about parts that were ignored and values that were assumed.
    pub notes: Vec<String>,
    /// Source of each constant in the cost table, by the name of the constant in machine files. A
    /// constant without an entry has its default value.
    pub cost_sources: BTreeMap<String, String>,
}
