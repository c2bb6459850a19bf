// SPDX-License-Identifier: GPL-2.0-only
//! Measures of the response times and the CPU time of tasks.

use super::{Arguments, MeasureKind};
use crate::experiment::observe::{Observed, Response};
use crate::experiment::statistics::{deviation, mean};
use input::Error;
use std::collections::BTreeMap;

/// A quantity that is computed from the responses of the tasks whose name has a given prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    quantity: Quantity,
    /// Prefix of the tasks' names.
    task: String,
    /// Responses that ended before this time are ignored, in ns.
    after_ns: u64,
    /// Responses that took less than this are ignored.
    from_ms: f64,
    /// Responses that took this long or longer are ignored.
    to_ms: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Quantity {
    Response(Stat),
    /// A statistic over the mean response times of the tasks.
    TaskMean(Stat),
    /// Most frequent response time, in ms.
    Peak,
    /// Percentage of the responses that take at least `from_ms` and less than `to_ms`.
    Share,
    /// Time at which the response times have settled, in s. It is the end of the last response
    /// whose time differs by more than `percent` from each expected time in `near_ms`.
    Settled {
        near_ms: Vec<f64>,
        percent: f64,
    },
    /// Mean time from a response to the next request of the same task, in ms.
    Between,
    /// CPU time, in percent of the CPU time of all tasks.
    CpuShare,
    /// Responses per minute.
    PerMinute,
    /// How far the run deviates from Little's law, in percent. The law is: mean number of tasks =
    /// arrival rate * mean response time.
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

const TASK: (&str, &str) = ("task", "prefix of the names of tasks at creation");
const AFTER: (&str, &str) = ("after", "count only responses that ended at this time or later");
const FROM: (&str, &str) = ("from_ms", "count only response times of at least this; default: 0");
const TO: (&str, &str) = ("to_ms", "count only response times below this; default: no limit");
/// Width of a histogram's bin, in ms. The most frequent response time is found with this histogram.
const BIN_MS: f64 = 10.0;

pub const KINDS: &[MeasureKind] = &[
    MeasureKind {
        name: "response_ms",
        about: "response times of requests",
        arguments: &[
            (
                "stat",
                "mean (default), min, max, deviation, cv_percent, or a percentile: p50, p99, p99.9",
            ),
            TASK,
            AFTER,
            FROM,
            TO,
        ],
        make: |_, arguments| {
            let stat = stat(arguments.text("stat").unwrap_or("mean"))?;
            make(Quantity::Response(stat), arguments)
        },
    },
    MeasureKind {
        name: "task_mean_response_ms",
        about: "statistic over the mean response times of tasks",
        arguments: &[("stat", "as in response_ms"), TASK, AFTER],
        make: |_, arguments| {
            let stat = stat(arguments.text("stat").unwrap_or("mean"))?;
            make(Quantity::TaskMean(stat), arguments)
        },
    },
    MeasureKind {
        name: "response_peak_ms",
        about: "most frequent response time: the mean in the fullest bin of 10 ms",
        arguments: &[TASK, AFTER, FROM, TO],
        make: |_, arguments| make(Quantity::Peak, arguments),
    },
    MeasureKind {
        name: "response_share_percent",
        about: "share of response times t with from_ms <= t < to_ms",
        arguments: &[FROM, TO, TASK, AFTER],
        make: |_, arguments| make(Quantity::Share, arguments),
    },
    MeasureKind {
        name: "settled_s",
        about: "end of the last response whose time is not an expected one",
        arguments: &[
            ("near_ms", "expected response times, for example 250/450/550"),
            ("percent", "tolerance; default: 2"),
            TASK,
        ],
        make: |_, arguments| {
            let near = arguments
                .required("near_ms")?
                .split('/')
                .map(|text| text.trim().parse());
            let near_ms = near.collect::<Result<_, _>>();
            let near_ms = near_ms.map_err(|_| "near_ms: expected numbers, for example 250/450/550".to_owned())?;
            let percent = arguments.number("percent")?.unwrap_or(2.0);
            make(Quantity::Settled { near_ms, percent }, arguments)
        },
    },
    MeasureKind {
        name: "between_ms",
        about: "mean time from a response to the task's next request",
        arguments: &[TASK, AFTER],
        make: |_, arguments| make(Quantity::Between, arguments),
    },
    MeasureKind {
        name: "responses_per_minute",
        about: "responses per simulated minute",
        arguments: &[TASK, AFTER],
        make: |_, arguments| make(Quantity::PerMinute, arguments),
    },
    MeasureKind {
        name: "cpu_share_percent",
        about: "CPU time in percent of the CPU time of all tasks",
        arguments: &[TASK],
        make: |_, arguments| make(Quantity::CpuShare, arguments),
    },
    MeasureKind {
        name: "little_percent",
        about: "deviation of the mean number of tasks from arrival rate times mean response time (Little's law)",
        arguments: &[TASK],
        make: |_, arguments| make(Quantity::Little, arguments),
    },
];

fn make(quantity: Quantity, arguments: &Arguments) -> Result<super::Measure, Error> {
    Ok(super::Measure::Response(Measure {
        quantity,
        task: arguments.text("task").unwrap_or_default().to_owned(),
        after_ns: arguments.time("after")?.unwrap_or(0),
        from_ms: arguments.number("from_ms")?.unwrap_or(0.0),
        to_ms: arguments.number("to_ms")?.unwrap_or(f64::INFINITY),
    }))
}

fn stat(text: &str) -> Result<Stat, Error> {
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
                format!("stat = '{text}': expected mean, min, max, deviation, cv_percent or a percentile such as p99")
            })?)
        }
    })
}

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        let trail = &seen.trail;
        let responses = || trail.responses_ms(&self.task, self.after_ns);
        let counts = |ms: &f64| *ms >= self.from_ms && *ms < self.to_ms;
        let some = |value: Option<f64>| value.ok_or_else(|| Error::new("there are too few responses"));
        match self.quantity {
            Quantity::Response(stat) => some(stat.compute(responses().into_iter().filter(counts).collect())),
            Quantity::TaskMean(stat) => {
                let tasks = self.by_task(seen).into_values();
                let means = tasks.filter_map(|responses| mean(&responses.iter().map(Response::ms).collect::<Vec<_>>()));
                some(stat.compute(means.collect()))
            }
            Quantity::Peak => some(peak(responses().into_iter().filter(counts))),
            Quantity::Share => {
                let all = responses();
                let inside = all.iter().copied().filter(counts).count();
                some((!all.is_empty()).then(|| 100.0 * inside as f64 / all.len() as f64))
            }
            Quantity::Settled { ref near_ms, percent } => {
                let all = self.by_task(seen).into_values().flatten();
                let expected = |ms: f64| near_ms.iter().any(|near| (ms - near).abs() * 100.0 <= near * percent);
                let others = all.filter(|response| !expected(response.ms()));
                Ok(others.map(|response| response.end_ns).max().unwrap_or(0) as f64 / 1e9)
            }
            Quantity::Between => {
                let tasks = self.by_task(seen);
                let gap = |pair: &[Response]| (pair[1].end_ns - pair[1].ns - pair[0].end_ns) as f64 / 1e6;
                let gaps: Vec<f64> = tasks
                    .values()
                    .flat_map(|responses| responses.windows(2).map(gap))
                    .collect();
                some(mean(&gaps))
            }
            Quantity::PerMinute => {
                let ns = trail.end_ns.saturating_sub(self.after_ns);
                some((ns > 0).then(|| responses().len() as f64 * 60e9 / ns as f64))
            }
            Quantity::CpuShare => {
                let all: u64 = trail.named("").map(|(_, task)| task.cpu_ns).sum();
                let own: u64 = trail.named(&self.task).map(|(_, task)| task.cpu_ns).sum();
                (all > 0)
                    .then(|| 100.0 * own as f64 / all as f64)
                    .ok_or_else(|| Error::new("no task ran"))
            }
            Quantity::Little => {
                let (created, integral) = trail.census(&self.task);
                let seconds = some(mean(&responses()))? / 1e3;
                Ok(100.0 * (integral / (created as f64 * seconds) - 1.0))
            }
        }
    }
}

