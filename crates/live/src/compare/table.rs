// SPDX-License-Identifier: GPL-2.0-only
//! The table of a comparison. It shows the figures of both sides and the error of the simulation,
//! as text or as Markdown rows.

use report::layout::{Grid, Surface};
use report::{FIGURES, RunResult};
use trace::escape;

/// A figure, with its simulated and its live value.
pub struct Row {
    name: String,
    simulated: Option<f64>,
    live: Option<f64>,
}

impl Row {
    /// Returns the simulation's error, in percent of the live value.
    fn error(&self) -> Option<f64> {
        let (simulated, live) = (self.simulated?, self.live?);
        (live != 0.0).then(|| 100.0 * (simulated - live) / live)
    }
}

/// Returns the figures for which at least one side has a value.
pub fn rows(simulated: &RunResult, live: &RunResult) -> Vec<Row> {
    let rows = FIGURES.iter().filter_map(|figure| {
        let shown = figure.live?;
        let value = |result| Some((figure.value)(result)? / shown.scale);
        let name = shown.name.replace("{score unit}", &live.score_unit);
        Some(Row {
            name: name.replace("{operations}", &live.throughput.unit),
            simulated: value(simulated),
            live: value(live),
        })
    });
    rows.filter(|row| row.simulated.is_some() || row.live.is_some())
        .collect()
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value == value.trunc() && value.abs() >= 10.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn error(row: &Row) -> String {
    row.error()
        .map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} %"))
}

pub fn text(simulated: &RunResult, live: &RunResult, rows: &[Row], surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let mut grid = Grid::new();
    grid.left("", 0);
    grid.right("simulated", 0);
    grid.right("live", 0);
    grid.right("error", 1);
    for row in rows {
        grid.row([row.name.clone(), figure(row.simulated), figure(row.live), error(row)]);
    }
    let names = [&live.workload, &simulated.policy].map(|name| escape::line(name));
    surface.line(&format!("{} under {}", names[0], names[1]), " ") + &grid.render(surface)
}

pub fn markdown(simulated: &RunResult, live: &RunResult, rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            simulated.policy,
            live.workload,
            row.name,
            figure(row.simulated),
            figure(row.live),
            error(row)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Percentiles;

    fn results() -> (RunResult, RunResult) {
        let mut simulated = RunResult {
            policy: "p".into(),
            simulated_ns: 2_000_000_000,
            context_switches: 150,
            ..RunResult::default()
        };
        simulated.throughput.per_second = 110.0;
        let mut live = RunResult {
            workload: "w".into(),
            simulated_ns: 1_000_000_000,
            context_switches: 100,
            migrations: 4,
            wakeup_latency_ns: Percentiles {
                count: 2,
                p50: 2_500,
                ..Percentiles::default()
            },
            ..RunResult::default()
        };
        live.throughput.per_second = 100.0;
        live.throughput.unit = "rounds".into();
        (simulated, live)
    }

    #[test]
    fn errors_are_percentages_of_the_live_figures() {
        let (simulated, live) = results();
        let text = text(&simulated, &live, &rows(&simulated, &live), false);
        let line = |name: &str| {
            let row = format!("| {name}");
            let line = text.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
            let words = line.split(['|', ' ']).filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(line("context switches").ends_with("150 100 +50.0 %"), "{text}");
        assert!(line("rounds/s").ends_with("110 100 +10.0 %"), "{text}");
        assert!(line("migrations").ends_with("0.000 4.000 -100.0 %"), "{text}");
        assert!(line("wake-up latency p50").ends_with("- 2.500 -"), "{text}");
        assert!(!text.contains("response"), "{text}");
        // On a narrow terminal, the column with the error is left out first.
        let narrow = Surface {
            terminal: true,
            width: Some(52),
            ..Surface::default()
        };
        let text = self::text(&simulated, &live, &rows(&simulated, &live), narrow);
        assert!(text.ends_with("not shown at this width: error\n"), "{text}");
    }

    #[test]
    fn markdown_has_one_row_for_each_figure() {
        let (simulated, live) = results();
        let text = markdown(&simulated, &live, &rows(&simulated, &live));
        assert!(
            text.contains("| p | w | context switches | 150 | 100 | +50.0 % |\n"),
            "{text}"
        );
    }
}
