// SPDX-License-Identifier: GPL-2.0-only
//! Formats a score as text and as JSON.

use super::{Failure, Scored, ScoredCase};
use crate::model_error::{self, ModelError, Trust};
use report::Better;
use report::layout::{Grid, Surface};
use serde_json::{Map, Value, json};

/// Returns a table with one row for each case. `surface` selects text for a terminal or Markdown.
pub fn table(scored: &Scored, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let aspects = scored.cases.iter().any(|case| case.case.aspect.is_some());
    let named = scored
        .cases
        .iter()
        .any(|case| case.case.name != case.case.setting.workload);
    let mut grid = Grid::new();
    if aspects {
        grid.left("aspect", 0);
    }
    grid.left(if named { "case" } else { "workload" }, 0);
    grid.left("machine", 0);
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
        let cells = [
            case.case.name.clone(),
            case.case.setting.machine.clone(),
            format!("{}{weight}", case.case.metric.name),
            text(mean(case.values.iter().map(|(_, base)| Some(*base)))),
            text(mean(case.values.iter().map(|(value, _)| *value))),
            case.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        ];
        let aspect = aspects.then(|| case.case.aspect.clone().unwrap_or_default());
        grid.row(aspect.into_iter().chain(cells));
    }
    grid.render(surface)
}

/// Returns the lines below the table: failures, the partial score of each aspect, the score, and
/// what the sanitizer did not check.
pub fn lines(scored: &Scored) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (failure, runs) in distinct(&scored.failures) {
        let more = match runs {
            1 => String::new(),
            runs => format!(" (and in {} more runs)", runs - 1),
        };
        lines.push(format!(
            "{}: {}{more}: {}",
            scored.policy, failure.place, failure.reason
        ));
    }
    let aspects = scored.by(|case| case.case.aspect.as_deref());
    if scored.score.is_some() && !aspects.is_empty() {
        let parts = aspects
            .iter()
            .filter_map(|(name, ratio)| Some(format!("{name} {:.3}", (*ratio)?)));
        lines.push(parts.collect::<Vec<_>>().join(", "));
    }
    lines.push(match (scored.score, scored.interval) {
        (Some(score), Some((low, high))) => format!(
            "score {score:.4} (95 % CI {low:.4} to {high:.4}; {} is 1)",
            scored.baseline
        ),
        (Some(score), None) => format!("score {score:.4} ({} is 1)", scored.baseline),
        (None, _) => "no score".to_owned(),
    });
    lines.extend(model_errors(scored));
    if !scored.uncalled.is_empty() {
        let names: Vec<String> = scored.uncalled.iter().map(|name| format!("ops.{name}")).collect();
        lines.push(format!("never called, so not tested: {}", names.join(", ")));
    }
    lines
}

/// Returns a line about the errors of the model for the changes of the cases, if the score has any.
fn model_errors(scored: &Scored) -> Option<String> {
    scored.score?;
    let (mut compared, mut undecided) = (0, Vec::new());
    for case in &scored.cases {
        let known = model_error::of(case.case.metric.name, case.nr_cpus, &case.case.setting.workload);
        let (Some(error), Some(ratio)) = (known, case.ratio) else {
            continue;
        };
        compared += 1;
        if error.trust(ratio) == Trust::Undecided {
            undecided.push(case.case.name.as_str());
        }
    }
    (compared > 0).then(|| {
        let names = match undecided.as_slice() {
            [] => String::new(),
            names => format!(", so undecided: {}", names.join(", ")),
        };
        let number = undecided.len();
        format!("model: {number} of {compared} differences are below the model's usual error{names}")
    })
}

/// Returns the first failure with each cause, and the number of failures with this cause.
fn distinct(failures: &[Failure]) -> Vec<(&Failure, usize)> {
    let mut found: Vec<(&Failure, usize)> = Vec::new();
    for failure in failures {
        match found.iter_mut().find(|(first, _)| first.cause == failure.cause) {
            Some((_, runs)) => *runs += 1,
            None => found.push((failure, 1)),
        }
    }
    found
}

