// SPDX-License-Identifier: GPL-2.0-only
//! Measured beside published: rows of both, and how well they agree.

use super::Experiment;
use super::cases::Plan;
use super::measure::{Against, Quantity};
use super::run::{Cell, Measured};
use super::statistics::{Estimate, median, spearman};
use crate::error::Error;
use std::collections::BTreeMap;
use std::time::Duration;

/// A published effect smaller than this, in points, has no sign worth having.
pub const SIGN_FROM_POINTS: f64 = 3.0;

/// An experiment that was run.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub name: String,
    pub title: String,
    pub question: String,
    pub source: String,
    pub scale: Option<String>,
    /// What it is compared with: what was published, or without that theory.
    pub reference: &'static str,
    /// The columns that identify a row.
    pub keys: Vec<String>,
    /// The columns that were measured.
    pub values: Vec<String>,
    pub rows: Vec<Row>,
    pub agreement: Vec<Agreement>,
    pub runs: usize,
    /// Runs that there are: more than complete ones if a signal came.
    pub planned: usize,
    pub wall: Duration,
    /// What the user should know: published rows that nothing measures.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Row {
    /// In the order of [`Comparison::keys`].
    pub keys: Vec<String>,
    /// In the order of [`Comparison::values`]; `None`: the row has no such value.
    pub cells: Vec<Option<Compared>>,
}

#[derive(Clone, Debug)]
pub struct Compared {
    pub published: Option<f64>,
    pub measured: Cell,
    /// In points of a relative column, else in percent of what was published.
    pub difference: Option<f64>,
}

/// How well a column agrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    pub column: String,
    /// Values are differences already: they are compared in points, not in percent.
    pub relative: bool,
    /// Cells with a published and a measured value.
    pub cells: usize,
    /// Of these, those with a sign (relative columns), and those measured with the same.
    pub signed: usize,
    pub right_sign: usize,
    pub spearman: Option<f64>,
    /// In points or percent.
    pub median_error: Option<f64>,
    pub largest_error: Option<f64>,
}

/// Sets what was measured beside what was published.
///
/// # Errors
/// If published.csv cannot be read or has other columns.
pub fn compare(experiment: &Experiment, plan: &Plan, measured: Measured) -> Result<Comparison, Error> {
    let published = experiment.published(plan)?;
    let keys: Vec<String> = plan
        .columns
        .iter()
        .filter(|c| !plan.measured.contains(c))
        .cloned()
        .collect();
    let mut taken = vec![false; published.len()];
    let mut rows = Vec::new();
    for row in &measured.rows {
        let own: Vec<String> = keys.iter().map(|key| row.keys[key].clone()).collect();
        let known = published.iter().position(|known| same(&known.keys, &own));
        if let Some(index) = known {
            taken[index] = true;
        }
        let cell = |column: &String| {
            let measured = row.cells.get(column)?.clone();
            let known = known.and_then(|index| published[index].values.get(column).copied());
            let published = known.or(row.expected.get(column).copied());
            let difference = published
                .zip(measured.as_ref().ok())
                .and_then(|(published, measured)| difference(published, measured.mean, plan.is_relative(column)));
            Some(Compared {
                published,
                measured,
                difference,
            })
        };
        rows.push(Row {
            cells: plan.measured.iter().map(cell).collect(),
            keys: own,
        });
    }
    let missing = published.iter().zip(&taken).filter(|(_, taken)| !**taken);
    let notes = missing.map(|(row, _)| format!("published, but not measured: {}", row.keys.join(", ")));
    let by_theory = published.is_empty() && measured.rows.iter().any(|row| !row.expected.is_empty());
    let agreement = plan.measured.iter().enumerate().filter_map(|(index, column)| {
        let cells = rows.iter().filter_map(|row| row.cells[index].as_ref());
        let pairs = cells.filter_map(|cell| Some((cell.published?, cell.measured.as_ref().ok()?.mean)));
        agreement(column, plan.is_relative(column), &pairs.collect::<Vec<_>>())
    });
    let definition = &experiment.definition;
    Ok(Comparison {
        name: experiment.name.clone(),
        title: definition.title.clone(),
        question: definition.question.clone(),
        source: definition.source.clone(),
        scale: definition.scale.clone(),
        values: plan.measured.clone(),
        reference: if by_theory { "theory" } else { "published" },
        agreement: agreement.collect(),
        notes: notes.collect(),
        keys,
        rows,
        runs: measured.runs,
        planned: measured.planned,
        wall: measured.wall,
    })
}

impl Plan {
    /// Whether a column shows differences.
    pub fn is_relative(&self, column: &str) -> bool {
        let rows = self.cases.iter().flat_map(|case| &case.rows);
        let quantities = rows.filter_map(|row| row.values.get(column));
        let relative = |q: &Quantity| matches!(q.against, Some(Against::Relative | Against::Speedup));
        quantities.map(relative).next().unwrap_or(false)
    }
}

