// SPDX-License-Identifier: GPL-2.0-only
//! Formats a score as a table and as JSON.

use super::{Scored, ScoredCase};
use report::Better;
use report::fit::{Grid, Surface};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns a table with one row for each case. `surface` selects text for a terminal or Markdown.
pub fn table(scored: &Scored, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let mut grid = Grid::new();
    grid.left("machine", 0);
    grid.left("workload", 0);
    grid.left("figure", 1);
    grid.right(&scored.baseline, 3);
    grid.right(&scored.policy, 2);
    grid.right("ratio", 0);
    for case in &scored.cases {
        let text = |value: Option<f64>| match value {
            Some(value) => case.case.metric.text(value, &case.unit),
            None => "-".to_owned(),
        };
        let weight = match case.case.weight {
            1.0 => String::new(),
            weight => format!(" (weight {weight})"),
        };
        grid.row([
            case.case.machine.clone(),
            case.case.workload.clone(),
            format!("{}{weight}", case.case.metric.name),
            text(mean(case.values.iter().map(|(_, base)| Some(*base)))),
            text(mean(case.values.iter().map(|(value, _)| *value))),
            case.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        ]);
    }
    grid.render(surface)
}

/// Returns the mean, or `None` if a value is missing.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    crate::experiment::statistics::mean(&values)
}

/// Returns the score and its parts as JSON.
pub fn json(scored: &Scored, suite: &str, command: &str) -> Value {
    let settings = scored.settings.iter().map(|(name, value)| format!("{name}={value}"));
    json!({
        "policy": scored.policy,
        "settings": settings.collect::<Vec<_>>(),
        "suite": suite,
        "baseline": scored.baseline,
        "seeds": scored.seeds,
        "score": scored.score,
        "score_low": scored.interval.map(|(low, _)| low),
        "score_high": scored.interval.map(|(_, high)| high),
        "cases": scored.cases.iter().map(case).collect::<Vec<_>>(),
        "by_machine": part(scored, |case| &case.case.machine),
        "by_metric": part(scored, |case| case.case.metric.name),
        "failures": scored.failures,
        "command": command,
    })
}

fn case(scored: &ScoredCase) -> Value {
    json!({
        "machine": scored.case.machine,
        "workload": scored.case.workload,
        "for_ns": scored.case.for_ns,
        "metric": scored.case.metric.name,
        "unit": scored.unit,
        "better": match scored.better { Better::Higher => "higher", Better::Lower => "lower" },
        "weight": scored.case.weight,
        "ratio": scored.ratio,
        "policy": scored.values.iter().map(|(value, _)| value).collect::<Vec<_>>(),
        "baseline": scored.values.iter().map(|(_, base)| base).collect::<Vec<_>>(),
    })
}

/// Returns the weighted geometric mean of the cases that agree in a property, by that property.
/// The mean is null if one of these cases has no ratio.
fn part<'a>(scored: &'a Scored, property: impl Fn(&'a ScoredCase) -> &'a str) -> BTreeMap<&'a str, Option<f64>> {
    let mut groups: BTreeMap<&str, Vec<Option<(f64, f64)>>> = BTreeMap::new();
    for case in &scored.cases {
        let ratio = case.ratio.map(|ratio| (case.case.weight, ratio));
        groups.entry(property(case)).or_default().push(ratio);
    }
    let mean = |ratios: Vec<Option<(f64, f64)>>| {
        let ratios = ratios.into_iter().collect::<Option<Vec<_>>>()?;
        Some(super::geometric(ratios.into_iter()))
    };
    groups.into_iter().map(|(name, ratios)| (name, mean(ratios))).collect()
}