/// Returns the mean, or `None` if a value is missing.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    crate::experiment::statistics::mean(&values)
}

/// Returns the score and its parts as JSON.
pub fn json(scored: &Scored, suite: &str, command: &str) -> Value {
    let failures = scored.failures.iter();
    let failures = failures.map(|failure| format!("{}: {}", failure.place, failure.reason));
    json!({
        "policy": scored.policy,
        "settings": scored.settings,
        "suite": suite,
        "baseline": scored.baseline,
        "seeds": scored.seeds,
        "score": scored.score,
        "score_low": scored.interval.map(|(low, _)| low),
        "score_high": scored.interval.map(|(_, high)| high),
        "cases": scored.cases.iter().map(case).collect::<Vec<_>>(),
        "by_aspect": parts(scored, |case| case.case.aspect.as_deref()),
        "by_machine": parts(scored, |case| Some(&case.case.setting.machine)),
        "by_metric": parts(scored, |case| Some(case.case.metric.name)),
        "checked": scored.checked,
        "uncalled": scored.uncalled,
        "warnings": scored.warnings,
        "failures": failures.collect::<Vec<_>>(),
        "command": command,
    })
}

/// Returns the partial scores by a property of the cases, as a JSON object.
fn parts<'a>(scored: &'a Scored, property: impl Fn(&'a ScoredCase) -> Option<&'a str>) -> Map<String, Value> {
    let parts = scored.by(property).into_iter();
    parts.map(|(name, ratio)| (name.to_owned(), json!(ratio))).collect()
}

fn case(scored: &ScoredCase) -> Value {
    json!({
        "name": scored.case.name,
        "aspect": scored.case.aspect,
        "machine": scored.case.setting.machine,
        "workload": scored.case.setting.workload,
        "for_ns": scored.case.setting.for_ns,
        "metric": scored.case.metric.name,
        "unit": scored.unit,
        "better": match scored.better { Better::Higher => "higher", Better::Lower => "lower" },
        "weight": scored.case.weight,
        "model_error": model_error::of(scored.case.metric.name, scored.nr_cpus, &scored.case.setting.workload)
            .map(ModelError::json),
        "ratio": scored.ratio,
        "policy": scored.values.iter().map(|(value, _)| value).collect::<Vec<_>>(),
        "baseline": scored.values.iter().map(|(_, base)| base).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_with_the_same_cause_are_one_line() {
        let failure = |place: &str, reason: &str, cause: &str| Failure {
            place: place.to_owned(),
            reason: reason.to_owned(),
            cause: cause.to_owned(),
        };
        let scored = Scored {
            policy: "p".into(),
            settings: Vec::new(),
            baseline: "eevdf".into(),
            seeds: vec![1, 2],
            cases: Vec::new(),
            score: None,
            interval: None,
            failures: vec![
                failure("a, seed 1", "failed at 1 ns: leak", "leak"),
                failure("a, seed 2", "failed at 2 us: leak", "leak"),
                failure("b, seed 1", "lost tasks: 3 tasks", "lost tasks"),
                failure("c, seed 1", "failed at 7 ms: leak", "leak"),
            ],
            checked: None,
            uncalled: vec!["tick", "dump"],
            warnings: Vec::new(),
        };
        let expected = [
            "p: a, seed 1 (and in 2 more runs): failed at 1 ns: leak",
            "p: b, seed 1: lost tasks: 3 tasks",
            "no score",
            "never called, so not tested: ops.tick, ops.dump",
        ];
        assert_eq!(lines(&scored), expected);
        let json = json(&scored, "default", "windtunnel score p");
        assert_eq!(json["failures"][1], "a, seed 2: failed at 2 us: leak");
        assert_eq!(json["uncalled"], serde_json::json!(["tick", "dump"]));
    }
}
