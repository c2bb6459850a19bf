// SPDX-License-Identifier: GPL-2.0-only
//! Measures of the CPUs' queues: tasks that run or wait, by the CPU they belong to.

use super::Kind;
use crate::experiment::observe::Observed;

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// `None`: all CPUs together.
    cpu: Option<usize>,
    at_ns: u64,
    minus_mean: bool,
}

pub const KINDS: &[Kind] = &[Kind {
    name: "queue_length",
    about: "tasks that run or wait on a CPU at a time",
    arguments: &[
        ("cpu", "a CPU; default: all together"),
        ("at", "the simulated time"),
        ("minus", "mean: the difference from the mean of all CPUs"),
    ],
    make: |arguments| {
        let cpu = arguments.number("cpu")?.map(|cpu| cpu as usize);
        let minus_mean = match arguments.text("minus") {
            None => false,
            Some("mean") if cpu.is_some() => true,
            Some(other) => return Err(format!("minus = '{other}': expected mean, with a CPU")),
        };
        Ok(super::Measure::Queue(Measure {
            cpu,
            at_ns: arguments.time("at")?.ok_or("it needs the argument 'at'")?,
            minus_mean,
        }))
    },
}];

impl Measure {
    pub fn look(&self) -> Option<u64> {
        Some(self.at_ns)
    }

    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let lengths = seen.trail.lengths(self.at_ns).ok_or("the run was over by then")?;
        let all = f64::from(lengths.iter().sum::<u32>());
        let Some(cpu) = self.cpu else { return Ok(all) };
        let own = lengths.get(cpu).ok_or_else(|| format!("there is no CPU {cpu}"))?;
        let mean = if self.minus_mean {
            all / lengths.len() as f64
        } else {
            0.0
        };
        Ok(f64::from(*own) - mean)
    }
}