impl Comparison {
    /// Takes what `other` measured as the reference, instead of what was published.
    #[must_use]
    pub fn beside(mut self, other: &Comparison, reference: &'static str) -> Comparison {
        let cells = self.rows.iter_mut().flat_map(|row| row.cells.iter_mut());
        let others = other.rows.iter().flat_map(|row| row.cells.iter());
        for (cell, other) in cells.zip(others) {
            let (Some(cell), Some(other)) = (cell, other) else {
                continue;
            };
            cell.published = other.measured.as_ref().ok().map(|estimate| estimate.mean);
            let measured = cell.measured.as_ref().ok().map(|estimate| estimate.mean);
            cell.difference = cell.published.zip(measured).and_then(|(a, b)| difference(a, b, false));
        }
        self.agreement = self
            .values
            .iter()
            .enumerate()
            .filter_map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.cells[index].as_ref());
                let pairs = cells.filter_map(|cell| Some((cell.published?, cell.measured.as_ref().ok()?.mean)));
                agreement(column, false, &pairs.collect::<Vec<_>>())
            })
            .collect();
        self.reference = reference;
        self
    }

    /// A signal came before all runs were complete.
    pub fn interrupted(&self) -> bool {
        self.runs < self.planned
    }

    /// Cells without a value.
    pub fn failed(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        cells.filter(|cell| cell.measured.is_err()).count()
    }

    /// The largest half width of a confidence interval of what was compared, in percent of the value.
    pub fn widest_percent(&self) -> Option<f64> {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let compared = cells.filter(|cell| cell.published.is_some());
        let estimates = compared.filter_map(|cell| cell.measured.as_ref().ok());
        let percent = |e: &Estimate| Some(100.0 * e.half_width? / e.mean.abs());
        estimates.filter_map(percent).max_by(f64::total_cmp)
    }
}

/// `None`: something was measured where nothing was published, and no percentage tells how much more that is.
fn difference(published: f64, measured: f64, relative: bool) -> Option<f64> {
    match relative {
        true => Some(measured - published),
        false if measured == published => Some(0.0),
        false => (published != 0.0).then(|| 100.0 * (measured - published) / published.abs()),
    }
}

/// Keys are equal as texts or as numbers: 4 and 4.0.
fn same(a: &[String], b: &[String]) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let equal = |(a, b): (&String, &String)| a == b || number(a).is_some_and(|a| number(b) == Some(a));
    a.iter().zip(b).all(equal)
}

/// Agreement of pairs (published, measured); `None` without any.
pub fn agreement(column: &str, relative: bool, pairs: &[(f64, f64)]) -> Option<Agreement> {
    if pairs.is_empty() {
        return None;
    }
    let signed = || pairs.iter().filter(|(p, _)| relative && p.abs() >= SIGN_FROM_POINTS);
    let errors: Vec<f64> = pairs
        .iter()
        .filter_map(|&(p, m)| Some(difference(p, m, relative)?.abs()))
        .collect();
    Some(Agreement {
        column: column.to_owned(),
        relative,
        cells: pairs.len(),
        signed: signed().count(),
        right_sign: signed().filter(|(p, m)| p.signum() == m.signum()).count(),
        spearman: spearman(pairs),
        median_error: median(&errors),
        largest_error: errors.iter().copied().max_by(f64::total_cmp),
    })
}

/// A row of published.csv.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub keys: Vec<String>,
    pub values: BTreeMap<String, f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_count_from_three_points() {
        let pairs = [(10.0, 5.0), (-10.0, -1.0), (-20.0, 4.0), (2.0, -1.0), (3.0, 0.5)];
        let told = agreement("gain", true, &pairs).expect("pairs");
        assert_eq!((told.cells, told.signed, told.right_sign), (5, 4, 3));
        // Errors: 5, 9, 24, 3, 2.5.
        assert_eq!((told.median_error, told.largest_error), (Some(5.0), Some(24.0)));
        // Ranks 5 2 1 3 4 against 5 1.5 4 1.5 3.
        let d: [f64; 5] = [0.0, 0.5, 3.0, 1.5, 1.0];
        let rough = 1.0 - 6.0 * d.iter().map(|d| d * d).sum::<f64>() / 120.0;
        assert!((told.spearman.expect("five") - rough).abs() < 0.02);
    }

    #[test]
    fn absolute_columns_are_compared_in_percent_and_have_no_sign() {
        let told = agreement("time_s", false, &[(10.0, 11.0), (20.0, 19.0), (40.0, 40.0)]).expect("pairs");
        assert_eq!(
            (told.signed, told.median_error, told.spearman),
            (0, Some(5.0), Some(1.0))
        );
        assert_eq!(agreement("time_s", false, &[]), None);
        // Nothing was published: what was measured is off by nothing, or by no percentage.
        assert_eq!(difference(0.0, 0.0, false), Some(0.0));
        assert_eq!(difference(0.0, 2.0, false), None);
    }

    #[test]
    fn keys_are_equal_as_numbers() {
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        assert!(same(&keys(&["DSS", "", "4"]), &keys(&["DSS", "", "4.0"])));
        assert!(!same(&keys(&["DSS", "", "4"]), &keys(&["DSS", "0", "4"])));
    }
}
