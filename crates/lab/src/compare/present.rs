// SPDX-License-Identifier: GPL-2.0-only
//! Formats a comparison as a table and as JSON.

use super::effect::{Conclusion, Effect};
use super::metric::Metric;
use super::verdict::{change, verdict};
use super::{Comparison, Condition, Judgement};
use crate::experiment::statistics::Estimate;
use crate::model_error::{self, ModelError};
use report::layout::{Grid, Surface};
use report::{Better, Unit};
use serde_json::{Value, json};
use trace::escape;

/// Returns a table with one row for each metric that the runs have. `surface` selects text for a
/// terminal or Markdown.
pub fn table(c: &Comparison, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let [a, b] = &c.names;
    let mut grid = Grid::new();
    grid.left("", 0);
    grid.right(&format!("A: {a}"), 0);
    grid.right(&format!("B: {b}"), 0);
    grid.right("change", 1);
    grid.right("95 % CI", 3);
    grid.left("B is", 2);
    rows(c).into_iter().for_each(|row| grid.row(row));
    let seeds = match c.seeds.as_slice() {
        [one] => format!("seed {one}"),
        [first, .., last] if last - first == c.seeds.len() as u64 - 1 => format!("seeds {first}-{last}"),
        seeds => format!(
            "seeds {}",
            seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
        ),
    };
    let names = [&c.machine, &c.workload].map(|name| escape::line(name).into_owned());
    let inputs = format!("machine {}, workload {}, {seeds}", names[0], names[1]);
    surface.line(&inputs, " ") + &grid.render(surface)
}

/// Returns a row for each metric that the runs have.
pub(super) fn rows(c: &Comparison) -> Vec<[String; 6]> {
    let known = c.metrics.iter();
    known
        .filter_map(|known| Some(row(c, &known.metric, known.effect.as_ref()?)))
        .collect()
}

fn row(c: &Comparison, metric: &Metric, effect: &Effect) -> [String; 6] {
    let text = |value| metric.text(value, &c.score_unit);
    let interval = match effect.ratio.bounds {
        _ if effect.conclusion() == Conclusion::Equal => String::new(),
        Some((low, high)) if low.is_finite() && high.is_finite() => format!("{} to {}", change(low), change(high)),
        Some(_) => {
            let (low, high) = effect.difference.ends();
            format!("{} to {} more", text(low), text(high))
        }
        None => "one pair".to_owned(),
    };
    let change = match effect.conclusion() {
        Conclusion::Equal => "none".to_owned(),
        _ => change(effect.ratio.value),
    };
    [
        metric.name.to_owned(),
        text(effect.a.mean),
        text(effect.b.mean),
        change,
        interval,
        conclusion_word(c, metric, effect).unwrap_or("").to_owned(),
    ]
}

/// Returns the conclusion in one word, or `None` if the change is not significant.
pub(super) fn conclusion_word(c: &Comparison, metric: &Metric, effect: &Effect) -> Option<&'static str> {
    let more = match effect.conclusion() {
        Conclusion::More => true,
        Conclusion::Less => false,
        Conclusion::Equal => return Some("equal"),
        Conclusion::Unclear | Conclusion::OnePair => return None,
    };
    Some(match (c.better(metric), more) {
        (Some(Better::Higher), true) | (Some(Better::Lower), false) => "better",
        (Some(_), _) => "worse",
        (None, true) => "more",
        (None, false) => "less",
    })
}

/// Returns the comparison and the value of each condition as JSON. Infinite ratios become null.
pub fn json(c: &Comparison, conditions: &[(Condition, Option<Judgement>)]) -> Value {
    let side = |estimate: Estimate| json!({ "mean": estimate.mean, "half_width": estimate.half_width });
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let metric = |known: &super::Compared| {
        let effect = known.effect.as_ref()?;
        let bounds = effect.ratio.bounds;
        Some(json!({
            "name": known.metric.name,
            "about": known.metric.figure.about,
            "unit": unit(c, &known.metric),
            "better": c.better(&known.metric),
            "a": side(effect.a),
            "b": side(effect.b),
            "difference": effect.difference.value,
            "difference_low": effect.difference.bounds.map(|bounds| bounds.0),
            "difference_high": effect.difference.bounds.map(|bounds| bounds.1),
            "change_percent": percent(effect.ratio.value),
            "change_percent_low": bounds.map(|bounds| percent(bounds.0)),
            "change_percent_high": bounds.map(|bounds| percent(bounds.1)),
            "shown": conclusion_word(c, &known.metric, effect),
            "model_error": model_error::of(known.metric.name, c.nr_cpus, &c.workload).map(ModelError::json),
        }))
    };
    let condition = |(condition, judgement): &(Condition, Option<Judgement>)| {
        json!({
            "condition": condition.to_string(),
            "holds": judgement.map(|judgement| judgement == Judgement::Holds),
            "undecided": *judgement == Some(Judgement::Undecided),
        })
    };
    json!({
        "a": c.names[0],
        "b": c.names[1],
        "machine": c.machine,
        "workload": c.workload,
        "seeds": c.seeds,
        "planned_runs": c.planned,
        "looks": c.looks,
        "verdict": verdict(c).lines().collect::<Vec<_>>(),
        "metrics": c.metrics.iter().filter_map(metric).collect::<Vec<_>>(),
        "failures": { "a": c.failures[0], "b": c.failures[1] },
        "lost_tasks": { "a": c.lost[0], "b": c.lost[1] },
        "kick_storms": { "a": c.storms[0], "b": c.storms[1] },
        "fail_if": conditions.iter().map(condition).collect::<Vec<_>>(),
    })
}

fn unit<'a>(c: &'a Comparison, metric: &Metric) -> &'a str {
    match metric.figure.unit {
        Unit::Score => &c.score_unit,
        Unit::Duration | Unit::TotalTime => "ns",
        Unit::Count | Unit::Index => "",
        Unit::Percent => "%",
    }
}
