// SPDX-License-Identifier: GPL-2.0-only
//! Formats the results of experiments as tables and as JSON.

use super::Experiment;
use super::cases::{Calibration, Plan};
use super::compare::{Agreement, Compared, Comparison, NoDifference, Row, SIGN_FROM_POINTS};
use super::statistics::median;
use report::layout::{Grid, Surface};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::escape;

/// Text in place of the difference, if a constant was inferred from the published value.
pub(super) const CALIBRATED: &str = "calibrated";

/// Maximum number of columns of a table with one line for each row. A wider table has one line for
/// each value instead.
const MOST_COLUMNS: usize = 14;

/// Returns the table of an experiment, followed by the agreement. The table shows the published
/// value, the measured value and their difference side by side. `surface` selects text for a
/// terminal or Markdown.
pub fn table(comparison: &Comparison, surface: impl Into<Surface>) -> String {
    let (c, surface) = (comparison, surface.into());
    let mut head = format!("{}: {}\n{}\n", c.name, c.title, c.question);
    if let Some(scale) = &c.scale {
        let _ = writeln!(head, "Scale: {scale}");
    }
    let compared: Vec<bool> = (0..c.values.len()).map(|index| is_compared(c, index)).collect();
    let columns = c.keys.len()
        + compared
            .iter()
            .map(|compared| if *compared { 3 } else { 1 })
            .sum::<usize>();
    // If the table with one line for each row is too wide, each value has a line of its own.
    let wide = Some(grid(wide(c, &compared), surface)).filter(|grid| columns <= MOST_COLUMNS && grid.fits(surface));
    let grid = wide.unwrap_or_else(|| grid(long(c), surface));
    let mut rest = String::new();
    for (row, cell) in c
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().flatten().map(move |cell| (row, cell)))
    {
        if let Err(reason) = &cell.measured {
            let _ = writeln!(rest, "no value: {}: {reason}", row.keys.join(", "));
        }
    }
    for note in &c.notes {
        let _ = writeln!(rest, "{note}");
    }
    for calibration in &c.calibrated {
        let _ = writeln!(rest, "{}", calibration_text(calibration));
    }
    rest.push('\n');
    rest.push_str(&agreement(c));
    let _ = writeln!(rest, "{} runs in {:.1} s", c.runs, c.wall.as_secs_f64());
    format!(
        "{}\n{}{}",
        escape::text(&head),
        grid.render(surface),
        escape::text(&rest)
    )
}

/// The headings, the rows, and the number of columns that identify a row.
type Layout = (Vec<String>, Vec<Vec<String>>, usize);

/// Lays out the table with one line for each row.
fn wide(c: &Comparison, compared: &[bool]) -> Layout {
    let mut head = c.keys.clone();
    for (column, compared) in c.values.iter().zip(compared) {
        if *compared {
            let unit = if is_relative(c, column) { "points" } else { "%" };
            let reference = format!("{column}\n{}", c.reference);
            head.extend([reference, "measured".into(), format!("off by\n{unit}")]);
        } else {
            head.push(column.clone());
        }
    }
    let row = |row: &Row| {
        let cells = row.cells.iter().zip(compared).flat_map(|(cell, compared)| {
            let [published, measured, difference] = cell.as_ref().map(texts).unwrap_or_default();
            if *compared {
                vec![published, measured, difference]
            } else {
                vec![measured]
            }
        });
        row.keys.iter().cloned().chain(cells).collect()
    };
    (head, c.rows.iter().map(row).collect(), c.keys.len())
}

/// Lays out the table with one line for each value of each row.
fn long(c: &Comparison) -> Layout {
    let mut head = c.keys.clone();
    head.extend(["quantity", c.reference, "measured", "off by"].map(String::from));
    let lines = |row: &Row| -> Vec<Vec<String>> {
        let cells = c.values.iter().zip(&row.cells);
        let line = |(column, cell): (&String, &Option<Compared>)| {
            let [published, measured, mut difference] = texts(cell.as_ref()?);
            if !difference.is_empty() && !cell.as_ref()?.calibrated {
                difference += if is_relative(c, column) { " points" } else { " %" };
            }
            let cells = [column.clone(), published, measured, difference];
            Some(row.keys.iter().cloned().chain(cells).collect())
        };
        cells.filter_map(line).collect()
    };
    (head, c.rows.iter().flat_map(lines).collect(), c.keys.len() + 1)
}

/// Formats the published value, the measured value and the difference of a cell.
fn texts(cell: &Compared) -> [String; 3] {
    let measured = match &cell.measured {
        Err(_) => "-".into(),
        Ok(estimate) => match estimate.half_width {
            None => number(estimate.mean),
            Some(width) => format!("{} ± {}", number(estimate.mean), number(width)),
        },
    };
    let difference = match cell.calibrated {
        true => Some(CALIBRATED.into()),
        false => cell.difference.map(|difference| format!("{difference:+.1}")),
    };
    [
        cell.published.map(number).unwrap_or_default(),
        measured,
        difference.unwrap_or_default(),
    ]
}

