// SPDX-License-Identifier: GPL-2.0-only
//! The measures that are figures of a run's result. There are two further measures: the number of
//! switches to idle, and the mean time slice.

use super::{Arguments, MeasureKind};
use crate::experiment::observe::Observed;
use input::Error;
use report::{FIGURES, Figure, Unit};

/// A figure, which may be divided by the number of CPUs or seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    source: Source,
    per: Per,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Figure(&'static Figure),
    IdleSwitches,
    SliceMs,
}

/// The divisor of a total: the number of CPUs, of seconds, or of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Per {
    cpu: bool,
    second: bool,
}

impl Per {
    pub fn parse(arguments: &Arguments) -> Result<Per, Error> {
        let (cpu, second) = match arguments.text("per") {
            None => (false, false),
            Some("cpu") => (true, false),
            Some("second") => (false, true),
            Some("cpu_second") => (true, true),
            Some(other) => {
                return Err(Error::new(format!(
                    "per = '{other}': expected cpu, second or cpu_second"
                )));
            }
        };
        Ok(Per { cpu, second })
    }

    pub fn divide(self, value: f64, seen: &Observed) -> f64 {
        let cpus = if self.cpu { seen.result.cpus as f64 } else { 1.0 };
        let seconds = if self.second {
            seen.result.simulated_ns as f64 / 1e9
        } else {
            1.0
        };
        value / cpus / seconds
    }
}

pub const PER: (&str, &str) = ("per", "cpu, second or cpu_second; default: the total of the run");

/// Returns the figures of a run's result that can be measured.
pub fn figures() -> impl Iterator<Item = MeasureKind> {
    FIGURES.iter().filter_map(|figure| {
        Some(MeasureKind {
            name: figure.measure?.name,
            about: figure.about,
            arguments: if figure.is_total() { &[PER] } else { &[] },
            make: |name, arguments| {
                let mut figures = FIGURES.iter();
                let figure = figures.find(|figure| figure.measure.is_some_and(|measure| measure.name == name));
                make(Source::Figure(figure.ok_or("there is no such figure")?), arguments)
            },
        })
    })
}

pub const KINDS: &[MeasureKind] = &[
    MeasureKind {
        name: "idle_switches",
        about: "context switches to idle",
        arguments: &[PER],
        make: |_, arguments| make(Source::IdleSwitches, arguments),
    },
    MeasureKind {
        name: "slice_ms",
        about: "mean time that a task runs before it leaves the CPU, ms",
        arguments: &[],
        make: |_, arguments| make(Source::SliceMs, arguments),
    },
];

fn make(source: Source, arguments: &Arguments) -> Result<super::Measure, Error> {
    let per = Per::parse(arguments)?;
    Ok(super::Measure::Result(Measure { source, per }))
}

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        let trail = &seen.trail;
        let value = match self.source {
            Source::Figure(figure) => {
                let value = (figure.value)(&seen.result).ok_or_else(|| match figure.unit {
                    Unit::Score => "the workload did not finish or did no work".to_owned(),
                    _ => format!("the run has no value for: {}", figure.about),
                })?;
                value / figure.measure.map_or(1.0, |measure| measure.scale)
            }
            Source::IdleSwitches => trail.switches_to_idle as f64,
            Source::SliceMs if trail.switches_from_task == 0 => return Err("no task left a CPU".into()),
            Source::SliceMs => {
                let on_cpus: u64 = trail.named("").map(|(_, task)| task.cpu_ns).sum();
                on_cpus as f64 / 1e6 / trail.switches_from_task as f64
            }
        };
        Ok(self.per.divide(value, seen))
    }
}
