// SPDX-License-Identifier: GPL-2.0-only
//! Computes what the page of a sweep shows from the rows of its table.
//!
//! A *configuration* is a policy with its parameters and kernel. A *place* is a machine with a
//! workload. A *cell* contains the runs of one configuration at one place, which differ only in
//! their seeds.
//!
//! Figures of different places cannot be averaged, because a message rate and a completion time
//! have different units. The page therefore compares configurations by ratios within a place:
//!
//! - *relative*: the value of a configuration divided by the best value of the place; the geometric
//!   mean over all places;
//! - *main effect* of a factor such as `policy` or `slice_ns`: within each block of runs that agree
//!   in everything else, each value is divided by the geometric mean of the block. The effect of a
//!   level is the geometric mean of these ratios, with a confidence interval over the blocks.

use super::rows::Row;
use crate::compare::metric::{Metric, metrics};
use crate::experiment::statistics::estimate;
use report::{Better, Unit};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    pub metrics: Vec<MetricInfo>,
    pub configurations: Vec<Configuration>,
    pub places: Vec<Place>,
    pub cells: Vec<Cell>,
    pub effects: Vec<Effect>,
    pub runs: usize,
    pub failed: usize,
    pub seeds: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct MetricInfo {
    pub name: &'static str,
    pub about: &'static str,
    /// `score`, `ns`, `%` or `` for counts.
    pub unit: &'static str,
    /// 1 if more is better, -1 if less is better, 0 if neither. For the score, see
    /// [`Place::better`].
    pub better: i8,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Configuration {
    pub label: String,
    pub policy: String,
    pub set: BTreeMap<String, String>,
    pub kernel: String,
    /// For each metric, the geometric mean over the places of the ratio to the place's best value.
    /// 1 is the best. `None` if a value is missing or the metric has no better direction.
    pub relative: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub machine: String,
    pub workload: String,
    pub score_unit: String,
    /// 1 if a higher score is better, -1 if a lower one is.
    pub better: i8,
}

/// The runs of one configuration at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    pub configuration: usize,
    pub place: usize,
    pub runs: usize,
    /// Number of runs whose policy failed, and the first reason.
    pub failed: usize,
    pub failure: Option<String>,
    /// Mean of each metric, or `None` if a run has no value.
    pub mean: Vec<Option<f64>>,
    /// Half width of the 95 % confidence interval of the mean.
    pub half: Vec<Option<f64>>,
    /// The command that repeats the first run.
    pub command: String,
}

/// The main effect of a factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    pub factor: String,
    pub levels: Vec<String>,
    /// For each metric and each level, the effect. `None` if no block has values for all levels.
    pub values: Vec<Vec<Option<Level>>>,
}

/// The effect of one level of a factor: a ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    pub ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub blocks: usize,
}

/// Returns the position of a value in a list, to which the value is added if it is not there.
fn position<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// Returns whether a higher score is better (1) or a lower one (-1). Times are better if lower.
fn score_better(unit: &str) -> i8 {
    if ["s", "ms", "us/op"].contains(&unit) { -1 } else { 1 }
}

fn info(metric: Metric) -> MetricInfo {
    MetricInfo {
        name: metric.name,
        about: metric.figure.about,
        unit: match metric.figure.unit {
            Unit::Score => "score",
            Unit::Duration | Unit::TotalTime => "ns",
            Unit::Percent => "%",
            Unit::Count | Unit::Index => "",
        },
        better: match metric.figure.better {
            Some(Better::Higher) => 1,
            Some(Better::Lower) => -1,
            None => 0,
        },
    }
}