/// Returns a sentence about published values from which a constant was inferred.
pub(super) fn calibration_text(calibration: &Calibration) -> String {
    let (keys, constant) = (calibration.keys_text(), &calibration.constant);
    format!(
        "calibrated, not counted as agreement: {keys} ({}): {constant}",
        calibration.values.join(", ")
    )
}

/// Returns one line for each column with published values. It says how well the measured values
/// agree, and what the error of predicting no difference would be.
pub fn agreement(c: &Comparison) -> String {
    let line = |a: &Agreement| {
        let unit = if a.relative { " points" } else { " %" };
        let mut parts = vec![input::counted(a.cells, "cell")];
        if a.calibrated > 0 {
            parts.push(format!("{} more not counted (calibrated)", a.calibrated));
        }
        if a.signed > 0 {
            let share = 100.0 * a.right_sign as f64 / a.signed as f64;
            parts.push(format!(
                "right sign {} of {} ({share:.0} %; published effects of at least {SIGN_FROM_POINTS} points)",
                a.right_sign, a.signed
            ));
        }
        parts.extend(a.spearman.map(|rho| format!("Spearman {rho:.2}")));
        parts.extend(
            a.median_error
                .map(|error| format!("median absolute error {error:.1}{unit}")),
        );
        parts.extend(a.largest_error.map(|error| format!("largest {error:.1}{unit}")));
        let predicted = a.no_difference.as_ref().map(|none| {
            let (error, cells, own) = (none.median_error, none.cells, none.measured_error);
            let cells = input::counted(cells, "cell");
            format!("; predicting no difference: {error:.1}{unit} in {cells}, where the model has {own:.1}{unit}")
        });
        format!("{}: {}{}\n", a.column, parts.join(", "), predicted.unwrap_or_default())
    };
    match c.agreement.is_empty() {
        true => "No published values are stored here, so nothing is compared.\n".into(),
        false => c.agreement.iter().map(line).collect(),
    }
}

/// Returns a table with one row for each experiment. The row summarizes all columns of the
/// experiment.
pub fn summary(comparisons: &[Comparison], surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let head = [
        "experiment",
        "rows",
        "cells",
        "right sign",
        "Spearman",
        "median error",
        "no difference",
        "largest",
        "95 % within",
        "runs",
        "s",
    ];
    let mut rows = Vec::new();
    for c in comparisons {
        let sum = |count: fn(&Agreement) -> usize| -> usize { c.agreement.iter().map(count).sum() };
        let signed = sum(|a| a.signed);
        let sign = (signed > 0).then(|| format!("{} of {signed}", sum(|a| a.right_sign)));
        let rhos: Vec<f64> = c.agreement.iter().filter_map(|a| a.spearman).collect();
        let combined = |value: fn(&Agreement) -> Option<f64>, pick: fn(&[f64]) -> Option<f64>, relative: bool| {
            let agreements = c.agreement.iter().filter(|a| a.relative == relative);
            pick(&agreements.filter_map(value).collect::<Vec<_>>())
        };
        let most = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
        let errors = |value: fn(&Agreement) -> Option<f64>, pick: fn(&[f64]) -> Option<f64>| {
            let points = combined(value, pick, true).map(|error| format!("{error:.1} points"));
            let percent = combined(value, pick, false).map(|error| format!("{error:.1} %"));
            points.into_iter().chain(percent).collect::<Vec<_>>().join(", ")
        };
        rows.push(vec![
            c.name.clone(),
            c.rows.len().to_string(),
            sum(|a| a.cells).to_string(),
            sign.unwrap_or_default(),
            median(&rhos).map(|rho| format!("{rho:.2}")).unwrap_or_default(),
            errors(|a| a.median_error, median),
            no_difference(c),
            errors(|a| a.largest_error, most),
            c.widest_percent()
                .map(|width| format!("{width:.1} %"))
                .unwrap_or_default(),
            c.runs.to_string(),
            format!("{:.0}", c.wall.as_secs_f64()),
        ]);
    }
    grid((head.map(String::from).to_vec(), rows, 1), surface).render(surface)
}

