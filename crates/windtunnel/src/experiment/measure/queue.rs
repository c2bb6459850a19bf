// SPDX-License-Identifier: GPL-2.0-only
//! Measures of the CPUs' queues: tasks that run or wait, by the CPU they belong to.

use super::Kind;
use crate::experiment::observe::{MOST_LEFT, Observed};

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// `None`: all CPUs together.
    cpu: Option<usize>,
    when: When,
    minus_mean: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    At(u64),
    /// Just before the next task exits.
    Left(usize),
}

pub const KINDS: &[Kind] = &[Kind {
    name: "queue_length",
    about: "tasks that run or wait on a CPU at a time",
    arguments: &[
        ("cpu", "a CPU; default: all together"),
        ("at", "the simulated time"),
        (
            "left",
            "instead of that: when so many tasks are left, 1 to 100, before the next one exits",
        ),
        ("minus", "mean: the difference from the mean of all CPUs"),
    ],
    make: |_, arguments| {
        let cpu = arguments.number("cpu")?.map(|cpu| cpu as usize);
        let minus_mean = match arguments.text("minus") {
            None => false,
            Some("mean") if cpu.is_some() => true,
            Some(other) => return Err(format!("minus = '{other}': expected mean, with a CPU")),
        };
        let when = match (arguments.time("at")?, arguments.number("left")?) {
            (Some(at), None) => When::At(at),
            (None, Some(left)) if (1.0..=MOST_LEFT as f64).contains(&left) => When::Left(left as usize),
            (None, Some(left)) => return Err(format!("left = {left}: expected 1 to {MOST_LEFT}")),
            _ => return Err("it needs the argument 'at' or 'left'".into()),
        };
        Ok(super::Measure::Queue(Measure { cpu, when, minus_mean }))
    },
}];

impl Measure {
    pub fn look(&self) -> Option<u64> {
        match self.when {
            When::At(at) => Some(at),
            When::Left(_) => None,
        }
    }

    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let lengths = match self.when {
            When::At(at) => seen.trail.lengths(at).ok_or("the run was over by then")?,
            When::Left(tasks) => {
                let lengths = seen.trail.lengths_left(tasks);
                lengths.ok_or_else(|| format!("it never was that {tasks} tasks were left"))?
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
    fn lengths_by_the_tasks_that_are_left() {
        let mut trail = Trail::new(2, Vec::new());
        let mut take = |time, cpu, event| trail.take(&[Record { time, cpu, event }]);
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
            measure.expect("a measure").value(&seen)
        };
        assert_eq!((length("3", "0"), length("3", "1")), (Ok(1.0), Ok(1.0)));
        assert!(length("2", "0").is_err());
    }
}
