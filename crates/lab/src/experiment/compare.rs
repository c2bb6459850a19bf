// SPDX-License-Identifier: GPL-2.0-only
//! Compares measured with published values and computes how well they agree.

use super::Experiment;
use super::cases::{Calibration, Plan};
use super::measure::{Against, Quantity};
use super::run::{Cell, Measured};
use super::statistics::{Estimate, median, spearman};
use input::error::Error;
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum published effect in percentage points. The signs of smaller effects are not compared.
pub const SIGN_FROM_POINTS: f64 = 3.0;

/// Measured and published values of an experiment.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub name: String,
    pub title: String,
    pub question: String,
    pub source: String,
    pub scale: Option<String>,
    /// Heading of the column of reference values: `published`, or `theory` if nothing was
    /// published.
    pub reference: &'static str,
    /// Columns that identify a row.
    pub keys: Vec<String>,
    /// Columns that were measured.
    pub values: Vec<String>,
    pub rows: Vec<Row>,
    pub agreement: Vec<Agreement>,
    /// Published values that do not count as agreement, because constants were inferred from them.
    pub calibrated: Vec<Calibration>,
    /// Number of complete runs.
    pub runs: usize,
    /// Number of planned runs. It is larger than `runs` if a signal interrupted the experiment.
    pub planned: usize,
    pub wall: Duration,
    /// Notes for the user, for example about published rows that were not measured.
    pub notes: Vec<String>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Values of the key columns, in the order of [`Comparison::keys`].
    pub keys: Vec<String>,
    /// Values of the measured columns, in the order of [`Comparison::values`]. `None` if the row
    /// has no value in a column.
    pub cells: Vec<Option<Compared>>,
}

/// A cell of the table: measured and published value.
#[derive(Clone, Debug)]
pub struct Compared {
    pub published: Option<f64>,
    pub measured: Cell,
    /// Difference between the measured and the reference value. In a column of relative changes it
    /// is in percentage points, else in percent of the reference value.
    pub difference: Option<f64>,
    /// Whether a constant of the model was inferred from the published value.
    pub calibrated: bool,
}

/// How well the measured values of a column agree with the published ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    pub column: String,
    /// Whether the values are relative changes. Their differences are in percentage points instead
    /// of percent.
    pub relative: bool,
    /// Number of cells with a published and a measured value, without calibrated cells.
    pub cells: usize,
    /// Number of cells that are left out, because a constant was inferred from their published
    /// values.
    pub calibrated: usize,
    /// Number of cells whose sign is compared. The column must contain relative changes, and the
    /// absolute published value must be at least [`SIGN_FROM_POINTS`].
    pub signed: usize,
    /// Number of the `signed` cells in which the measured value has the same sign as the published
    /// one.
    pub right_sign: usize,
    pub spearman: Option<f64>,
    /// Median of the absolute differences, in percentage points or percent.
    pub median_error: Option<f64>,
    pub largest_error: Option<f64>,
    /// The error of predicting no difference. `None` if no cell of the column has a prediction.
    pub no_difference: Option<NoDifference>,
}

/// Error of the prediction that all policies have the same values as the baseline policy. It needs
/// no simulator, so a simulator is informative only if its own error is smaller.
///
/// In a column of relative changes, the prediction is 0. In any other column, it is the published
/// value of the row's baseline row, which the key `no_difference` of the definition selects. A
/// baseline row itself has no prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct NoDifference {
    /// Number of cells with a prediction and a measured value.
    pub cells: usize,
    /// Median of the absolute errors of the prediction, in percentage points or percent.
    pub median_error: f64,
    /// Median of the absolute errors of the measured values in these cells, in the same unit.
    pub measured_error: f64,
}

