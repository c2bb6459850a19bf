// SPDX-License-Identifier: GPL-2.0-only
//! The records of policies/policies.toml: how each policy is tested.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Path of the records in the repository.
pub const FILE: &str = "policies/policies.toml";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub promise: Promise,
    /// No CPU idles while a task waits that may run there.
    #[serde(default)]
    pub conserving: bool,
    /// Loads of the live test.
    pub live: Vec<Live>,
    /// Counters that no load moves, or only by chance.
    #[serde(default)]
    pub still: String,
}

/// A load of the live test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Parameters, `NAME=VALUE` each.
    #[serde(default)]
    pub set: String,
    /// Counters that the load must move.
    pub moves: String,
}

/// What a policy promises tasks that share a CPU.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Promise {
    /// Turns of `slice_ns` in the order of arrival, whatever the nice values.
    #[serde(rename = "equal-turns")]
    EqualTurns,
    /// Turns of `slice_ns`, as many for each task as its weight is greater than that of others.
    #[serde(rename = "weighted-turns")]
    WeightedTurns,
    /// Quanta of ticks by nice value, in rounds between recalculations, as in Linux 2.4.
    #[serde(rename = "ticks-2.4")]
    Ticks24,
    /// The same with the quanta of Linux 2.5.2-pre.
    #[serde(rename = "ticks-2.5")]
    Ticks25,
    /// Timeslices by nice value, in rounds between swaps of the arrays.
    #[serde(rename = "timeslices-o1")]
    TimeslicesO1,
    /// The same with the timeslices and interactive tasks of Linux 2.6.22.
    #[serde(rename = "timeslices-2.6")]
    Timeslices26,
    /// Turns of `quantum_ns` among tasks of a level, which follows from nice value and use of the CPU.
    #[serde(rename = "levels-by-use")]
    LevelsByUse,
    /// The best level has the CPU; a task of another level is lifted after `starved_ns`.
    #[serde(rename = "strict-levels")]
    StrictLevels,
    /// The fair class of the kernel, which runs without a policy.
    #[serde(skip)]
    FairClass,
    /// Neither a bound on waits nor a division of the CPU.
    #[serde(rename = "nothing")]
    Nothing,
}

/// Reads the records, by the names of the policies.
pub fn records() -> BTreeMap<String, Record> {
    let text = std::fs::read_to_string(super::root().join(FILE)).expect(FILE);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"))
}
