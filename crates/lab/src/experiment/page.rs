// SPDX-License-Identifier: GPL-2.0-only
//! Writes the HTML page of experiments. Each row of a table shows the published and the measured
//! value as two marks on one axis.

use super::compare::{Compared, Comparison, Row};
use super::present::{CALIBRATED, agreement, calibration_text, number};
use maud::{Markup, html};
use report::html::plain;

/// A table with at least this many rows is collapsed on the page.
const FOLDED_FROM: usize = 48;

/// Returns the page of these experiments.
pub fn page(comparisons: &[Comparison]) -> String {
    let runs: usize = comparisons.iter().map(|c| c.runs).sum();
    let title = match comparisons {
        [one] => one.title.clone(),
        _ => format!("{} experiments", comparisons.len()),
    };
    let seconds: f64 = comparisons.iter().map(|c| c.wall.as_secs_f64()).sum();
    let subtitle = format!("{runs} runs, {seconds:.0} s of wall time");
    plain(
        &title,
        &subtitle,
        &html! { @for c in comparisons { (verdict(c)) (values(c)) } },
    )
}

fn verdict(c: &Comparison) -> Markup {
    html! {
        section.verdict aria-label={ "Verdict on " (c.name) } {
            p.headline { (c.name) ": " (c.question) }
            ul { @for line in agreement(c).lines() { li { (line) } } }
            p.caveat { (c.source) "." @if let Some(scale) = &c.scale { " Scale: " (scale) "." } }
            @for note in &c.notes { p.caveat { (note) } }
            @for calibration in &c.calibrated { p.caveat { (calibration_text(calibration)) } }
        }
    }
}

fn values(c: &Comparison) -> Markup {
    html! {
        @for (index, column) in c.values.iter().enumerate() {
            @let rows: Vec<(&Row, &Compared)> = c.rows.iter().filter_map(|row| Some((row, row.cells[index].as_ref()?))).collect();
            @if !rows.is_empty() {
                section {
                    h2 { (column) }
                    @let table = table(c, column, &rows);
                    @if rows.len() < FOLDED_FROM { (table) }
                    @else { details { summary { (rows.len()) " rows" } (table) } }
                }
            }
        }
    }
}

fn table(c: &Comparison, column: &str, rows: &[(&Row, &Compared)]) -> Markup {
    let relative = c.agreement.iter().any(|a| a.column == column && a.relative);
    let compared = rows.iter().any(|(_, cell)| cell.published.is_some());
    let width = |cell: &Compared| cell.measured.as_ref().ok().and_then(|estimate| estimate.half_width);
    let intervals = rows.iter().any(|(_, cell)| width(cell).is_some());
    let axis = Axis::spanning(rows.iter().map(|(_, cell)| *cell));
    html! {
        @if compared {
            p.keys {
                span.key { i.published {} (c.reference) } span.key { i.measured {} "measured" @if intervals { ", with its 95 % confidence interval" } }
            }
        }
        div.scroll tabindex="0" role="region" aria-label=(column) { table {
            thead { tr {
                @for key in &c.keys { th scope="col" { (key) } }
                @if compared { th.n scope="col" { (c.reference) } }
                th.n scope="col" { "measured" }
                @if compared { th.n scope="col" { "off by " (if relative { "points" } else { "%" }) } }
                th.wide scope="col" { span.axis { span { (number(axis.low)) } span { (number(axis.high)) } } }
            } }
            tbody { @for (row, cell) in rows { tr {
                @for key in &row.keys { td { (key) } }
                @if compared { td.n { (cell.published.map_or_else(|| "–".to_owned(), number)) } }
                @match &cell.measured {
                    Ok(estimate) => td.n { (number(estimate.mean)) @if let Some(width) = estimate.half_width { " ± " (number(width)) } },
                    Err(reason) => td.n.bad title=(reason) { "no value" },
                }
                @if cell.calibrated { td.n { (CALIBRATED) } }
                @else if compared { td.n { (cell.difference.map(|by| format!("{by:+.1}").replace('-', "−")).unwrap_or_default()) } }
                td.wide { (dots(cell, &axis)) }
            } } }
        } }
    }
}

/// The range of an axis. It contains all values of a column. It also contains 0, unless 0 is far
/// from all values.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn spanning<'a>(cells: impl Iterator<Item = &'a Compared>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for cell in cells {
            let measured = cell.measured.as_ref().ok();
            let width = measured.and_then(|estimate| estimate.half_width).unwrap_or(0.0);
            let ends = measured.map(|estimate| [estimate.mean - width, estimate.mean + width]);
            for value in ends.into_iter().flatten().chain(cell.published) {
                (low, high) = (low.min(value), high.max(value));
            }
        }
        if low > high {
            return Axis { low: 0.0, high: 1.0 };
        }
        if low > 0.0 && low < high / 2.0 {
            low = 0.0;
        }
        if low >= high {
            high = low + 1.0;
        }
        Axis { low, high }
    }

    fn x(&self, value: f64) -> String {
        format!("{:.1}", 1000.0 * (value - self.low) / (self.high - self.low))
    }
}

fn dots(cell: &Compared, axis: &Axis) -> Markup {
    let measured = cell.measured.as_ref().ok();
    html! {
        svg.dots viewBox="0 0 1000 18" preserveAspectRatio="none" aria-hidden="true" {
            @if axis.low < 0.0 && axis.high > 0.0 { path.zero d={ "M" (axis.x(0.0)) " 0V18" } {} }
            @if let (Some(estimate), Some(published)) = (measured, cell.published) {
                path.off d={ "M" (axis.x(published)) " 9H" (axis.x(estimate.mean)) } {}
            }
            @if let Some(published) = cell.published { path.published d={ "M" (axis.x(published)) " 2V16" } {} }
            @if let Some(estimate) = measured {
                @if let Some(width) = estimate.half_width {
                    path.interval d={ "M" (axis.x(estimate.mean - width)) " 9H" (axis.x(estimate.mean + width)) } {}
                }
                path.measured d={ "M" (axis.x(estimate.mean)) " 9h0.01" } {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::statistics::Estimate;

    fn cell(published: Option<f64>, mean: f64, half_width: Option<f64>) -> Compared {
        Compared {
            published,
            measured: Ok(Estimate { mean, half_width }),
            difference: None,
            calibrated: false,
        }
    }

    #[test]
    fn an_axis_includes_all_values_and_intervals() {
        let ends = |cells: &[Compared]| {
            let axis = Axis::spanning(cells.iter());
            (axis.low, axis.high)
        };
        assert_eq!(ends(&[cell(Some(-3.0), 5.0, Some(2.0))]), (-3.0, 7.0));
        // The axis starts at 0, unless 0 is far from all values.
        assert_eq!(ends(&[cell(Some(2.0), 5.0, None)]), (0.0, 5.0));
        assert_eq!(ends(&[cell(Some(90.0), 100.0, None)]), (90.0, 100.0));
        assert_eq!(ends(&[cell(None, 4.0, None)]), (4.0, 5.0));
        assert_eq!(ends(&[]), (0.0, 1.0));
        let axis = Axis { low: -10.0, high: 10.0 };
        let drawn = dots(&cell(Some(0.0), 5.0, Some(1.0)), &axis).into_string();
        for part in ["M500.0 0V18", "M700.0 9H800.0", "M750.0 9h", "M500.0 9H750.0"] {
            assert!(drawn.contains(part), "{part} in {drawn}");
        }
    }
}
