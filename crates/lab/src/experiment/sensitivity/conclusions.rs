// SPDX-License-Identifier: GPL-2.0-only
//! Conclusions from measured values, and whether they hold in other variants of the experiment.

use super::{Change, Column, Conclusion, ConclusionKind, Effect, Sensitivity, Variant};
use crate::experiment::cases::Plan;
use crate::experiment::compare::{Comparison, SIGN_FROM_POINTS};
use std::time::Duration;

/// Returns whether all values of two comparisons are equal.
pub fn equal(a: &Comparison, b: &Comparison) -> bool {
    let rows = a.rows.iter().zip(&b.rows);
    let mut cells = rows.flat_map(|(a, b)| a.cells.iter().zip(&b.cells));
    a.rows.len() == b.rows.len()
        && cells.all(|(a, b)| a.as_ref().map(|a| &a.measured) == b.as_ref().map(|b| &b.measured))
}

fn value(comparison: &Comparison, row: usize, column: usize) -> Option<f64> {
    let cell = comparison.rows.get(row)?.cells[column].as_ref()?;
    cell.measured.as_ref().ok().map(|estimate| estimate.mean)
}

/// Returns by how much `a` exceeds `b`: in percentage points, or in percent of the smaller
/// magnitude.
fn excess(a: f64, b: f64, relative: bool) -> f64 {
    match relative {
        true => a - b,
        false if a == b => 0.0,
        false => 100.0 * (a - b) / a.abs().min(b.abs()),
    }
}

/// Returns whether a difference has the other sign in a variant.
fn is_turned(difference: f64, other: f64) -> bool {
    (difference > 0.0 && other < 0.0) || (difference < 0.0 && other > 0.0)
}

/// Draws the conclusions of the first variant, which changes nothing, and checks them in all other
/// variants. `compared` names the key columns whose values are compared with each other.
///
/// Effects below [`SIGN_FROM_POINTS`] are not conclusions.
pub fn conclude(plan: &Plan, compared: &[String], variants: Vec<(Change, Comparison)>) -> Sensitivity {
    let columns: Vec<Column> = plan
        .measured
        .iter()
        .map(|name| Column {
            name: name.clone(),
            relative: plan.is_relative(name),
            signs: 0,
            orders: 0,
        })
        .collect();
    let mut sensitivity = Sensitivity {
        name: String::new(),
        title: String::new(),
        seeds: 0,
        columns,
        variants: Vec::new(),
        without_effect: Vec::new(),
        conclusions: Vec::new(),
        failed: 0,
        runs: 0,
        planned: 0,
        wall: Duration::ZERO,
    };
    let Some((_, base)) = variants.first() else {
        return sensitivity;
    };
    sensitivity.failed = base.failed();
    let mut effects: Vec<Vec<Effect>> = variants
        .iter()
        .map(|(_, variant)| {
            (0..base.values.len())
                .map(|column| effect(base, variant, column, &sensitivity.columns))
                .collect()
        })
        .collect();
    for statement in statements(base, compared, &sensitivity.columns) {
        let column = statement.column;
        let counted = &mut sensitivity.columns[column];
        match statement.kind {
            ConclusionKind::Sign => counted.signs += 1,
            ConclusionKind::Order => counted.orders += 1,
        }
        let mut conclusion = Conclusion {
            kind: statement.kind,
            column,
            text: statement.text.clone(),
            difference: statement.difference,
            turned_by: Vec::new(),
            by_chance: false,
        };
        for ((change, variant), effects) in variants.iter().zip(&mut effects) {
            let Some(other) = statement.difference_in(variant, counted.relative) else {
                continue;
            };
            if !is_turned(statement.difference, other) {
                continue;
            }
            match statement.kind {
                ConclusionKind::Sign => effects[column].signs += 1,
                ConclusionKind::Order => effects[column].orders += 1,
            }
            if *change == Change::Seeds {
                conclusion.by_chance = true;
            } else {
                conclusion.turned_by.push((change.name(), other));
            }
        }
        sensitivity.conclusions.push(conclusion);
    }
    let changes = variants.into_iter().map(|(change, _)| change);
    let variants = changes
        .zip(effects)
        .map(|(change, effects)| Variant { change, effects });
    sensitivity.variants = variants.collect();
    sensitivity
}

