// SPDX-License-Identifier: GPL-2.0-only
//! Says where the difference between the times of two runs of a workload comes from, in shares that
//! add up ([`crate::path`]).

use crate::path::{Divided, Part, Parts, SegmentKind};
use crate::units;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use trace::escape;

/// Maximum number of parts that the text lists.
const LISTED: usize = 8;

/// The time that is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The time until the last task exits.
    Completion,
    /// The time of all tasks, divided by the number of their operations.
    Operation,
    /// The mean time of all tasks, if they complete no operations.
    Task,
}

/// A part of both runs, with its lengths in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub tasks: String,
    pub kind: SegmentKind,
    /// Capacity of the CPUs. `None` if the part is no time on a CPU, or all CPUs are equal.
    pub capacity: Option<u32>,
    pub ns: [f64; 2],
}

/// The parts of the times of two runs.
#[derive(Clone, Debug)]
pub struct Attribution {
    pub basis: Basis,
    pub names: [String; 2],
    /// Lengths in ns. The sums of all shares.
    pub totals: [f64; 2],
    /// The shares with the largest differences come first.
    pub shares: Vec<Share>,
    /// Capacities of the CPUs of both machines, without repetition, highest first.
    capacities: Vec<u32>,
}

/// Returns how the times of several runs can be compared, and their parts in ns.
pub fn comparable(runs: &[&Divided]) -> (Basis, Vec<BTreeMap<Part, f64>>) {
    let scaled = |parts: &Parts, by: f64| {
        let parts = parts.iter();
        parts
            .map(|(part, &ns)| (part.clone(), ns as f64 / by.max(1.0)))
            .collect()
    };
    if runs.iter().all(|run| run.path.is_some()) {
        let paths = runs.iter().filter_map(|run| run.path.as_ref());
        return (Basis::Completion, paths.map(|parts| scaled(parts, 1.0)).collect());
    }
    if runs.iter().all(|run| run.operations > 0) {
        let parts = runs.iter().map(|run| scaled(&run.tasks, run.operations as f64));
        return (Basis::Operation, parts.collect());
    }
    (Basis::Task, runs.iter().map(|run| scaled(&run.tasks, 1.0)).collect())
}

/// Returns the name of CPUs with a capacity, of which the machine has these capacities, in the
/// plural.
pub fn cpu_kind(capacity: u32, capacities: &[u32]) -> String {
    match capacities {
        [fast, _] if *fast == capacity => "P cores".to_owned(),
        [_, slow] if *slow == capacity => "E cores".to_owned(),
        _ => format!("CPUs of capacity {capacity}"),
    }
}

/// Compares two runs.
pub fn attribute(runs: [&Divided; 2], names: [String; 2]) -> Attribution {
    let (basis, parts) = comparable(&runs);
    let mut shares: BTreeMap<&Part, [f64; 2]> = BTreeMap::new();
    for (side, parts) in parts.iter().enumerate() {
        for (part, &ns) in parts {
            shares.entry(part).or_default()[side] += ns;
        }
    }
    let mut capacities: Vec<u32> = shares.keys().filter_map(|part| part.capacity).collect();
    capacities.sort_unstable_by_key(|&capacity| Reverse(capacity));
    capacities.dedup();
    let share = |(part, ns): (&Part, [f64; 2])| Share {
        tasks: part.tasks.clone(),
        kind: part.kind,
        capacity: part.capacity,
        ns,
    };
    let mut shares: Vec<Share> = shares.into_iter().map(share).collect();
    let difference = |share: &Share| (share.ns[1] - share.ns[0]).abs();
    shares.sort_by(|a, b| difference(b).total_cmp(&difference(a)));
    Attribution {
        basis,
        names,
        totals: [0, 1].map(|side| parts[side].values().sum()),
        shares,
        capacities,
    }
}

/// Formats a difference in percent of a total, with its sign.
fn points(ns: [f64; 2], total: f64) -> String {
    format!("{:+.1}", 100.0 * (ns[1] - ns[0]) / total.max(1.0))
}

fn time(ns: f64) -> String {
    units::time(units::rounded(ns))
}

