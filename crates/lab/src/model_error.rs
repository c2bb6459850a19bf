// SPDX-License-Identifier: GPL-2.0-only
//! How far the simulator's figures were from those of a real kernel: the errors of the model, by
//! figure, number of CPUs and kind of workload.
//!
//! The data file `model_error.csv` is written by `scripts/live/fidelity.py`, which runs the same
//! policies and workloads in a guest and in the simulator (docs/fidelity.md).
//!
//! | column | content |
//! |---|---|
//! | `cpus` | number of CPUs of the guest |
//! | `workload` | the workload, or `all` |
//! | `figure` | name of the figure as in `compare`, or `order`: the order of two policies |
//! | `count` | number of values: policies, or pairs of policies for `order` |
//! | `median`, `p90` | median and 90th percentile of the absolute errors of a figure, in percent |
//! | `change_median`, `change_p90` | the same for the change of the figure from one policy to another. For `order`, `change_median` is the share of pairs in the right order, in percent |

use std::sync::LazyLock;

static DATA: &str = include_str!("model_error.csv");
/// Name of the rows that cover all workloads.
const ALL: &str = "all";

/// The errors of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// Number of CPUs of the machine that was compared.
    pub cpus: u32,
    /// The workload that was compared, or `all`.
    pub workload: String,
    figure: String,
    pub count: u32,
    /// Median of the absolute errors of the figure, in percent.
    pub median: f64,
    pub p90: f64,
    /// Median of the absolute errors of the change from one policy to another, in percent.
    pub change_median: f64,
    pub change_p90: f64,
}

/// What the model's error means for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The change is at most as large as the usual error.
    Undecided,
    /// The change is larger than the usual error, but not than every tenth error.
    Likely,
    /// At most one error in ten is as large as the change.
    Decided,
}

static ROWS: LazyLock<Vec<ModelError>> = LazyLock::new(|| DATA.lines().filter_map(parse).collect());

fn parse(line: &str) -> Option<ModelError> {
    let mut cells = line.split(',');
    let mut next = || cells.next().map(str::trim);
    Some(ModelError {
        cpus: next()?.parse().ok()?,
        workload: next()?.to_owned(),
        figure: next()?.to_owned(),
        count: next()?.parse().ok()?,
        median: next()?.parse().unwrap_or(0.0),
        p90: next()?.parse().unwrap_or(0.0),
        change_median: next()?.parse().ok()?,
        change_p90: next()?.parse().unwrap_or(0.0),
    })
}

/// Returns the kind of a workload such as `hackbench:groups=4` or `dir/mixed.json`.
fn kind(workload: &str) -> &str {
    let name = workload.split(':').next().unwrap_or(workload);
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_suffix(".json").unwrap_or(name)
}

/// Returns the errors of a figure for machines with the nearest number of CPUs and for the same kind
/// of workload, or else for all workloads. Returns `None` if the figure was not compared.
pub fn of(figure: &str, nr_cpus: u64, workload: &str) -> Option<&'static ModelError> {
    find(&ROWS, figure, nr_cpus, workload)
}

fn find<'a>(rows: &'a [ModelError], figure: &str, nr_cpus: u64, workload: &str) -> Option<&'a ModelError> {
    let rows = || rows.iter().filter(|row| row.figure == figure);
    let nearest = rows()
        .map(|row| row.cpus)
        .min_by_key(|&cpus| (u64::from(cpus).abs_diff(nr_cpus), cpus))?;
    let on = |workload: &str| rows().find(|row| row.cpus == nearest && row.workload == workload);
    on(kind(workload)).or_else(|| on(ALL))
}

/// Figures whose errors [`usual`] names.
const USUAL: [&str; 5] = ["score", "switches", "p50_wakeup", "p99_wakeup", "p99_response"];

/// Returns a sentence with the usual errors of the main figures of a run on a machine with `nr_cpus`
/// CPUs: `The model's usual errors: score 12 %, switches 41 % (hackbench on 4 CPUs).`
pub fn usual(nr_cpus: u64, workload: &str) -> Option<String> {
    let score = of("score", nr_cpus, workload)?;
    let errors = USUAL.iter().filter_map(|name| {
        let error = of(name, nr_cpus, workload).filter(|error| error.workload == score.workload)?;
        Some(format!("{name} {}", percent(error.median)))
    });
    let errors: Vec<String> = errors.collect();
    Some(format!(
        "The model's usual errors: {} ({}).",
        errors.join(", "),
        score.place(nr_cpus)
    ))
}

impl ModelError {
    /// Judges the change of a figure from one policy to another, whose ratio is given: 0.5 is as large
    /// a change as 2.
    pub fn trust(&self, ratio: f64) -> Trust {
        match (ratio.max(1.0 / ratio) - 1.0) * 100.0 {
            small if small <= self.change_median => Trust::Undecided,
            large if large > self.change_p90 => Trust::Decided,
            _ => Trust::Likely,
        }
    }