fn effect(base: &Comparison, variant: &Comparison, column: usize, columns: &[Column]) -> Effect {
    let relative = columns[column].relative;
    let changes = (0..base.rows.len()).filter_map(|row| {
        let (before, after) = (value(base, row, column)?, value(variant, row, column)?);
        match relative {
            true => Some((after - before).abs()),
            false if after == before => Some(0.0),
            false => (before != 0.0).then(|| 100.0 * (after / before - 1.0).abs()),
        }
    });
    let agreement = variant.agreement.iter().find(|a| a.column == columns[column].name);
    Effect {
        largest_change: changes.max_by(f64::total_cmp),
        signs: 0,
        orders: 0,
        spearman: agreement.and_then(|agreement| agreement.spearman),
    }
}

/// A conclusion with the rows that it is about.
struct Statement {
    kind: ConclusionKind,
    column: usize,
    row: usize,
    /// For [`ConclusionKind::Order`]: the row that `row` is compared with.
    other: Option<usize>,
    difference: f64,
    text: String,
}

impl Statement {
    fn difference_in(&self, variant: &Comparison, relative: bool) -> Option<f64> {
        let own = value(variant, self.row, self.column)?;
        match self.other {
            None => Some(own),
            Some(other) => Some(excess(own, value(variant, other, self.column)?, relative)),
        }
    }
}

fn statements(base: &Comparison, compared: &[String], columns: &[Column]) -> Vec<Statement> {
    let mut statements = Vec::new();
    let (own, rest): (Vec<usize>, Vec<usize>) =
        (0..base.keys.len()).partition(|&key| compared.contains(&base.keys[key]));
    let names = |row: usize, keys: &[usize]| -> String {
        let keys = keys.iter().map(|&key| base.rows[row].keys[key].as_str());
        keys.filter(|key| !key.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let same_group = |a: usize, b: usize| rest.iter().all(|&key| base.rows[a].keys[key] == base.rows[b].keys[key]);
    for (column, Column { relative, .. }) in columns.iter().enumerate() {
        for row in 0..base.rows.len() {
            let Some(a) = value(base, row, column) else { continue };
            if *relative && a.abs() >= SIGN_FROM_POINTS {
                statements.push(Statement {
                    kind: ConclusionKind::Sign,
                    column,
                    row,
                    other: None,
                    difference: a,
                    text: base.rows[row]
                        .keys
                        .iter()
                        .filter(|key| !key.is_empty())
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            }
            for other in (row + 1..base.rows.len()).filter(|&other| same_group(row, other)) {
                let Some(b) = value(base, other, column) else { continue };
                let difference = excess(a, b, *relative);
                if difference.abs() < SIGN_FROM_POINTS || difference.is_nan() {
                    continue;
                }
                // The row with the higher value comes first.
                let (high, low) = if difference > 0.0 { (row, other) } else { (other, row) };
                let group = match names(row, &rest) {
                    group if group.is_empty() => group,
                    group => format!(" ({group})"),
                };
                statements.push(Statement {
                    kind: ConclusionKind::Order,
                    column,
                    row: high,
                    other: Some(low),
                    difference: difference.abs(),
                    text: format!("{} above {}{group}", names(high, &own), names(low, &own)),
                });
            }
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_vanishes_is_not_turned() {
        assert!(is_turned(3.0, -0.1) && is_turned(-3.0, 0.1));
        assert!(!is_turned(3.0, 0.0) && !is_turned(3.0, 1.0) && !is_turned(-3.0, -9.0));
    }

    #[test]
    fn differences_are_relative_to_the_smaller_value() {
        assert_eq!(excess(5.0, 4.0, false), 25.0);
        assert_eq!(excess(4.0, 5.0, false), -25.0);
        assert_eq!(excess(4.0, -5.0, true), 9.0);
        assert_eq!(excess(0.0, 0.0, false), 0.0);
        assert!(excess(1.0, 0.0, false).is_infinite());
    }
}