impl Attribution {
    /// Returns the shares with one entry for the same tasks and kind on all CPUs. Only the time
    /// that slower CPUs cost is listed by their capacities.
    fn lines(&self) -> Vec<Share> {
        let mut lines: Vec<Share> = Vec::new();
        for share in &self.shares {
            let capacity = share.capacity.filter(|_| share.kind == SegmentKind::SlowerCpu);
            let same =
                |line: &&mut Share| (&line.tasks, line.kind, line.capacity) == (&share.tasks, share.kind, capacity);
            match lines.iter_mut().find(same) {
                Some(line) => line.ns = [line.ns[0] + share.ns[0], line.ns[1] + share.ns[1]],
                None => lines.push(Share {
                    capacity,
                    ..share.clone()
                }),
            }
        }
        lines.sort_by(|a, b| (b.ns[1] - b.ns[0]).abs().total_cmp(&(a.ns[1] - a.ns[0]).abs()));
        lines
    }

    /// Returns the time that tasks spent on CPUs with a capacity.
    fn on_cpus(&self, tasks: &str, capacity: Option<u32>) -> [f64; 2] {
        let own = self.shares.iter();
        let own = own.filter(|share| share.tasks == tasks && share.capacity == capacity);
        own.fold([0.0; 2], |sum, share| [sum[0] + share.ns[0], sum[1] + share.ns[1]])
    }

    /// Returns a sentence with the largest share of the difference. For example: `twoq takes 14.0 %
    /// longer than fifo: 11.0 points because ld ran 342 ms on E cores (0 ns under fifo)`.
    pub fn headline(&self) -> String {
        let [a, b] = &self.names;
        let [total_a, total_b] = self.totals;
        let percent = 100.0 * (total_b - total_a) / total_a.max(1.0);
        if percent.abs() < 0.05 {
            return match self.basis {
                Basis::Completion => format!("{b} takes as long as {a}"),
                Basis::Operation => format!("{b} needs as much time per operation as {a}"),
                Basis::Task => format!("tasks take as long under {b} as under {a}"),
            };
        }
        let longer = if percent > 0.0 { "longer" } else { "less time" };
        let more = if percent > 0.0 { "more" } else { "less" };
        let by = percent.abs();
        let mut text = match self.basis {
            Basis::Completion => format!("{b} takes {by:.1} % {longer} than {a}"),
            Basis::Operation => format!("{b} needs {by:.1} % {more} time per operation than {a}"),
            Basis::Task => format!("tasks take {by:.1} % {longer} under {b} than under {a}"),
        };
        let lines = self.lines();
        // Shares in the direction of the whole difference. That tasks compute is no good reason,
        // unless there is no other.
        let change = |line: &&Share| (line.ns[1] - line.ns[0]) * percent.signum();
        let first = lines.iter().find(|line| change(line) > 0.0);
        let reason = lines
            .iter()
            .find(|line| line.kind != SegmentKind::Computing && change(line) > 0.0);
        let reason = reason.filter(|&reason| first.is_some_and(|first| 2.0 * change(&reason) >= change(&first)));
        if let Some(most) = reason.or(first) {
            let tasks = escape::line(&most.tasks);
            let share = (100.0 * (most.ns[1] - most.ns[0]) / total_a.max(1.0)).abs();
            let reason = match (most.kind, most.capacity) {
                (SegmentKind::SlowerCpu, Some(capacity)) => {
                    let on = self.on_cpus(&most.tasks, most.capacity);
                    let kind = cpu_kind(capacity, &self.capacities);
                    format!("{tasks} ran {} on {kind} ({} under {a})", time(on[1]), time(on[0]))
                }
                (kind, _) => format!(
                    "{tasks} {}: {} ({} under {a})",
                    kind.text(),
                    time(most.ns[1]),
                    time(most.ns[0])
                ),
            };
            let _ = write!(text, ": {share:.1} points because {reason}");
        }
        text
    }

    /// Returns the differences of the largest parts, as lines of text: points, description, and the
    /// time in each run. The last line has the sum of all others.
    pub fn table(&self) -> Vec<(String, String, [String; 2])> {
        let base = self.totals[0];
        let visible = |line: &&Share| (line.ns[1] - line.ns[0]).abs() * 2000.0 >= base;
        let lines = self.lines();
        let mut rest = self.totals;
        let mut table = Vec::new();
        for line in lines.iter().filter(visible).take(LISTED) {
            let mut text = format!("{} {}", escape::line(&line.tasks), line.kind.text());
            if let Some(capacity) = line.capacity {
                text = text.replace("slower CPUs", &cpu_kind(capacity, &self.capacities));
            }
            table.push((points(line.ns, base), text, line.ns.map(time)));
            rest = [rest[0] - line.ns[0], rest[1] - line.ns[1]];
        }
        let rest = rest.map(|ns| ns.max(0.0));
        table.push((points(rest, base), "other parts".to_owned(), rest.map(time)));
        table
    }

