// SPDX-License-Identifier: GPL-2.0-only
//! Both sides' figures and the error of the simulation, as text for people and as rows of Markdown.

use report::RunResult;
use std::collections::BTreeMap;

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

/// What both sides tell. A figure that neither has is left out.
pub fn rows(simulated: &RunResult, live: &RunResult) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: String, of: &dyn Fn(&RunResult) -> Option<f64>| {
        let row = Row {
            name,
            simulated: of(simulated),
            live: of(live),
        };
        if row.simulated.is_some() || row.live.is_some() {
            rows.push(row);
        }
    };
    let seconds = |r: &RunResult| r.simulated_ns.max(1) as f64 / 1e9;
    row(format!("score, {}", live.score_unit), &|r| r.score);
    row("time of the run, s".into(), &|r| Some(seconds(r)));
    row(format!("{}/s", live.throughput.unit), &|r| {
        Some(r.throughput.per_second)
    });
    row("context switches".into(), &|r| Some(r.context_switches as f64));
    row("migrations".into(), &|r| Some(r.migrations as f64));
    row("preemptions".into(), &|r| Some(r.preemptions as f64));
    let us = |ns: u64| ns as f64 / 1e3;
    row("wake-up latency p50, us".into(), &|r| {
        (r.wakeup_latency_ns.count > 0).then(|| us(r.wakeup_latency_ns.p50))
    });
    row("wake-up latency p99, us".into(), &|r| {
        (r.wakeup_latency_ns.count > 0).then(|| us(r.wakeup_latency_ns.p99))
    });
    row("response mean, us".into(), &|r| {
        (r.response_ns.count > 0).then(|| us(r.response_ns.mean))
    });
    row("response p99, us".into(), &|r| {
        (r.response_ns.count > 0).then(|| us(r.response_ns.p99))
    });
    row("fairness (Jain)".into(), &fairness);
    row("busy, %".into(), &|r| Some(r.busy_percent));
    rows
}

/// Jain's index of the CPU times of the largest group of tasks that are called alike, numbers aside. `RunResult::fairness` is stricter
/// than fits here: threads sleep when they begin, and simulated tasks do not.
fn fairness(r: &RunResult) -> Option<f64> {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for task in &r.tasks {
        let name = task.comm.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        groups.entry(name).or_default().push(task.cpu_ns as f64);
    }
    let shares = groups
        .into_values()
        .filter(|shares| shares.len() > 1)
        .max_by_key(Vec::len)?;
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
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
    fn equals_are_those_that_are_called_alike() {
        let task = |comm: &str, cpu_ns| report::TaskResult {
            comm: comm.into(),
            cpu_ns,
            ..report::TaskResult::default()
        };
        let mut r = RunResult {
            tasks: vec![task("hog-1", 30), task("main", 7), task("hog-2", 10), task("nap1", 1)],
            ..RunResult::default()
        };
        assert_eq!(fairness(&r), Some(0.8));
        r.tasks.remove(0);
        assert_eq!(fairness(&r), None);
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
