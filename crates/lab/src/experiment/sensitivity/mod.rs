// SPDX-License-Identifier: GPL-2.0-only
//! Shows which conclusions of an experiment depend on which constants: `experiment run
//! --sensitivity`.
//!
//! Each constant is halved and doubled while all others keep their values. [`variants`] makes the
//! runs, and [`conclusions`] compares them with the unchanged experiment. Conclusions are drawn
//! from measured values only; published values matter for the rank correlation.

mod conclusions;
mod present;
mod variants;

pub use present::{json, text};

use super::Experiment;
use super::cases::Plan;
use super::compare::{Comparison, compare};
use super::run::{Measured, Options, simulate};
use input::error::Error;
use machine::scale::Factor;
use runner::inputs::Inputs;
use runner::parallel::Progress;
use std::time::Duration;

/// What a variant changes in the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// Other seeds of the random generator. This variant shows how much changes by chance.
    Seeds,
    /// A constant of the machines.
    Cost(String, Factor),
    /// A variable of the definition, with its new value.
    Variable(String, Factor, String),
}

impl Change {
    /// Returns the change as text, for example `cache_line x2`.
    pub fn name(&self) -> String {
        match self {
            Change::Nothing => "nothing".into(),
            Change::Seeds => "other seeds".into(),
            Change::Cost(name, factor) => format!("{name} {}", factor.name()),
            Change::Variable(name, factor, value) => format!("{name} {} ({value})", factor.name()),
        }
    }

    /// Returns the name of the constant that changes.
    fn constant(&self) -> Option<&str> {
        match self {
            Change::Cost(name, _) | Change::Variable(name, ..) => Some(name),
            _ => None,
        }
    }
}

/// Dependence of an experiment on its constants.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    pub name: String,
    pub title: String,
    /// Number of seeds of each run.
    pub seeds: u64,
    pub columns: Vec<Column>,
    /// The first variant changes nothing, and the second has other seeds.
    pub variants: Vec<Variant>,
    /// Constants on which no value depends.
    pub without_effect: Vec<String>,
    /// All conclusions, in the order of the table.
    pub conclusions: Vec<Conclusion>,
    /// Number of cells without a value in the unchanged experiment.
    pub failed: usize,
    /// Number of complete runs.
    pub runs: usize,
    /// Number of planned runs. It is larger than `runs` if a signal interrupted the analysis.
    pub planned: usize,
    pub wall: Duration,
}

/// A measured column.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// Whether the values are relative changes, whose differences are in percentage points.
    pub relative: bool,
    /// Number of conclusions about signs.
    pub signs: usize,
    /// Number of conclusions about the order of two rows.
    pub orders: usize,
}

/// The effect of one change.
#[derive(Clone, Debug)]
pub struct Variant {
    pub change: Change,
    /// The effect on each column, in the order of [`Sensitivity::columns`].
    pub effects: Vec<Effect>,
}

/// The effect of a change on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Largest change of a value, in percentage points or percent.
    pub largest_change: Option<f64>,
    /// Number of signs that turn over.
    pub signs: usize,
    /// Number of pairs of rows whose order turns over.
    pub orders: usize,
    /// Rank correlation with the published values.
    pub spearman: Option<f64>,
}

/// The kind of a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConclusionKind {
    /// A relative change is positive or negative.
    Sign,
    /// One row has a higher value than another.
    Order,
}

/// A conclusion from the measured values.
#[derive(Clone, Debug)]
pub struct Conclusion {
    pub kind: ConclusionKind,
    pub column: usize,
    pub text: String,
    /// The value of a sign, or the difference of an order.
    pub difference: f64,
    /// Names of the changes that turn the conclusion over, with the value that it then has.
    pub turned_by: Vec<(String, f64)>,
    /// Whether other seeds turn it over, so that it may be chance.
    pub by_chance: bool,
}

