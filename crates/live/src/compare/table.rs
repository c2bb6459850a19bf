// SPDX-License-Identifier: GPL-2.0-only
//! Both sides' figures and the error of the simulation, as text for people and as rows of Markdown.

use report::{FIGURES, RunResult};

/// A figure of both sides.
pub struct Row {
    name: String,
    simulated: Option<f64>,
    live: Option<f64>,
}

impl Row {
    /// Of the live figure, in percent.
    fn error(&self) -> Option<f64> {
        let (simulated, live) = (self.simulated?, self.live?);
        (live != 0.0).then(|| 100.0 * (simulated - live) / live)
    }
}

/// Returns the figures that either side has.
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

pub fn text(simulated: &RunResult, live: &RunResult, rows: &[Row]) -> String {
    let mut text = format!(
        "{} under {}\n{:24} {:>14} {:>14} {:>9}\n",
        live.workload, simulated.policy, "", "simulated", "live", "error"
    );
    for row in rows {
        let (simulated, live) = (figure(row.simulated), figure(row.live));
        text += &format!("{:24} {simulated:>14} {live:>14} {:>9}\n", row.name, error(row));
    }
    text
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

    fn both() -> (RunResult, RunResult) {
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
    fn errors_are_the_simulations_of_the_live_figures() {
        let (simulated, live) = both();
        let text = text(&simulated, &live, &rows(&simulated, &live));
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(line("context switches").ends_with("150 100 +50.0 %"), "{text}");
        assert!(line("rounds/s").ends_with("110 100 +10.0 %"), "{text}");
        assert!(line("migrations").ends_with("0.000 4.000 -100.0 %"), "{text}");
        assert!(line("wake-up latency p50").ends_with("- 2.500 -"), "{text}");
        assert!(!text.contains("response"), "{text}");
    }

    #[test]
    fn markdown_has_a_row_a_figure() {
        let (simulated, live) = both();
        let text = markdown(&simulated, &live, &rows(&simulated, &live));
        assert!(
            text.contains("| p | w | context switches | 150 | 100 | +50.0 % |\n"),
            "{text}"
        );
    }
}
