// SPDX-License-Identifier: GPL-2.0-only
//! Compares two policies on several machines and under several workloads, in one table.

use super::effect::Effect;
use super::metric::Metric;
use super::present::conclusion_word;
use super::verdict::change;
use super::{Comparison, Conclusion};
use report::attribution::Attribution;
use report::layout::{Grid, Surface};
use trace::escape;

/// Names of the metrics whose changes the table shows beside the score.
const BESIDE: [&str; 2] = ["p50_wakeup", "p99_wakeup"];

/// The comparison on one machine under one workload.
pub struct Place {
    pub comparison: Comparison,
    /// Where the difference comes from, if the user asked for it.
    pub attribution: Option<Attribution>,
}

/// Returns a table with one row for each machine and workload, and a sentence about all of them.
/// There must be at least one place.
pub fn table(places: &[Place], surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let [a, b] = &places[0].comparison.names;
    let mut grid = Grid::new();
    // The columns that are left out first on a narrow terminal have the highest numbers.
    let ranks = [0, 0, 1, 1, 0, 3, 0, 2, 2];
    for ((at, head), rank) in heads(a, b).iter().enumerate().zip(ranks) {
        match at {
            0 | 1 | 6 => grid.left(head, rank),
            _ => grid.right(head, rank),
        }
    }
    places.iter().for_each(|place| grid.row(row(&place.comparison)));
    let seeds = places[0].comparison.seeds.len();
    let inputs = format!("{a} (A) and {b} (B), {seeds} pairs of runs for each machine and workload");
    surface.line(&escape::line(&inputs), " ") + &grid.render(surface) + &surface.line(&sentence(places), " ")
}

/// Returns the headings of the columns.
pub(super) fn heads(a: &str, b: &str) -> [String; 9] {
    let [first, second] = BESIDE.map(|name| name.replace('_', "\n"));
    let scores = [format!("A: {a},\nscore"), format!("B: {b},\nscore")];
    let [of_a, of_b] = scores;
    let words = ["machine", "workload", "change", "95 % CI", "B is"].map(str::to_owned);
    let [machine, workload, change, interval, word] = words;
    [machine, workload, of_a, of_b, change, interval, word, first, second]
}

pub(super) fn row(c: &Comparison) -> Vec<String> {
    let place = [&c.machine, &c.workload].map(|name| escape::line(name).into_owned());
    let score = c.metrics.first().map(|known| &known.metric);
    let figures = score.and_then(|metric| Some((metric, c.effect(metric)?)));
    let own = match figures {
        Some((metric, effect)) => scores(c, metric, effect),
        None if c.failed() => ["failed", "", "", "", ""].map(str::to_owned),
        None => ["-", "-", "", "", ""].map(str::to_owned),
    };
    let beside = BESIDE.map(|name| {
        let known = c.metrics.iter().find(|known| known.metric.name == name);
        let effect = known.and_then(|known| known.effect.as_ref());
        effect.map_or_else(|| "-".to_owned(), changed)
    });
    place.into_iter().chain(own).chain(beside).collect()
}

/// Returns a change, or nothing if it is not significant.
fn changed(effect: &Effect) -> String {
    match effect.conclusion() {
        Conclusion::Equal => "none".to_owned(),
        Conclusion::Unclear => String::new(),
        Conclusion::More | Conclusion::Less | Conclusion::OnePair => change(effect.ratio.value),
    }
}

fn scores(c: &Comparison, metric: &Metric, effect: &Effect) -> [String; 5] {
    let text = |value| metric.text(value, &c.score_unit);
    let interval = match effect.ratio.bounds {
        Some((low, high)) if low.is_finite() && high.is_finite() && effect.conclusion() != Conclusion::Equal => {
            format!("{} to {}", change(low), change(high))
        }
        _ => String::new(),
    };
    let by = match effect.conclusion() {
        Conclusion::Equal => "none".to_owned(),
        _ => change(effect.ratio.value),
    };
    let word = conclusion_word(c, metric, effect).unwrap_or("");
    [text(effect.a.mean), text(effect.b.mean), by, interval, word.to_owned()]
}

/// Counts the places where the score of B is better, worse, or not different.
pub(super) fn sentence(places: &[Place]) -> String {
    let (mut better, mut worse) = (0, 0);
    for Place { comparison: c, .. } in places {
        let score = c.metrics.first().map(|known| &known.metric);
        let word = score.and_then(|metric| conclusion_word(c, metric, c.effect(metric)?));
        better += usize::from(word == Some("better"));
        worse += usize::from(word == Some("worse"));
    }
    let b = escape::line(&places[0].comparison.names[1]).into_owned();
    let all = places.len();
    let other = match all - better - worse {
        0 => String::new(),
        other => format!(", and not significantly different in {other}"),
    };
    format!("{b} is better in {better} of {all}, worse in {worse}{other}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compared;
    use report::{Better, RunResult};

    fn place(machine: &str, scores: [f64; 2]) -> Place {
        let result = |seed: u64, score: f64| RunResult {
            seed,
            machine: machine.into(),
            workload: "hackbench".into(),
            score: Some(score + seed as f64),
            score_unit: "messages/s".into(),
            score_better: Better::Higher,
            ..RunResult::default()
        };
        let results: Vec<RunResult> = (1..=3)
            .flat_map(|seed| scores.map(|score| result(seed, score)))
            .collect();
        Place {
            comparison: compared(["fifo".into(), "vtime".into()], &[1, 2, 3], &results, 1),
            attribution: None,
        }
    }

    #[test]
    fn each_machine_and_workload_has_a_row() {
        let places = [place("smp4", [1000.0, 1200.0]), place("numa32", [900.0, 900.0])];
        let text = table(&places, false);
        assert!(
            text.starts_with("fifo (A) and vtime (B), 3 pairs of runs for each machine and workload\n"),
            "{text}"
        );
        let row = |machine: &str| {
            text.lines()
                .find(|line| line.contains(machine))
                .expect("the machine has a row")
        };
        assert!(
            row("smp4").contains("+20.0 %") && row("smp4").contains("better"),
            "{text}"
        );
        assert!(row("numa32").contains("none"), "{text}");
        assert!(
            text.ends_with("vtime is better in 1 of 2, worse in 0, and not significantly different in 1\n"),
            "{text}"
        );
    }
}
