// SPDX-License-Identifier: GPL-2.0-only
//! The kicks of a policy (scx_bpf_kick_cpu), and whether they are a storm: many kicks that cost much
//! and achieve little.

use crate::figures::RunResult;
use crate::units::{count, rounded};
use serde::{Deserialize, Serialize};

/// Minimum share of the overhead that kicks cause in a storm, in percent.
const STORM_PERCENT: f64 = 25.0;
/// Minimum overhead of a run with a storm, in percent of all CPU time.
const OVERHEAD_PERCENT: f64 = 0.5;

/// The kicks of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KicksResult {
    /// IPIs that were sent to kicked CPUs.
    pub ipis: u64,
    /// Time in ns that kicks cost: the calls, the interrupts of the kicking and of the kicked CPUs,
    /// and the reschedules after which the kicked CPU did not switch to a different task. This time
    /// is part of the overhead.
    pub ns: u64,
    /// The callbacks that kicked CPUs.
    pub callbacks: Vec<KickingResult>,
}

/// The kicks of one callback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KickingResult {
    pub callback: String,
    pub calls: u64,
    /// Kicks that made a CPU reschedule.
    pub reschedules: u64,
    /// Kicks after which the CPU switched to a different task.
    pub switches: u64,
}

impl KickingResult {
    /// Returns the name of the callback for use in a sentence, for example `ops.enqueue()`.
    fn title(&self) -> String {
        match self.callback.contains(' ') {
            true => self.callback.clone(),
            false => format!("ops.{}()", self.callback),
        }
    }
}

impl KicksResult {
    /// Returns how often all callbacks together called scx_bpf_kick_cpu().
    pub(crate) fn calls(&self) -> u64 {
        self.callbacks.iter().map(|kicking| kicking.calls).sum()
    }

    /// Returns the number of kicks after which a CPU switched to a different task.
    pub(crate) fn switches(&self) -> u64 {
        self.callbacks.iter().map(|kicking| kicking.switches).sum()
    }
}

impl RunResult {
    /// Returns the share of the overhead that the kicks of a storm cause, in percent. Returns `None`
    /// if there is no storm: the kicks are cheap, or most of them make a CPU switch tasks.
    pub(crate) fn kick_storm_percent(&self) -> Option<f64> {
        let kicks = self.kicks.as_ref()?;
        let percent = 100.0 * kicks.ns as f64 / self.overhead_ns.max(1) as f64;
        let is_useful = kicks.switches() * 2 > kicks.calls();
        let is_storm = percent >= STORM_PERCENT && self.overhead_percent >= OVERHEAD_PERCENT && !is_useful;
        is_storm.then_some(percent.min(100.0))
    }

    /// Returns a sentence about a storm of kicks, without the policy's name. Returns `None` if there
    /// is no storm.
    pub fn kick_storm(&self) -> Option<String> {
        let percent = self.kick_storm_percent()?;
        let kicking = self
            .kicks
            .as_ref()?
            .callbacks
            .iter()
            .max_by_key(|kicking| kicking.calls)?;
        let useful = 100.0 * kicking.switches as f64 / kicking.calls.max(1) as f64;
        Some(format!(
            "kicks cause {} % of the overhead: {} kicked CPUs {} times, and {} % of these kicks made a CPU switch tasks",
            rounded(percent),
            kicking.title(),
            count(kicking.calls),
            rounded(useful)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ns: u64, overhead_percent: f64, calls: u64, switches: u64) -> RunResult {
        let callbacks = vec![
            KickingResult {
                callback: "enqueue".into(),
                calls,
                reschedules: calls,
                switches,
            },
            KickingResult {
                callback: "timers and other programs".into(),
                calls: 1,
                ..KickingResult::default()
            },
        ];
        RunResult {
            overhead_ns: 1000,
            overhead_percent,
            kicks: Some(KicksResult {
                ipis: calls,
                ns,
                callbacks,
            }),
            ..RunResult::default()
        }
    }

    #[test]
    fn expensive_kicks_without_effect_are_a_storm() {
        assert_eq!(
            result(620, 3.0, 12_345, 494).kick_storm().as_deref(),
            Some(
                "kicks cause 62 % of the overhead: ops.enqueue() kicked CPUs 12.3k times, and 4 % of these kicks made \
                 a CPU switch tasks"
            )
        );
        for (calm, why) in [
            (result(240, 3.0, 1000, 10), "the kicks are cheap"),
            (result(620, 0.4, 1000, 10), "there is little overhead"),
            (result(620, 3.0, 1000, 600), "most kicks have an effect"),
            (RunResult::default(), "there are no kicks"),
        ] {
            assert_eq!(calm.kick_storm(), None, "{why}");
        }
    }
}
