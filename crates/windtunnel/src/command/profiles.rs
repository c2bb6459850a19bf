// SPDX-License-Identifier: GPL-2.0-only
//! What commands print about the profiles of their runs.

use runner::scenario::Scenario;

/// Returns a line for each scenario whose policy has a profile, for example `steal: profile
/// steal.toml`. In comparisons, the side precedes the line instead of the policy.
pub fn notes(scenarios: &[Scenario], sides: &[&str]) -> Vec<String> {
    let note = |(index, scenario): (usize, &Scenario)| {
        let owner = sides.get(index).copied().unwrap_or(scenario.policy.name());
        Some(format!("{owner}: profile {}", scenario.profile_word()?))
    };
    let mut notes: Vec<String> = scenarios.iter().enumerate().filter_map(note).collect();
    notes.dedup();
    notes
}

/// Returns the profiles of the two sides of a comparison as JSON.
pub fn json([a, b]: &[Scenario; 2]) -> serde_json::Value {
    serde_json::json!({ "a": a.profile_word(), "b": b.profile_word() })
}