    /// Describes where the errors were measured: `hackbench on 4 CPUs`.
    fn place(&self, nr_cpus: u64) -> String {
        let cpus = match self.cpus {
            1 => "1 CPU".to_owned(),
            n => format!("{n} CPUs"),
        };
        let far = match nr_cpus > 2 * u64::from(self.cpus) {
            true => ", the largest machine compared",
            false => "",
        };
        let workload = match self.workload.as_str() {
            ALL => "all workloads compared",
            name => name,
        };
        format!("{workload} on {cpus}{far}")
    }

    /// Returns a sentence about a change of the figure `name` on a machine with `nr_cpus` CPUs.
    pub fn sentence(&self, name: &str, ratio: f64, nr_cpus: u64, order: Option<&ModelError>) -> String {
        let verdict = match self.trust(ratio) {
            Trust::Undecided => "is undecided by the model, whose error",
            Trust::Likely => "is more than the model's usual error, which",
            Trust::Decided => "is beyond the model's error, which",
        };
        let order = order.map_or_else(String::new, |order| {
            format!("; {} of pairs in the right order", percent(order.change_median))
        });
        format!(
            "{name}: {} {verdict} is about {} for such a change ({}; 90 % of errors below {}{order})",
            change_text(ratio),
            percent(self.change_median),
            self.place(nr_cpus),
            percent(self.change_p90),
        )
    }

    /// Returns the change and the error: `p99_wakeup (4.5 %, error 15 %)`.
    pub fn short(&self, name: &str, ratio: f64) -> String {
        format!("{name} ({}, error {})", change_text(ratio), percent(self.change_median))
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "cpus": self.cpus,
            "workload": self.workload,
            "median_percent": self.median,
            "p90_percent": self.p90,
            "change_median_percent": self.change_median,
            "change_p90_percent": self.change_p90,
        })
    }
}

fn percent(percent: f64) -> String {
    match percent {
        small if small < 1.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

fn change_text(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).abs();
    match percent {
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<ModelError> {
        let text = "cpus,workload,figure,count,median,p90,change_median,change_p90
1,all,score,20,3,12,4,20
4,all,score,20,11,26,10,40
4,hackbench,score,3,12,20,11,30
4,all,order,60,,,78,
";
        text.lines().filter_map(parse).collect()
    }

    #[test]
    fn the_nearest_machine_and_the_same_kind_of_workload_are_chosen() {
        let rows = rows();
        let found = |cpus, workload| find(&rows, "score", cpus, workload).map(|row| (row.cpus, row.workload.as_str()));
        assert_eq!(found(1, "hackbench:groups=3"), Some((1, "all")));
        assert_eq!(found(2, "chat"), Some((1, "all")));
        assert_eq!(found(32, "hackbench:groups=3"), Some((4, "hackbench")));
        assert_eq!(found(32, "dir/own.json"), Some((4, "all")));
        assert_eq!(find(&rows, "lock_wait", 4, "chat"), None);
    }

    #[test]
    fn a_change_below_the_usual_error_is_undecided() {
        let rows = rows();
        let error = find(&rows, "score", 4, "hackbench").expect("the row exists");
        assert_eq!(error.trust(1.032), Trust::Undecided);
        assert_eq!(error.trust(0.8), Trust::Likely);
        // Half as much is as large a change as twice as much.
        assert_eq!([error.trust(0.5), error.trust(2.0)], [Trust::Decided; 2]);
        assert_eq!(
            error.sentence("score", 1.032, 32, find(&rows, "order", 32, "hackbench")),
            "score: 3.2 % is undecided by the model, whose error is about 11 % for such a change (hackbench on 4 CPUs, the \
             largest machine compared; 90 % of errors below 30 %; 78 % of pairs in the right order)"
        );
    }

    #[test]
    fn the_data_file_has_rows_for_the_score_and_the_order() {
        for cpus in [1, 4] {
            let score = of("score", cpus, "anything").expect("the score was compared");
            assert_eq!(u64::from(score.cpus), cpus);
            assert!(score.median <= score.p90 && score.change_median <= score.change_p90);
            assert!(of("order", cpus, "anything").is_some());
        }
        assert_eq!(
            DATA.lines().count(),
            ROWS.len() + 1,
            "a line of the data file cannot be read"
        );
        for figure in [
            "switches",
            "migrations",
            "p50_wakeup",
            "p99_wakeup",
            "mean_response",
            "p99_response",
            "busy",
        ] {
            assert!(of(figure, 4, "schbench").is_some(), "{figure}");
        }
    }
}