/// Combines the measured values with the published ones.
///
/// # Errors
/// published.csv cannot be read, or its columns differ from those of the definition.
pub fn compare(experiment: &Experiment, plan: &Plan, measured: Measured) -> Result<Comparison, Error> {
    let published = experiment.published(plan)?;
    let keys: Vec<String> = plan
        .columns
        .iter()
        .filter(|c| !plan.measured.contains(c))
        .cloned()
        .collect();
    let mut matched = vec![false; published.len()];
    let mut rows = Vec::new();
    for row in &measured.rows {
        let own: Vec<String> = keys.iter().map(|key| row.keys[key].clone()).collect();
        let known = published.iter().position(|known| same(&known.keys, &own));
        if let Some(index) = known {
            matched[index] = true;
        }
        let cell = |column: &String| {
            let measured = row.cells.get(column)?.clone();
            let known = known.and_then(|index| published[index].values.get(column).copied());
            let published = known.or(row.expected.get(column).copied());
            let difference = published
                .zip(measured.as_ref().ok())
                .and_then(|(published, measured)| difference(published, measured.mean, plan.is_relative(column)));
            Some(Compared {
                calibrated: known.is_some() && plan.calibrated.iter().any(|c| c.contains(&row.keys, column)),
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
    let missing = published.iter().zip(&matched).filter(|(_, matched)| !**matched);
    let notes = missing.map(|(row, _)| format!("published, but not measured: {}", row.keys.join(", ")));
    let by_theory = published.is_empty() && measured.rows.iter().any(|row| !row.expected.is_empty());
    let agreement = plan.measured.iter().enumerate().filter_map(|(index, column)| {
        let cells = || rows.iter().filter_map(|row| row.cells[index].as_ref());
        let pair = |cell: &Compared| Some((cell.published?, cell.measured.as_ref().ok()?.mean));
        let pairs: Vec<(f64, f64)> = cells().filter(|cell| !cell.calibrated).filter_map(pair).collect();
        let calibrated = cells().filter(|cell| cell.calibrated && pair(cell).is_some()).count();
        let relative = plan.is_relative(column);
        let mut found = agreement(column, relative, &pairs, calibrated)?;
        if !by_theory {
            found.no_difference = no_difference(plan, &published, &keys, &rows, index);
        }
        Some(found)
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
        calibrated: plan.calibrated.clone(),
        notes: notes.collect(),
        keys,
        rows,
        runs: measured.runs,
        planned: measured.planned,
        wall: measured.wall,
    })
}

impl Plan {
    /// Returns whether the values of a column are relative changes.
    pub fn is_relative(&self, column: &str) -> bool {
        let rows = self.cases.iter().flat_map(|case| &case.rows);
        let quantities = rows.filter_map(|row| row.values.get(column));
        let relative = |q: &Quantity| matches!(q.against, Some(Against::Relative | Against::Speedup));
        quantities.map(relative).next().unwrap_or(false)
    }
}

impl Comparison {
    /// Returns the comparison with the measured values of `other` as reference values, instead of
    /// the published values.
    #[must_use]
    pub fn with_reference(mut self, other: &Comparison, reference: &'static str) -> Comparison {
        let cells = self.rows.iter_mut().flat_map(|row| row.cells.iter_mut());
        let others = other.rows.iter().flat_map(|row| row.cells.iter());
        for (cell, other) in cells.zip(others) {
            let (Some(cell), Some(other)) = (cell, other) else {
                continue;
            };
            // The values of the other comparison are measured, so no constant was inferred from
            // them.
            cell.calibrated = false;
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
                agreement(column, false, &pairs.collect::<Vec<_>>(), 0)
            })
            .collect();
        self.calibrated.clear();
        self.reference = reference;
        self
    }

    /// Returns whether a signal ended the experiment before all runs were complete.
    pub fn interrupted(&self) -> bool {
        self.runs < self.planned
    }

    /// Returns the number of cells without a value.
    pub fn failed(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        cells.filter(|cell| cell.measured.is_err()).count()
    }

    /// Returns the largest half width of a confidence interval, in percent of the measured value.
    /// Cells without a published value are ignored.
    pub fn widest_percent(&self) -> Option<f64> {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let compared = cells.filter(|cell| cell.published.is_some());
        let estimates = compared.filter_map(|cell| cell.measured.as_ref().ok());
        let percent = |e: &Estimate| Some(100.0 * e.half_width? / e.mean.abs());
        estimates.filter_map(percent).max_by(f64::total_cmp)
    }
}

/// Returns the error of predicting no difference for the column with this index in
/// [`Comparison::values`].
fn no_difference(
    plan: &Plan,
    published: &[Published],
    keys: &[String],
    rows: &[Row],
    index: usize,
) -> Option<NoDifference> {
    let column = &plan.measured[index];
    let relative = plan.is_relative(column);
    let predict = |row: &Row| {
        if relative {
            return Some(0.0);
        }
        let key = |(name, own): (&String, &String)| plan.no_difference.get(name).unwrap_or(own).clone();
        let baseline: Vec<String> = keys.iter().zip(&row.keys).map(key).collect();
        // A row that is its own baseline row has no prediction. Without `no_difference`, this is
        // every row.
        let known = published.iter().find(|known| same(&known.keys, &baseline))?;
        (!same(&baseline, &row.keys)).then(|| known.values.get(column).copied())?
    };
    let errors = rows.iter().filter_map(|row| {
        let cell = row.cells[index].as_ref().filter(|cell| !cell.calibrated)?;
        let own = difference(cell.published?, cell.measured.as_ref().ok()?.mean, relative)?;
        Some((difference(cell.published?, predict(row)?, relative)?.abs(), own.abs()))
    });
    let (errors, measured): (Vec<f64>, Vec<f64>) = errors.unzip();
    Some(NoDifference {
        cells: errors.len(),
        median_error: median(&errors)?,
        measured_error: median(&measured)?,
    })
}

/// Returns the difference between a measured and a published value. If 0 was published and the
/// measured value is not 0, the difference in percent is infinite, and the result is `None`.
fn difference(published: f64, measured: f64, relative: bool) -> Option<f64> {
    match relative {
        true => Some(measured - published),
        false if measured == published => Some(0.0),
        false => (published != 0.0).then(|| 100.0 * (measured - published) / published.abs()),
    }
}

/// Returns whether two lists of keys are equal. Keys that are numbers are compared as numbers, so 4
/// equals 4.0.
fn same(a: &[String], b: &[String]) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let equal = |(a, b): (&String, &String)| a == b || number(a).is_some_and(|a| number(b) == Some(a));
    a.iter().zip(b).all(equal)
}

/// Returns how well pairs (published, measured) agree, or `None` if there are no published values.
/// `calibrated` is the number of pairs that were left out. The error of predicting no difference is
/// missing, because it depends on the rows.
pub fn agreement(column: &str, relative: bool, pairs: &[(f64, f64)], calibrated: usize) -> Option<Agreement> {
    if pairs.is_empty() && calibrated == 0 {
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
        calibrated,
        signed: signed().count(),
        right_sign: signed().filter(|(p, m)| p.signum() == m.signum()).count(),
        spearman: spearman(pairs),
        median_error: median(&errors),
        largest_error: errors.iter().copied().max_by(f64::total_cmp),
        no_difference: None,
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
    fn signs_of_small_effects_do_not_count() {
        let pairs = [(10.0, 5.0), (-10.0, -1.0), (-20.0, 4.0), (2.0, -1.0), (3.0, 0.5)];
        let found = agreement("gain", true, &pairs, 0).expect("the list of pairs is not empty");
        assert_eq!((found.cells, found.signed, found.right_sign), (5, 4, 3));
        // The differences are 5, 9, 24, 3 and 2.5.
        assert_eq!((found.median_error, found.largest_error), (Some(5.0), Some(24.0)));
        // The published values have the ranks 5 2 1 3 4, the measured ones 5 1.5 4 1.5 3.
        let d: [f64; 5] = [0.0, 0.5, 3.0, 1.5, 1.0];
        let rough = 1.0 - 6.0 * d.iter().map(|d| d * d).sum::<f64>() / 120.0;
        assert!((found.spearman.expect("five pairs have a rank correlation") - rough).abs() < 0.02);
    }

    #[test]
    fn absolute_columns_are_compared_in_percent_and_have_no_sign() {
        let found = agreement("time_s", false, &[(10.0, 11.0), (20.0, 19.0), (40.0, 40.0)], 0)
            .expect("the list of pairs is not empty");
        assert_eq!(
            (found.signed, found.median_error, found.spearman),
            (0, Some(5.0), Some(1.0))
        );
        assert_eq!(agreement("time_s", false, &[], 0), None);
        // A column of which all values are calibrated is reported without statistics.
        let calibrated = agreement("time_s", false, &[], 2).expect("two values were published");
        assert_eq!((calibrated.cells, calibrated.calibrated), (0, 2));
        assert_eq!((calibrated.median_error, calibrated.spearman), (None, None));
        // The published value is 0.
        assert_eq!(difference(0.0, 0.0, false), Some(0.0));
        assert_eq!(difference(0.0, 2.0, false), None);
    }

    #[test]
    fn keys_are_compared_as_numbers() {
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        assert!(same(&keys(&["DSS", "", "4"]), &keys(&["DSS", "", "4.0"])));
        assert!(!same(&keys(&["DSS", "", "4"]), &keys(&["DSS", "0", "4"])));
    }
}
