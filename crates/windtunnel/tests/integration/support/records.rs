// SPDX-License-Identifier: GPL-2.0-only
//! The records in policies/policies.toml, which say how each policy is tested.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Path of the file, relative to the repository's root.
pub const FILE: &str = "policies/policies.toml";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub promise: Promise,
    /// Whether no CPU idles while a task waits that may run there.
    #[serde(default)]
    pub conserving: bool,
    /// Configurations in which the live test loads the policy.
    pub live: Vec<Live>,
    /// Counters that no load of the live test changes reliably.
    #[serde(default)]
    pub still: String,
}

/// A configuration in which the live test loads a policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Parameters, each as `NAME=VALUE`.
    #[serde(default)]
    pub set: String,
    /// Counters that this load must change.
    pub moves: String,
}

/// Guarantee of a policy for tasks that share a CPU.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Promise {
    /// Turns of `slice_ns` in order of arrival. Nice values have no effect.
    #[serde(rename = "equal-turns")]
    EqualTurns,
    /// Turns of `slice_ns`. The number of a task's turns is proportional to its weight.
    #[serde(rename = "weighted-turns")]
    WeightedTurns,
    /// Quanta in ticks that depend on the nice value, in rounds between recalculations, as in Linux
    /// 2.4.
    #[serde(rename = "ticks-2.4")]
    Ticks24,
    /// Like `Ticks24`, with the quanta of Linux 2.5.2-pre.
    #[serde(rename = "ticks-2.5")]
    Ticks25,
    /// Timeslices that depend on the nice value, in rounds between swaps of the active and expired
    /// arrays.
    #[serde(rename = "timeslices-o1")]
    TimeslicesO1,
    /// Like `TimeslicesO1`, with the timeslices and interactive tasks of Linux 2.6.22.
    #[serde(rename = "timeslices-2.6")]
    Timeslices26,
    /// Turns of `quantum_ns` among the tasks of a level. The level depends on nice value and recent
    /// CPU use.
    #[serde(rename = "levels-by-use")]
    LevelsByUse,
    /// The best level gets the CPU. A task of another level is raised after waiting for
    /// `starved_ns`.
    #[serde(rename = "strict-levels")]
    StrictLevels,
    /// The kernel's fair class, without a policy.
    #[serde(skip)]
    FairClass,
    /// No guarantee about waits or CPU shares.
    #[serde(rename = "nothing")]
    Nothing,
}

/// Reads the records, by policy name.
pub fn records() -> BTreeMap<String, Record> {
    let text = std::fs::read_to_string(super::root().join(FILE)).expect(FILE);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"))
}