/// Computes what the page shows.
pub fn analyse(rows: &[Row]) -> Analysis {
    let metrics: Vec<MetricInfo> = metrics().map(info).collect();
    let mut keys = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    let mut place_keys = Vec::new();
    let mut grouped: BTreeMap<(usize, usize), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let configuration = position(&mut keys, (&row.policy, &row.set, &row.kernel));
        let place = position(&mut place_keys, (&row.machine, &row.workload));
        if place == places.len() {
            places.push(Place {
                machine: row.machine.clone(),
                workload: row.workload.clone(),
                score_unit: String::new(),
                better: 1,
            });
        }
        if places[place].score_unit.is_empty() {
            places[place].score_unit.clone_from(&row.score_unit);
            places[place].better = score_better(&row.score_unit);
        }
        grouped.entry((configuration, place)).or_default().push(row);
    }
    let cells: Vec<Cell> = grouped
        .into_iter()
        .map(|((configuration, place), runs)| cell(configuration, place, &runs, metrics.len()))
        .collect();
    let several_kernels = keys.iter().any(|(_, _, kernel)| *kernel != keys[0].2);
    let configurations = keys.iter().enumerate().map(|(index, (policy, set, kernel))| {
        let mut label = (*policy).clone();
        for (name, value) in *set {
            label += &format!(" {name}={value}");
        }
        if several_kernels {
            label += &format!(" kernel {kernel}");
        }
        Configuration {
            label,
            policy: (*policy).clone(),
            set: (*set).clone(),
            kernel: (*kernel).clone(),
            relative: (0..metrics.len())
                .map(|metric| relative(index, metric, metrics[metric].better, &cells, &places))
                .collect(),
        }
    });
    Analysis {
        configurations: configurations.collect(),
        effects: effects(rows, metrics.len()),
        runs: rows.len(),
        failed: rows.iter().filter(|row| row.failure.is_some()).count(),
        seeds: rows
            .iter()
            .map(|row| row.seed)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        metrics,
        places,
        cells,
    }
}

fn cell(configuration: usize, place: usize, runs: &[&Row], metrics: usize) -> Cell {
    let estimates: Vec<_> = (0..metrics)
        .map(|metric| {
            let values: Option<Vec<f64>> = runs.iter().map(|row| row.values[metric]).collect();
            estimate(&values?)
        })
        .collect();
    Cell {
        configuration,
        place,
        runs: runs.len(),
        failed: runs.iter().filter(|row| row.failure.is_some()).count(),
        failure: runs.iter().find_map(|row| row.failure.clone()),
        mean: estimates.iter().map(|found| found.map(|found| found.mean)).collect(),
        half: estimates
            .iter()
            .map(|found| found.and_then(|found| found.half_width))
            .collect(),
        command: runs.first().map(|row| row.command.clone()).unwrap_or_default(),
    }
}

/// Returns [`Configuration::relative`] for one metric. A ratio is at least 1, and 1 is the best.
fn relative(configuration: usize, metric: usize, better: i8, cells: &[Cell], places: &[Place]) -> Option<f64> {
    let mut sum = 0.0;
    for (index, place) in places.iter().enumerate() {
        let direction = if metric == 0 { place.better } else { better };
        let values = cells.iter().filter(|cell| cell.place == index);
        let values: Vec<(usize, f64)> = values
            .filter_map(|cell| Some((cell.configuration, cell.mean[metric].filter(|value| *value > 0.0)?)))
            .collect();
        let (_, own) = values.iter().find(|(known, _)| *known == configuration)?;
        let best = values.iter().map(|(_, value)| *value);
        let ratio = match direction {
            1 => best.fold(0.0, f64::max) / own,
            -1 => own / best.fold(f64::INFINITY, f64::min),
            _ => return None,
        };
        sum += ratio.ln();
    }
    Some((sum / places.len() as f64).exp())
}

/// Computes the main effects of all factors with at least two levels.
fn effects(rows: &[Row], metrics: usize) -> Vec<Effect> {
    let mut factors = vec!["policy".to_owned(), "kernel".to_owned()];
    for row in rows {
        for name in row.set.keys() {
            position(&mut factors, format!("set.{name}"));
        }
    }
    factors
        .iter()
        .filter_map(|factor| effect(factor, rows, metrics))
        .collect()
}

fn level(factor: &str, row: &Row) -> Option<String> {
    match factor.strip_prefix("set.") {
        Some(name) => row.set.get(name).cloned(),
        None if factor == "policy" => Some(row.policy.clone()),
        None => Some(row.kernel.clone()),
    }
}

/// Returns everything in which the runs of a block agree. Policies have different parameters, so
/// the blocks of the factor `policy` contain all settings of each policy.
fn block(factor: &str, row: &Row) -> String {
    let mut rest = row.set.clone();
    let (mut policy, mut kernel) = (row.policy.as_str(), row.kernel.as_str());
    match factor.strip_prefix("set.") {
        Some(name) => drop(rest.remove(name)),
        None if factor == "policy" => {
            policy = "";
            rest.clear();
        }
        None => kernel = "",
    }
    format!(
        "{policy}\0{kernel}\0{}\0{}\0{}\0{rest:?}",
        row.machine, row.workload, row.seed
    )
}

