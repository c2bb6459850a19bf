// SPDX-License-Identifier: GPL-2.0-only
//! Reads the records of policies in policies/policies.toml. A record says how a policy is tested.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Path of the file, relative to the repository's root.
pub const FILE: &str = "policies/policies.toml";
/// Path of this file, which explains the promises, relative to the repository's root.
pub const PROMISES: &str = "crates/windtunnel/tests/integration/support/records.rs";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub promise: Promise,
    /// Whether the policy is work-conserving: no CPU idles while a task that may run there waits.
    #[serde(default)]
    pub conserving: bool,
    /// The configurations in which the live test loads the policy into a real kernel.
    pub live: Vec<Live>,
    /// Names of the counters that no configuration of the live test changes reliably.
    #[serde(default)]
    pub still: String,
}

/// A configuration in which the live test loads a policy into a real kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Parameters, in the form `NAME=VALUE`.
    #[serde(default)]
    pub set: String,
    /// Names of the counters that must change in this configuration.
    pub moves: String,
}

/// Guarantee of a policy for tasks that share a CPU.
///
/// The tests check a guarantee only for hogs, which are tasks that compute without pauses: how long
/// they wait, and how they share the CPU (`policy_properties/promise.rs` has the bounds). Except
/// under `EqualTurns`, tasks that sleep need separate tests, because the guarantee says nothing
/// about them.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Promise {
    /// Each turn has the length `slice_ns`. Waiting tasks run in the order in which they became
    /// runnable, even if they sleep between turns. Nice values have no effect.
    #[serde(rename = "equal-turns")]
    EqualTurns,
    /// Turns have the length `slice_ns`. The number of turns that a task gets is proportional to
    /// its weight.
    #[serde(rename = "weighted-turns")]
    WeightedTurns,
    /// A task has a quantum of ticks, which depends on its nice value. When all runnable tasks have
    /// used up their quanta, the quanta are recalculated, as in Linux 2.4.
    #[serde(rename = "ticks-2.4")]
    Ticks24,
    /// The same as `Ticks24`, with the quanta of Linux 2.5.2-pre.
    #[serde(rename = "ticks-2.5")]
    Ticks25,
    /// A task has a timeslice, which depends on its nice value. When all tasks have used up their
    /// timeslices, the active and the expired array swap.
    #[serde(rename = "timeslices-o1")]
    TimeslicesO1,
    /// The same as `TimeslicesO1`, with the timeslices and the interactive tasks of Linux 2.6.22.
    #[serde(rename = "timeslices-2.6")]
    Timeslices26,
    /// Tasks of the same level take turns of the length `quantum_ns`. The level of a task depends
    /// on its nice value and its recent CPU use.
    #[serde(rename = "levels-by-use")]
    LevelsByUse,
    /// Only tasks of the highest level run. A task of another level is raised after it has waited
    /// for `starved_ns`.
    #[serde(rename = "strict-levels")]
    StrictLevels,
    /// The kernel's fair class, which runs without a policy.
    #[serde(skip)]
    FairClass,
    /// The policy guarantees nothing about waits and CPU shares.
    #[serde(rename = "nothing")]
    Nothing,
}

/// Reads the records. The keys are the names of the policies.
pub fn records() -> BTreeMap<String, Record> {
    let text = std::fs::read_to_string(super::root().join(FILE)).expect(FILE);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"))
}