/// Returns the error of predicting no difference and, in parentheses, the error of the simulator in
/// the same cells. Each error is the median over the columns of the experiment.
fn no_difference(c: &Comparison) -> String {
    let text = |relative: bool, unit: &str| {
        let agreements = c.agreement.iter().filter(|a| a.relative == relative);
        let found: Vec<&NoDifference> = agreements.filter_map(|a| a.no_difference.as_ref()).collect();
        let middle = |value: fn(&&NoDifference) -> f64| median(&found.iter().map(value).collect::<Vec<_>>());
        let (error, own) = (middle(|none| none.median_error)?, middle(|none| none.measured_error)?);
        Some(format!("{error:.1} {unit} (model {own:.1})"))
    };
    let parts = [text(true, "points"), text(false, "%")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub fn show(experiment: &Experiment, plan: &Plan) -> String {
    let definition = &experiment.definition;
    let mut text = format!("{}: {}\n\n{}\n", experiment.name, definition.title, definition.question);
    let _ = writeln!(text, "Source: {}", definition.source);
    if let Some(scale) = &definition.scale {
        let _ = writeln!(text, "Scale: {scale}");
    }
    let _ = writeln!(text, "Columns: {}", plan.columns.join(", "));
    for (name, value) in &definition.run.get_ref().with {
        let value = super::definition::text(value).unwrap_or_default();
        let _ = writeln!(text, "Variable: --with {name}={value}");
    }
    for calibration in &plan.calibrated {
        let _ = writeln!(text, "{}", calibration_text(calibration));
    }
    let rows: usize = plan.cases.iter().map(|case| case.rows.len()).sum();
    let _ = writeln!(text, "{} cases, {rows} rows\n", plan.cases.len());
    for case in &plan.cases {
        let keys = case.rows.first().map(|row| &row.keys).into_iter().flatten();
        let keys: Vec<String> = keys.map(|(name, value)| format!("{name}={value}")).collect();
        let _ = writeln!(text, "{}, {} seeds", keys.join(" "), case.seeds);
        let _ = writeln!(text, "  {}", case.run.command("run"));
        if let Some(baseline) = &case.baseline {
            let _ = writeln!(text, "  compared with {}", baseline.command("run"));
        }
    }
    text
}

pub fn json(c: &Comparison) -> Value {
    let row = |row: &Row| {
        let keys: serde_json::Map<String, Value> =
            c.keys.iter().cloned().zip(row.keys.iter().map(|k| json!(k))).collect();
        let cells = c.values.iter().zip(&row.cells).filter_map(|(column, cell)| {
            let cell = cell.as_ref()?;
            let estimate = cell.measured.as_ref().ok();
            let value = json!({
                "published": cell.published,
                "measured": estimate.map(|estimate| estimate.mean),
                "half_width_95": estimate.and_then(|estimate| estimate.half_width),
                "difference": cell.difference,
                "calibrated": cell.calibrated,
                "failure": cell.measured.as_ref().err().map(ToString::to_string),
            });
            Some((column.clone(), value))
        });
        json!({ "keys": keys, "values": cells.collect::<serde_json::Map<_, _>>() })
    };
    let agreement = |a: &Agreement| {
        json!({
            "column": a.column,
            "unit": if a.relative { "points" } else { "percent" },
            "cells": a.cells,
            "calibrated": a.calibrated,
            "signed": a.signed,
            "right_sign": a.right_sign,
            "spearman": a.spearman,
            "median_absolute_error": a.median_error,
            "largest_absolute_error": a.largest_error,
            "no_difference": a.no_difference.as_ref().map(|none| json!({
                "cells": none.cells,
                "median_absolute_error": none.median_error,
                "measured_median_absolute_error": none.measured_error,
            })),
        })
    };
    json!({
        "experiment": c.name,
        "title": c.title,
        "source": c.source,
        "scale": c.scale,
        "rows": c.rows.iter().map(row).collect::<Vec<_>>(),
        "agreement": c.agreement.iter().map(agreement).collect::<Vec<_>>(),
        "calibrated": c.calibrated.iter().map(|calibration| json!({
            "keys": calibration.keys,
            "values": calibration.values,
            "constant": calibration.constant,
        })).collect::<Vec<_>>(),
        "notes": c.notes,
        "runs": c.runs,
        "wall_s": c.wall.as_secs_f64(),
    })
}

/// Formats a number with about five digits and without an exponent.
pub fn number(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0".into() } else { text.into() }
}

fn is_compared(c: &Comparison, index: usize) -> bool {
    let mut cells = c.rows.iter().filter_map(|row| row.cells[index].as_ref());
    cells.any(|cell| cell.published.is_some())
}

fn is_relative(c: &Comparison, column: &str) -> bool {
    c.agreement.iter().any(|a| a.column == column && a.relative)
}

/// Builds a table. If the terminal is too narrow for it, the last columns are left out first.
fn grid((head, rows, left): Layout, surface: Surface) -> Grid {
    // Markdown allows no line breaks in cells.
    let text = |text: &String| match surface.terminal {
        true => text.clone(),
        false => text.replace('\n', " "),
    };
    let mut grid = Grid::new();
    for (index, head) in head.iter().enumerate() {
        match index < left {
            true => grid.left(&text(head), 0),
            false => grid.right(&text(head), index),
        }
    }
    rows.iter().for_each(|row| grid.row(row.iter().map(text)));
    grid
}