fn effect(factor: &str, rows: &[Row], metrics: usize) -> Option<Effect> {
    let mut levels = Vec::new();
    let mut blocks: BTreeMap<String, Vec<(usize, &Row)>> = BTreeMap::new();
    for row in rows {
        if let Some(level) = level(factor, row) {
            let level = position(&mut levels, level);
            blocks.entry(block(factor, row)).or_default().push((level, row));
        }
    }
    if levels.len() < 2 {
        return None;
    }
    let values = (0..metrics).map(|metric| {
        let mut logarithms = vec![Vec::new(); levels.len()];
        for runs in blocks.values() {
            // The geometric mean of each level. A block without a value for some level is left out.
            let means: Option<Vec<f64>> = (0..levels.len())
                .map(|level| {
                    let own = runs.iter().filter(|(known, _)| *known == level);
                    let own: Option<Vec<f64>> = own
                        .map(|(_, row)| row.values[metric].filter(|value| *value > 0.0).map(f64::ln))
                        .collect();
                    crate::experiment::statistics::mean(&own?)
                })
                .collect();
            let Some(means) = means else { continue };
            let middle = means.iter().sum::<f64>() / means.len() as f64;
            for (level, mean) in means.into_iter().enumerate() {
                logarithms[level].push(mean - middle);
            }
        }
        let level = |values: &Vec<f64>| {
            let found = estimate(values)?;
            Some(Level {
                ratio: found.mean.exp(),
                low: found.half_width.map(|half| (found.mean - half).exp()),
                high: found.half_width.map(|half| (found.mean + half).exp()),
                blocks: values.len(),
            })
        };
        logarithms.iter().map(level).collect()
    });
    Some(Effect {
        factor: factor.to_owned(),
        values: values.collect(),
        levels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row whose score is `score` and whose other figures are missing.
    fn row(policy: &str, slice: Option<&str>, machine: &str, seed: u64, score: f64) -> Row {
        let mut values = vec![None; metrics().count()];
        values[0] = Some(score);
        Row {
            policy: policy.into(),
            machine: machine.into(),
            workload: "w".into(),
            kernel: "7.2".into(),
            seed,
            set: slice
                .map(|value| ("slice_ns".to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            score_unit: if machine == "m" { "s" } else { "messages/s" }.into(),
            values,
            command: format!("windtunnel run {policy} --seed {seed}"),
            ..Row::default()
        }
    }

    #[test]
    fn cells_have_means_intervals_and_commands() {
        let found = analyse(&[row("a", None, "m", 1, 2.0), row("a", None, "m", 2, 4.0)]);
        assert_eq!((found.cells.len(), found.seeds), (1, 2));
        let cell = &found.cells[0];
        assert_eq!((cell.mean[0], cell.mean[1]), (Some(3.0), None));
        assert!((cell.half[0].expect("two runs") - 12.706).abs() < 1e-9);
        assert_eq!(cell.command, "windtunnel run a --seed 1");
    }

    #[test]
    fn configurations_are_compared_within_a_place() {
        // On m, a time, a is twice as good. On n, a rate, b is eight times as good.
        let found = analyse(&[
            row("a", None, "m", 1, 1.0),
            row("b", None, "m", 1, 2.0),
            row("a", None, "n", 1, 100.0),
            row("b", None, "n", 1, 800.0),
        ]);
        let relative: Vec<_> = found.configurations.iter().map(|one| one.relative[0]).collect();
        assert!((relative[0].expect("a value") - 8f64.sqrt()).abs() < 1e-12);
        assert!((relative[1].expect("a value") - 2f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_main_effect_is_computed_within_blocks() {
        // The long slice doubles the score everywhere, although the machines differ by 1000.
        let rows: Vec<Row> = [("m", 1.0), ("n", 1000.0)]
            .into_iter()
            .flat_map(|(machine, scale)| {
                [1, 2].into_iter().flat_map(move |seed| {
                    [
                        row("a", Some("1"), machine, seed, scale * seed as f64),
                        row("a", Some("2"), machine, seed, 2.0 * scale * seed as f64),
                    ]
                })
            })
            .chain([row("eevdf", None, "m", 1, 5.0)])
            .collect();
        let found = analyse(&rows);
        let effect = found
            .effects
            .iter()
            .find(|effect| effect.factor == "set.slice_ns")
            .expect("an effect");
        assert_eq!(effect.levels, ["1", "2"]);
        let [low, high] = [0, 1].map(|level| effect.values[0][level].expect("an effect"));
        assert!((high.ratio / low.ratio - 2.0).abs() < 1e-12 && high.blocks == 4);
        assert!((high.low.expect("four blocks") - 2f64.sqrt()).abs() < 1e-9);
    }
}
