// SPDX-License-Identifier: GPL-2.0-only
//! Measures of response times and of what single tasks got.

use super::{Arguments, Kind};
use crate::experiment::observe::Observed;
use crate::experiment::statistics::{deviation, mean};

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    what: What,
    /// Tasks whose name begins with this.
    task: String,
    /// Responses that ended earlier do not count.
    after_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Response(Stat),
    /// Responses from `from_ms` to below `to_ms`, in percent of all.
    Share {
        from_ms: f64,
        to_ms: f64,
    },
    /// CPU time in percent of that of all tasks.
    CpuShare,
    /// Responses per minute.
    PerMinute,
    /// L against lambda W, in percent.
    Little,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stat {
    Mean,
    Least,
    Most,
    Deviation,
    CvPercent,
    Percentile(f64),
}

const TASK: (&str, &str) = ("task", "only tasks whose name at creation begins with this");
const AFTER: (&str, &str) = ("after", "only responses that ended at this time or later");

pub const KINDS: &[Kind] = &[
    Kind {
        name: "response_ms",
        about: "response times of requests",
        arguments: &[
            (
                "stat",
                "mean (default), min, max, deviation, cv_percent, or a percentile: p50, p99, p99.9",
            ),
            TASK,
            AFTER,
        ],
        make: |arguments| {
            let stat = stat(arguments.text("stat").unwrap_or("mean"))?;
            make(What::Response(stat), arguments)
        },
    },
    Kind {
        name: "response_share_percent",
        about: "share of response times in from_ms <= t < to_ms",
        arguments: &[("from_ms", "default 0"), ("to_ms", "default: no limit"), TASK, AFTER],
        make: |arguments| {
            let from_ms = arguments.number("from_ms")?.unwrap_or(0.0);
            let to_ms = arguments.number("to_ms")?.unwrap_or(f64::INFINITY);
            make(What::Share { from_ms, to_ms }, arguments)
        },
    },
    Kind {
        name: "responses_per_minute",
        about: "requests answered in a simulated minute",
        arguments: &[TASK, AFTER],
        make: |arguments| make(What::PerMinute, arguments),
    },
    Kind {
        name: "cpu_share_percent",
        about: "CPU time in percent of that of all tasks",
        arguments: &[TASK],
        make: |arguments| make(What::CpuShare, arguments),
    },
    Kind {
        name: "little_percent",
        about: "by how much the mean number of tasks differs from arrival rate times mean response time",
        arguments: &[TASK],
        make: |arguments| make(What::Little, arguments),
    },
];

fn make(what: What, arguments: &Arguments) -> Result<super::Measure, String> {
    Ok(super::Measure::Response(Measure {
        what,
        task: arguments.text("task").unwrap_or_default().to_owned(),
        after_ns: arguments.time("after")?.unwrap_or(0),
    }))
}

fn stat(text: &str) -> Result<Stat, String> {
    Ok(match text {
        "mean" => Stat::Mean,
        "min" => Stat::Least,
        "max" => Stat::Most,
        "deviation" => Stat::Deviation,
        "cv_percent" => Stat::CvPercent,
        _ => {
            let percentile = text.strip_prefix('p').and_then(|text| text.parse().ok());
            let percentile = percentile.filter(|p| (0.0..=100.0).contains(p));
            Stat::Percentile(percentile.ok_or_else(|| {
                format!("stat = '{text}': expected mean, min, max, deviation, cv_percent or a percentile as p99")
            })?)
        }
    })
}

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let trail = &seen.trail;
        let responses = || trail.responses_ms(&self.task, self.after_ns);
        let some = |value: Option<f64>| value.ok_or_else(|| "too few requests were answered".to_owned());
        match self.what {
            What::Response(stat) => some(stat.of(responses())),
            What::Share { from_ms, to_ms } => {
                let all = responses();
                let inside = all.iter().filter(|ms| **ms >= from_ms && **ms < to_ms).count();
                some((!all.is_empty()).then(|| 100.0 * inside as f64 / all.len() as f64))
            }
            What::PerMinute => {
                let ns = trail.end_ns.saturating_sub(self.after_ns);
                some((ns > 0).then(|| responses().len() as f64 * 60e9 / ns as f64))
            }
            What::CpuShare => {
                let all: u64 = trail.named("").map(|(_, task)| task.cpu_ns).sum();
                let own: u64 = trail.named(&self.task).map(|(_, task)| task.cpu_ns).sum();
                (all > 0)
                    .then(|| 100.0 * own as f64 / all as f64)
                    .ok_or_else(|| "no task ran".to_owned())
            }
            What::Little => {
                let (created, integral) = trail.census(&self.task);
                let seconds = some(mean(&responses()))? / 1e3;
                Ok(100.0 * (integral / (created as f64 * seconds) - 1.0))
            }
        }
    }
}

impl Stat {
    fn of(self, mut values: Vec<f64>) -> Option<f64> {
        match self {
            Stat::Mean => mean(&values),
            Stat::Least => values.into_iter().min_by(f64::total_cmp),
            Stat::Most => values.into_iter().max_by(f64::total_cmp),
            Stat::Deviation => deviation(&values),
            Stat::CvPercent => Some(100.0 * deviation(&values)? / mean(&values)?),
            Stat::Percentile(percent) => {
                values.sort_by(f64::total_cmp);
                let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
                values.get(rank.max(1) - 1).copied()
            }
        }
    }
}
