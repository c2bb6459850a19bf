// SPDX-License-Identifier: GPL-2.0-only
//! The metrics of `windtunnel compare`. A metric is a figure of a run's result that has a name for
//! comparisons.

use input::suggest;
use report::{FIGURES, Figure, RunResult, Unit};

/// A figure of a run's result, with the name that it has in comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub figure: &'static Figure,
}

/// Returns all metrics. The first one is the score.
pub fn metrics() -> impl Iterator<Item = Metric> + Clone {
    FIGURES.iter().filter_map(|figure| {
        let name = figure.compare?;
        Some(Metric { name, figure })
    })
}

/// Returns the names of all metrics, separated by `separator`.
pub fn names(separator: &str) -> String {
    metrics().map(|metric| metric.name).collect::<Vec<_>>().join(separator)
}

impl Metric {
    /// Returns the value of the metric in a run. Returns `None` if the run has no such value or its
    /// policy failed.
    pub fn value(&self, result: &RunResult) -> Option<f64> {
        match result.failed() {
            true => None,
            false => (self.figure.value)(result),
        }
    }

    /// Finds a metric by name.
    ///
    /// # Errors
    /// A hint for the user: the metric with the most similar name, or else the names of all
    /// metrics.
    pub fn find(name: &str) -> Result<Metric, String> {
        if let Some(metric) = metrics().find(|metric| metric.name == name) {
            return Ok(metric);
        }
        Err(match suggest::nearest(name, metrics().map(|metric| metric.name)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("the metrics are {}", names(", ")),
        })
    }

    /// Formats a value with its unit. `score_unit` is the unit of scores.
    pub fn text(&self, value: f64, score_unit: &str) -> String {
        match self.figure.unit {
            Unit::Duration | Unit::TotalTime => time(value),
            Unit::Count => three_digits(value),
            Unit::Index => digits(value),
            Unit::Percent => format!("{value:.2} %"),
            Unit::Score => match score_unit {
                "s" => time(value * 1e9),
                "ms" => time(value * 1e6),
                "us/op" => format!("{}/op", time(value * 1e3)),
                unit => format!("{} {unit}", three_digits(value)),
            },
        }
    }
}

/// Formats a time with three digits: `12.3 ms`.
pub(crate) fn time(ns: f64) -> String {
    let (scale, unit) = match ns.abs() {
        below if below < 1e3 => (1.0, "ns"),
        below if below < 1e6 => (1e3, "us"),
        below if below < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns / scale))
}

/// Formats a number with three digits and a suffix: `980`, `12.3k`, `4.05M`.
pub(crate) fn three_digits(value: f64) -> String {
    let (scale, unit) = match value.abs() {
        below if below < 1e4 => (1.0, ""),
        below if below < 1e6 => (1e3, "k"),
        below if below < 1e9 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    format!("{}{unit}", digits(value / scale))
}

fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        below if below < 10.0 => format!("{value:.2}"),
        below if below < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        let cases = [
            ("p99_wakeup", "", 999.0, "999 ns"),
            ("p99_wakeup", "", 12_345_678.0, "12.3 ms"),
            ("lock_wait", "", -1500.0, "-1.50 us"),
            ("switches", "", 0.0, "0"),
            ("switches", "", 12_345.0, "12.3k"),
            ("busy", "", 33.333, "33.33 %"),
            ("score", "messages/s", 1_234_567.0, "1.23M messages/s"),
            ("score", "s", 1.5, "1.50 s"),
            ("score", "us/op", 2.5, "2.50 us/op"),
        ];
        for (name, unit, value, text) in cases {
            let metric = Metric::find(name).expect("the metric exists");
            assert_eq!(metric.text(value, unit), text);
        }
        assert_eq!(metrics().next(), Metric::find("score").ok());
    }

    #[test]
    fn a_misspelt_metric_gets_a_suggestion() {
        assert_eq!(
            Metric::find("p99_wakup").expect_err("a misspelt name"),
            "did you mean 'p99_wakeup'?"
        );
        assert!(
            Metric::find("frobnicate")
                .expect_err("nonsense")
                .starts_with("the metrics are score, p50_wakeup")
        );
    }
}
