// SPDX-License-Identifier: GPL-2.0-only
//! Reads the numbers in the memory of a policy during a run, to find those that the policy changes:
//! its counters.

use crate::running::Running;
use bpf::link::Image;
use bpf::map::numbers::{Number, numbers};
use kernel::Machine;
use report::{Counter, CountersResult};

/// Number of samples of a run whose length is known.
const SAMPLES: u64 = 64;
/// Interval between the first samples of a run whose length is unknown, in ns. When there are twice
/// as many samples as SAMPLES, every second one is dropped, and the interval is doubled.
const FIRST_INTERVAL_NS: u64 = 1_000_000;
/// Maximum number of elements that all samples of a run read.
const MAX_READS: u64 = 4_000_000;
/// Maximum number of counters in a result.
const MAX_LISTED: usize = 128;
/// Maximum number of elements whose values a result contains.
const MAX_VALUES: usize = 64;

/// The numbers of a policy, and their values during a run.
pub struct Counters {
    watched: Vec<Watched>,
    /// Times of the samples in ns.
    times: Vec<u64>,
    interval_ns: u64,
    next: u64,
}

struct Watched {
    number: Number,
    before: Vec<i128>,
    /// Values at the last sample.
    last: Vec<i128>,
    /// Sums of the elements at the times of the samples.
    samples: Vec<i128>,
    /// Whether an element ever had a value that differs from the one before the run.
    changed: bool,
}

impl Counters {
    /// Reads the numbers of a policy that was just loaded. `until` is the end of the run, if it is
    /// known.
    pub fn new(machine: &Machine, image: &Image, at: u64, until: Option<u64>) -> Counters {
        let read = |number: Number| {
            let before = number.read(machine.region()).ok()?;
            Some(Watched {
                number,
                last: before.clone(),
                before,
                samples: Vec::new(),
                changed: false,
            })
        };
        let watched: Vec<Watched> = found(machine, image).into_iter().filter_map(read).collect();
        let elements: u64 = watched.iter().map(|watched| watched.number.elements()).sum();
        let samples = (MAX_READS / elements.max(1)).clamp(8, SAMPLES);
        let interval_ns = match until {
            Some(until) => (until.saturating_sub(at) / samples).max(1),
            None => FIRST_INTERVAL_NS * (SAMPLES / samples),
        };
        Counters {
            watched,
            times: Vec::new(),
            interval_ns,
            next: at.saturating_add(interval_ns),
        }
    }

    /// Returns the time at which the numbers are to be read next, in ns.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Reads the numbers at the time `at` (ns).
    pub fn sample(&mut self, machine: &Machine, at: u64) {
        self.read(machine);
        self.times.push(at);
        for watched in &mut self.watched {
            watched.samples.push(sum(&watched.last));
        }
        if self.times.len() as u64 >= 2 * SAMPLES {
            keep_every_second(&mut self.times);
            self.watched
                .iter_mut()
                .for_each(|watched| keep_every_second(&mut watched.samples));
            self.interval_ns *= 2;
        }
        self.next = at.saturating_add(self.interval_ns);
    }

    /// Reads the numbers. If the memory of a number was released, its last value is kept.
    fn read(&mut self, machine: &Machine) {
        for watched in &mut self.watched {
            if let Ok(values) = watched.number.read(machine.region()) {
                watched.changed |= values != watched.before;
                watched.last = values;
            }
        }
    }

    /// Continues after the policy was loaded again. Its numbers may be at different addresses.
    pub fn reloaded(&mut self, machine: &Machine, image: &Image) {
        for number in found(machine, image) {
            if let Some(watched) = self
                .watched
                .iter_mut()
                .find(|watched| watched.number.name == number.name)
            {
                watched.number = number;
            }
        }
    }

    /// Returns the names and the values of the numbers that have changed.
    pub fn current(&mut self, machine: &Machine) -> Vec<(String, i128)> {
        self.read(machine);
        let changed = self.watched.iter().filter(|watched| watched.changed);
        changed
            .map(|watched| (watched.number.name.clone(), sum(&watched.last)))
            .collect()
    }

    /// Returns the numbers that the policy has changed by the end of the run at `end` (ns). Counters
    /// come before other numbers.
    pub fn finish(mut self, machine: &Machine, end: u64) -> CountersResult {
        if self.times.last() != Some(&end) {
            self.sample(machine, end);
        }
        let changed = self.watched.into_iter().filter(|watched| watched.changed);
        let mut list: Vec<Counter> = changed.map(Watched::result).collect();
        list.sort_by_key(|counter| !counter.grows);
        let omitted = list.len().saturating_sub(MAX_LISTED) as u64;
        list.truncate(MAX_LISTED);
        CountersResult {
            times_ns: if list.is_empty() { Vec::new() } else { self.times },
            list,
            omitted,
        }
    }
}

impl Watched {
    fn result(self) -> Counter {
        let before = sum(&self.before);
        let steps = std::iter::once(&before).chain(&self.samples);
        let is_table = self.last.len() == 1 || self.last.len() > MAX_VALUES;
        Counter {
            elements: self.last.len() as u64,
            grows: steps
                .clone()
                .zip(steps.skip(1))
                .all(|(earlier, later)| earlier <= later),
            before,
            after: sum(&self.last),
            values: if is_table { Vec::new() } else { self.last },
            samples: self.samples,
            name: self.number.name,
        }
    }
}

/// Returns the numbers of the loaded policy.
pub fn found(machine: &Machine, image: &Image) -> Vec<Number> {
    let vm = machine.ext().last_vm();
    numbers(image, vm.map(|vm| vm.maps()).unwrap_or_default())
}

/// Returns the sum of the elements, limited to numbers that JSON can contain.
fn sum(values: &[i128]) -> i128 {
    let sum: i128 = values.iter().sum();
    sum.clamp(i64::MIN.into(), u64::MAX.into())
}

fn keep_every_second<T>(list: &mut Vec<T>) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        index % 2 == 0
    });
}

impl Running<'_> {
    /// Starts to read the numbers of the policy during the run, for [`report::RunResult::counters`].
    pub fn count(&mut self) {
        let until = (self.until() < crate::running::LONGEST_NS).then(|| self.until());
        let counters = self
            .image()
            .map(|image| Counters::new(&self.machine, image, self.at(), until));
        self.counters = counters;
    }
}