    pub fn text(&self) -> String {
        let [a, b] = &self.names;
        let [total_a, total_b] = self.totals.map(time);
        let what = match self.basis {
            Basis::Completion => "the last task exits after",
            Basis::Operation => "per operation, all tasks together need",
            Basis::Task => "all tasks together take",
        };
        let mut out = format!(
            "{}\n{what} {total_a} under {a}, and {total_b} under {b}:\n",
            self.headline()
        );
        for (points, text, [before, after]) in self.table() {
            let _ = writeln!(out, "  {points:>6} points  {text}: {before} under A, {after} under B");
        }
        out
    }

    /// Returns all parts as JSON. Times are in ns.
    pub fn json(&self) -> Value {
        let shares = self.shares.iter().map(|share| {
            json!({
                "tasks": share.tasks, "part": format!("{:?}", share.kind), "capacity": share.capacity,
                "a_ns": units::rounded(share.ns[0]), "b_ns": units::rounded(share.ns[1]),
            })
        });
        json!({
            "basis": format!("{:?}", self.basis),
            "headline": self.headline(),
            "a_ns": units::rounded(self.totals[0]),
            "b_ns": units::rounded(self.totals[1]),
            "parts": shares.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tasks: &str, kind: SegmentKind, capacity: impl Into<Option<u32>>) -> Part {
        Part {
            tasks: tasks.to_owned(),
            kind,
            capacity: capacity.into(),
        }
    }

    fn divided(parts: &[(Part, u64)], operations: u64) -> Divided {
        Divided {
            path: (operations == 0).then(|| parts.iter().cloned().collect()),
            tasks: parts.iter().cloned().collect(),
            operations,
        }
    }

    fn names() -> [String; 2] {
        ["fifo".into(), "twoq".into()]
    }

    #[test]
    fn the_points_of_all_lines_are_those_of_the_totals() {
        let a = divided(
            &[
                (part("cc", SegmentKind::Waiting, None), 200_000_000),
                (part("cc", SegmentKind::Computing, 1024), 800_000_000),
            ],
            0,
        );
        let b = divided(
            &[
                (part("ld", SegmentKind::SlowerCpu, 512), 110_000_000),
                (part("ld", SegmentKind::Computing, 512), 110_000_000),
                (part("cc", SegmentKind::Waiting, None), 210_000_000),
                (part("cc", SegmentKind::Computing, 1024), 710_000_000),
            ],
            0,
        );
        let attribution = attribute([&a, &b], names());
        let want = "\
twoq takes 14.0 % longer than fifo: 11.0 points because ld ran 220 ms on E cores (0 ns under fifo)
the last task exits after 1.00 s under fifo, and 1.14 s under twoq:
   +11.0 points  ld computes: 0 ns under A, 110 ms under B
   +11.0 points  ld loses time on E cores: 0 ns under A, 110 ms under B
    -9.0 points  cc computes: 800 ms under A, 710 ms under B
    +1.0 points  cc waits for a CPU, all being busy: 200 ms under A, 210 ms under B
    +0.0 points  other parts: 0 ns under A, 0 ns under B
";
        assert_eq!(attribution.text(), want);
    }

    #[test]
    fn workloads_without_an_end_are_compared_by_the_time_of_an_operation() {
        let parts = |waiting| {
            [
                (part("web", SegmentKind::Computing, None), 900),
                (part("web", SegmentKind::Waiting, None), waiting),
            ]
        };
        let [a, b] = [divided(&parts(100), 10), divided(&parts(600), 10)];
        let attribution = attribute([&a, &b], names());
        assert_eq!(
            (attribution.basis, attribution.totals),
            (Basis::Operation, [100.0, 150.0])
        );
        assert!(
            attribution.headline().starts_with("twoq needs 50.0 % more time per operation than fifo: 50.0 points because web waits for a CPU, all being busy: 60 ns ("),
            "{}",
            attribution.headline()
        );
        let equal = attribute([&a, &a], names());
        assert_eq!(equal.headline(), "twoq needs as much time per operation as fifo");
    }
}
