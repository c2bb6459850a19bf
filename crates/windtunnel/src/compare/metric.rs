// SPDX-License-Identifier: GPL-2.0-only
//! What two policies are compared by: a closed list of numbers that every run tells.

use input::suggest;
use report::{Better, Percentiles, RunResult};

/// What a number counts, which says how it is written and what it can be measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The workload's result, in the unit that the run names.
    Score,
    Ns,
    Count,
    Percent,
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    /// Which is the better one; `None`: neither by itself. A score's is its workload's.
    pub better: Option<Better>,
    value: fn(&RunResult) -> Option<f64>,
}

const fn metric(
    name: &'static str,
    about: &'static str,
    kind: Kind,
    better: Option<Better>,
    value: fn(&RunResult) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        about,
        kind,
        better,
        value,
    }
}

/// A run without such times has no percentiles of them.
fn of(times: &Percentiles, ns: u64) -> Option<f64> {
    (times.count > 0).then_some(ns as f64)
}

const LOWER: Option<Better> = Some(Better::Lower);

pub const METRICS: &[Metric] = &[
    metric("score", "the workload's result", Kind::Score, None, |r| r.score),
    metric("p50_wakeup", "median wake-up latency", Kind::Ns, LOWER, |r| {
        of(&r.wakeup_latency_ns, r.wakeup_latency_ns.p50)
    }),
    metric("p99_wakeup", "p99 wake-up latency", Kind::Ns, LOWER, |r| {
        of(&r.wakeup_latency_ns, r.wakeup_latency_ns.p99)
    }),
    metric("p999_wakeup", "p99.9 wake-up latency", Kind::Ns, LOWER, |r| {
        of(&r.wakeup_latency_ns, r.wakeup_latency_ns.p999)
    }),
    metric("mean_response", "mean response time", Kind::Ns, LOWER, |r| {
        of(&r.response_ns, r.response_ns.mean)
    }),
    metric("p99_response", "p99 response time", Kind::Ns, LOWER, |r| {
        of(&r.response_ns, r.response_ns.p99)
    }),
    metric("switches", "context switches", Kind::Count, None, |r| {
        Some(r.context_switches as f64)
    }),
    metric("migrations", "migrations", Kind::Count, None, |r| {
        Some(r.migrations as f64)
    }),
    metric("busy", "CPU time not idle", Kind::Percent, None, |r| {
        Some(r.busy_percent)
    }),
    metric("overhead", "CPU time of kernel and policy", Kind::Percent, LOWER, |r| {
        Some(r.overhead_percent)
    }),
    metric(
        "idle_while_waiting",
        "CPU time idle while an allowed task waited",
        Kind::Ns,
        LOWER,
        |r| Some(r.idle_while_waiting_ns as f64),
    ),
    metric("lock_wait", "time waited for locks", Kind::Ns, LOWER, |r| {
        Some(r.lock_wait_ns as f64)
    }),
];

impl Metric {
    /// Returns the number of a run; `None` if it has none. A run without its policy has no numbers to compare.
    pub fn value(&self, result: &RunResult) -> Option<f64> {
        match result.failed() {
            true => None,
            false => (self.value)(result),
        }
    }

    /// # Errors
    /// A hint: what was meant, or what there is.
    pub fn find(name: &str) -> Result<&'static Metric, String> {
        if let Some(metric) = METRICS.iter().find(|metric| metric.name == name) {
            return Ok(metric);
        }
        let names = METRICS.iter().map(|metric| metric.name);
        Err(match suggest::nearest(name, names.clone()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
        })
    }
}

impl Kind {
    /// A value as people read it. `unit` is the score's.
    pub fn text(self, value: f64, unit: &str) -> String {
        match self {
            Kind::Ns => time(value),
            Kind::Count => three_digits(value),
            Kind::Percent => format!("{value:.2} %"),
            Kind::Score => match unit {
                "s" => time(value * 1e9),
                "ms" => time(value * 1e6),
                "us/op" => format!("{}/op", time(value * 1e3)),
                unit => format!("{} {unit}", three_digits(value)),
            },
        }
    }
}

fn time(ns: f64) -> String {
    let (scale, unit) = match ns.abs() {
        below if below < 1e3 => (1.0, "ns"),
        below if below < 1e6 => (1e3, "us"),
        below if below < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns / scale))
}

/// `980`, `12.3k`, `4.05M`.
fn three_digits(value: f64) -> String {
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
            (Kind::Ns, "", 999.0, "999 ns"),
            (Kind::Ns, "", 12_345_678.0, "12.3 ms"),
            (Kind::Ns, "", -1500.0, "-1.50 us"),
            (Kind::Count, "", 0.0, "0"),
            (Kind::Count, "", 12_345.0, "12.3k"),
            (Kind::Percent, "", 33.333, "33.33 %"),
            (Kind::Score, "messages/s", 1_234_567.0, "1.23M messages/s"),
            (Kind::Score, "s", 1.5, "1.50 s"),
            (Kind::Score, "us/op", 2.5, "2.50 us/op"),
        ];
        for (kind, unit, value, text) in cases {
            assert_eq!(kind.text(value, unit), text);
        }
    }

    #[test]
    fn a_slip_is_answered_with_what_was_meant() {
        assert_eq!(
            Metric::find("p99_wakup").expect_err("a slip"),
            "did you mean 'p99_wakeup'?"
        );
        assert!(
            Metric::find("frobnicate")
                .expect_err("nonsense")
                .starts_with("there are score, p50_wakeup")
        );
    }
}
