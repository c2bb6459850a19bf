// SPDX-License-Identifier: GPL-2.0-only
//! The measure of queue lengths. The length of a CPU's queue is the number of tasks that run or
//! wait on it.

use super::MeasureKind;
use crate::experiment::observe::{MAX_LEFT, Observed};
use input::Error;

/// A queue length at a certain time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The CPU. `None` means the sum over all CPUs.
    cpu: Option<usize>,
    when: When,
    minus_mean: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    At(u64),
    /// When this number of tasks has not exited, just before the next task exits.
    Left(usize),
}

pub const KINDS: &[MeasureKind] = &[MeasureKind {
    name: "queue_length",
    about: "number of tasks that run or wait on a CPU at one time",
    arguments: &[
        ("cpu", "CPU; default: the sum over all CPUs"),
        ("at", "simulated time"),
        (
            "left",
            "instead of at: when this number of tasks is left (1 to 100), just before the next one exits",
        ),
        ("minus", "mean: subtract the mean over all CPUs"),
    ],
    make: |_, arguments| {
        let cpu = arguments
            .number("cpu")?
            .map(|cpu| input::to_usize(report::rounded(cpu.trunc())));
        let minus_mean = match arguments.text("minus") {
            None => false,
            Some("mean") if cpu.is_some() => true,
            Some(other) => {
                return Err(Error::new(format!(
                    "minus = '{other}': expected mean, together with a cpu"
                )));
            }
        };
        let when = match (arguments.time("at")?, arguments.number("left")?) {
            (Some(at), None) => When::At(at),
            (None, Some(left)) if (1.0..=MAX_LEFT as f64).contains(&left) => {
                When::Left(input::to_usize(report::rounded(left.trunc())))
            }
            (None, Some(left)) => return Err(Error::new(format!("left = {left}: expected 1 to {MAX_LEFT}"))),
            _ => return Err("expected one of the arguments 'at' and 'left'".into()),
        };
        Ok(super::Measure::Queue(Measure { cpu, when, minus_mean }))
    },
}];

impl Measure {
    pub fn sample_time(&self) -> Option<u64> {
        match self.when {
            When::At(at) => Some(at),
            When::Left(_) => None,
        }
    }

    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        let lengths = match self.when {
            When::At(at) => seen.trail.lengths(at).ok_or("the run ended before that time")?,
            When::Left(tasks) => {
                let lengths = seen.trail.lengths_left(tasks);
                lengths.ok_or_else(|| format!("there was no time at which {tasks} tasks were left"))?
            }
        };
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

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Measure};
    use crate::experiment::observe::{Observed, Trail};
    use trace::{Event, Record, Sink, TaskState};

    #[test]
    fn queue_lengths_are_recorded_by_the_number_of_tasks_left() {
        let mut trail = Trail::new(2, Vec::new());
        let mut take = |time, cpu, event| {
            trail.take(&[Record {
                time,
                cpu,
                after: 0,
                event,
            }])
        };
        for pid in [1, 2, 3] {
            let comm = "task".to_owned();
            let (tgid, parent, prio) = (pid, 0, 120);
            take(
                0,
                0,
                Event::TaskNew {
                    pid,
                    tgid,
                    parent,
                    prio,
                    comm,
                },
            );
        }
        let (prev, prev_state) = (0, TaskState::Running);
        for (time, cpu, next) in [(1, 0, 1), (1, 1, 2)] {
            take(time, cpu, Event::Switch { prev, prev_state, next });
        }
        take(5, 1, Event::TaskExit { pid: 2 });
        let seen = Observed {
            trail,
            ..Observed::default()
        };
        let length = |left: &str, cpu: &str| {
            let measure = Measure::make("queue_length", &Arguments::new(&[("left", left), ("cpu", cpu)]));
            measure.expect("the measure exists").value(&seen)
        };
        assert_eq!((length("3", "0"), length("3", "1")), (Ok(1.0), Ok(1.0)));
        assert!(length("2", "0").is_err());
    }
}