impl Experiment {
    /// Halves and doubles each constant of the experiment and compares the results.
    ///
    /// First, each constant is doubled. A constant whose double changes no value is not halved.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn sensitivity(&self, options: &Options, progress: &Progress) -> Result<Sensitivity, Error> {
        self.published(&self.plan(&options.with)?)?;
        let family = variants::Family::new(self, options)?;
        let options = Options {
            seeds: Some(family.seeds),
            ..options.clone()
        };
        let mut changes = vec![Change::Nothing, Change::Seeds];
        changes.extend(family.changes(Factor::Double)?);
        let mut found = self.compare_variants(&family, &changes, &options, progress)?;
        let base = found.comparisons.first().cloned();
        let has_effect =
            |comparison: &Comparison| base.as_ref().is_some_and(|base| !conclusions::equal(base, comparison));
        let effective: Vec<&str> = changes
            .iter()
            .zip(&found.comparisons)
            .filter(|(_, comparison)| has_effect(comparison))
            .filter_map(|(change, _)| change.constant())
            .collect();
        let is_effective = |change: &Change| change.constant().is_none_or(|name| effective.contains(&name));
        let without_effect = changes.iter().filter(|change| !is_effective(change));
        let without_effect: Vec<String> = without_effect
            .filter_map(|change| change.constant().map(str::to_owned))
            .collect();
        let halves = family.changes(Factor::Half)?;
        let halves: Vec<Change> = halves.into_iter().filter(is_effective).collect();
        if found.runs == found.planned && !halves.is_empty() {
            let more = self.compare_variants(&family, &halves, &options, progress)?;
            found.comparisons.extend(more.comparisons);
            found.runs += more.runs;
            found.planned += more.planned;
            found.wall += more.wall;
        }
        changes.extend(halves);
        let compared: Vec<(Change, Comparison)> = changes.into_iter().zip(found.comparisons).collect();
        let kept = compared.into_iter().filter(|(change, _)| {
            !change
                .constant()
                .is_some_and(|name| without_effect.iter().any(|known| known == name))
        });
        let plan = &family.base;
        let mut sensitivity = conclusions::conclude(plan, &self.compared_keys(plan), kept.collect());
        sensitivity.name.clone_from(&self.name);
        sensitivity.title.clone_from(&self.definition.title);
        sensitivity.seeds = family.seeds;
        sensitivity.without_effect = without_effect;
        (sensitivity.runs, sensitivity.planned, sensitivity.wall) = (found.runs, found.planned, found.wall);
        Ok(sensitivity)
    }

    /// Executes the runs of all variants together, so that all threads are busy until the end.
    fn compare_variants(
        &self,
        family: &variants::Family,
        changes: &[Change],
        options: &Options,
        progress: &Progress,
    ) -> Result<Compared, Error> {
        let plans: Vec<Plan> = changes
            .iter()
            .map(|change| family.plan(change))
            .collect::<Result<_, _>>()?;
        let mut all = family.base.clone();
        all.cases = plans.iter().flat_map(|plan| plan.cases.clone()).collect();
        let inputs = Inputs::default();
        let measured = all.run(self, options, progress, &|run, wanted, report| {
            simulate(&inputs, run, wanted, report)
        })?;
        let each = measured.rows.len() / changes.len().max(1);
        let (runs, planned, wall) = (measured.runs, measured.planned, measured.wall);
        let mut rows = measured.rows.into_iter();
        let comparison = |plan: &Plan| {
            let measured = Measured {
                rows: rows.by_ref().take(each).collect(),
                runs,
                planned,
                wall,
            };
            compare(self, plan, measured)
        };
        Ok(Compared {
            comparisons: plans.iter().map(comparison).collect::<Result<_, _>>()?,
            runs,
            planned,
            wall,
        })
    }

    /// Returns the key columns whose values are compared with each other: those of
    /// `[sensitivity] compare`, else those that the `[[case]]` tables set, else the first one.
    fn compared_keys(&self, plan: &Plan) -> Vec<String> {
        let keys: Vec<&String> = plan
            .columns
            .iter()
            .filter(|column| !plan.measured.contains(column))
            .collect();
        let listed = self
            .definition
            .sensitivity
            .as_ref()
            .map(|table| &table.get_ref().compare);
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            return listed.clone();
        }
        let is_set = |column: &&&String| {
            let mut cases = self.definition.cases.iter().map(|case| case.get_ref());
            cases.any(|case| {
                case.keys.contains_key(**column) || case.each.iter().any(|each| each.contains_key(**column))
            })
        };
        let set: Vec<String> = keys.iter().filter(is_set).map(|column| (*column).clone()).collect();
        match set.is_empty() {
            true => keys.first().map(|column| (*column).clone()).into_iter().collect(),
            false => set,
        }
    }
}

/// The values of several variants.
struct Compared {
    comparisons: Vec<Comparison>,
    runs: usize,
    planned: usize,
    wall: Duration,
}
