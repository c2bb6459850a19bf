// SPDX-License-Identifier: GPL-2.0-only
//! Measures that are figures of the run's result, and those that are as simple.

use super::{Arguments, Kind};
use crate::experiment::observe::Observed;
use report::{FIGURES, Figure, Unit};

/// A count or a time, divided by what `per` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    what: What,
    per: Per,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Figure(&'static Figure),
    IdleSwitches,
    SliceMs,
}

/// What a total is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Per {
    cpu: bool,
    second: bool,
}

impl Per {
    pub fn of(arguments: &Arguments) -> Result<Per, String> {
        let (cpu, second) = match arguments.text("per") {
            None => (false, false),
            Some("cpu") => (true, false),
            Some("second") => (false, true),
            Some("cpu_second") => (true, true),
            Some(other) => return Err(format!("per = '{other}': expected cpu, second or cpu_second")),
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

/// The figures of the result that are measures.
pub fn figures() -> impl Iterator<Item = Kind> {
    FIGURES.iter().filter_map(|figure| {
        Some(Kind {
            name: figure.measure?.name,
            about: figure.about,
            arguments: if figure.is_total() { &[PER] } else { &[] },
            make: |name, arguments| {
                let mut figures = FIGURES.iter();
                let figure = figures.find(|figure| figure.measure.is_some_and(|measure| measure.name == name));
                make(What::Figure(figure.ok_or("there is no such figure")?), arguments)
            },
        })
    })
}

pub const KINDS: &[Kind] = &[
    Kind {
        name: "idle_switches",
        about: "switches that left the CPU idle",
        arguments: &[PER],
        make: |_, arguments| make(What::IdleSwitches, arguments),
    },
    Kind {
        name: "slice_ms",
        about: "mean time that a task stayed on a CPU",
        arguments: &[],
        make: |_, arguments| make(What::SliceMs, arguments),
    },
];

fn make(what: What, arguments: &Arguments) -> Result<super::Measure, String> {
    let per = Per::of(arguments)?;
    Ok(super::Measure::Result(Measure { what, per }))
}

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let trail = &seen.trail;
        let value = match self.what {
            What::Figure(figure) => {
                let value = (figure.value)(&seen.result).ok_or_else(|| match figure.unit {
                    Unit::Score => "the workload did not end or did nothing".to_owned(),
                    _ => format!("the run has no {}", figure.about),
                })?;
                value / figure.measure.map_or(1.0, |measure| measure.scale)
            }
            What::IdleSwitches => trail.switches_to_idle as f64,
            What::SliceMs if trail.switches_from_task == 0 => return Err("no task left a CPU".into()),
            What::SliceMs => {
                let on_cpus: u64 = trail.named("").map(|(_, task)| task.cpu_ns).sum();
                on_cpus as f64 / 1e6 / trail.switches_from_task as f64
            }
        };
        Ok(self.per.divide(value, seen))
    }
}