impl Measure {
    /// Returns the responses that ended at `after_ns` or later, by pid.
    fn by_task(&self, seen: &Observed) -> BTreeMap<u32, Vec<Response>> {
        let mut tasks: BTreeMap<u32, Vec<Response>> =
            seen.trail.named(&self.task).map(|(pid, _)| (pid, vec![])).collect();
        for response in &seen.trail.responses {
            if response.end_ns >= self.after_ns
                && let Some(responses) = tasks.get_mut(&response.pid)
            {
                responses.push(*response);
            }
        }
        tasks
    }
}

impl Response {
    fn ms(&self) -> f64 {
        self.ns as f64 / 1e6
    }
}

/// Returns the mean of the values in the fullest bin. If several bins are equally full, uses the
/// lowest.
fn peak(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for value in values {
        bins.entry(report::rounded(value / BIN_MS)).or_default().push(value);
    }
    let fullest = bins.into_values().rev().max_by_key(Vec::len)?;
    mean(&fullest)
}

impl Stat {
    fn compute(self, mut values: Vec<f64>) -> Option<f64> {
        match self {
            Stat::Mean => mean(&values),
            Stat::Least => values.into_iter().min_by(f64::total_cmp),
            Stat::Most => values.into_iter().max_by(f64::total_cmp),
            Stat::Deviation => deviation(&values),
            Stat::CvPercent => Some(100.0 * deviation(&values)? / mean(&values)?),
            Stat::Percentile(percent) => {
                values.sort_by(f64::total_cmp);
                let rank = input::to_usize(report::rounded((percent / 100.0 * values.len() as f64).ceil()));
                values.get(rank.max(1) - 1).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Measure;
    use super::Arguments;
    use crate::experiment::observe::{Observed, Trail};
    use trace::{Event, Record, Sink};

    const MS: u64 = 1_000_000;

    /// Returns the data of two tasks. The array lists, for each request, the pid, the end and the
    /// response time, in ms.
    fn seen() -> Observed {
        let mut trail = Trail::new(1, Vec::new());
        for pid in [1, 2] {
            let event = Event::TaskNew {
                pid,
                tgid: pid,
                parent: 0,
                prio: 120,
                comm: format!("task{pid}"),
            };
            trail.take(&[Record {
                time: 0,
                cpu: 0,
                after: 0,
                event,
            }]);
        }
        for (pid, end, took) in [
            (1, 100, 100),
            (2, 150, 103),
            (1, 220, 110),
            (2, 260, 104),
            (1, 400, 160),
        ] {
            let event = Event::Done {
                pid,
                count: 1,
                response_ns: took * MS,
            };
            let time = end * MS;
            trail.take(&[Record {
                time,
                cpu: 0,
                after: 0,
                event,
            }]);
        }
        trail.finish(500 * MS);
        Observed {
            trail,
            ..Observed::default()
        }
    }

    fn value(name: &str, arguments: &[(&str, &str)]) -> f64 {
        let measure = Measure::make(name, &Arguments::new(arguments)).expect("the measure exists");
        measure.value(&seen()).expect("the measure has a value")
    }

    #[test]
    fn response_times_are_measured() {
        assert_eq!(value("response_ms", &[("from_ms", "104"), ("to_ms", "160")]), 107.0);
        // The response times 100, 103 and 104 are in one bin.
        assert!((value("response_peak_ms", &[]) - 307.0 / 3.0).abs() < 1e-9);
        assert_eq!(value("response_share_percent", &[("to_ms", "104")]), 40.0);
        assert_eq!(value("task_mean_response_ms", &[("stat", "max")]), 370.0 / 3.0);
        // The requests of task 1 start 10 and 20 ms after its previous responses, and the request
        // of task 2 starts 6 ms after its previous response.
        assert_eq!(value("between_ms", &[]), 12.0);
        assert_eq!(value("between_ms", &[("task", "task2")]), 6.0);
    }

    #[test]
    fn the_settling_time_is_the_end_of_the_last_unexpected_response() {
        assert_eq!(value("settled_s", &[("near_ms", "102/160")]), 0.22);
        assert_eq!(value("settled_s", &[("near_ms", "102/160"), ("percent", "10")]), 0.0);
        assert!(Measure::make("settled_s", &Arguments::new(&[("near_ms", "x")])).is_err());
    }
}
