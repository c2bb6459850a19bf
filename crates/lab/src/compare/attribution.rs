// SPDX-License-Identifier: GPL-2.0-only
//! Says where the difference between the completion times of two runs comes from ([`report::path`]).

use input::error::Error;
use report::path::{Kind, Parts, Path};
use runner::scenario::{Observer, Scenario};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::escape;

/// Maximum number of parts that the text lists.
const LISTED: usize = 8;

/// The parts of two completion times.
pub struct Attribution {
    pub seed: u64,
    names: [String; 2],
    /// Completion times in ns.
    pub totals: [u64; 2],
    /// Name of the tasks, kind, and lengths in ns. The parts with the largest differences come
    /// first.
    pub parts: Vec<(String, Kind, [u64; 2])>,
}

/// Executes both runs, and divides the difference of their completion times into parts.
///
/// # Errors
/// The errors of the runs, or a workload whose tasks do not all exit.
pub fn attribute(sides: &[Scenario; 2], names: &[String; 2]) -> Result<Attribution, Error> {
    let [a, b] = [parts(&sides[0])?, parts(&sides[1])?];
    let mut found: Vec<(String, Kind, [u64; 2])> = Vec::new();
    for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
        let length = |parts: &Parts| parts.get(key).copied().unwrap_or(0);
        found.push((key.0.clone(), key.1, [length(&a), length(&b)]));
    }
    found.sort_by_key(|(name, kind, [a, b])| (std::cmp::Reverse(a.abs_diff(*b)), name.clone(), *kind));
    Ok(Attribution {
        seed: sides[0].spec.seed,
        names: names.clone(),
        totals: [a.values().sum(), b.values().sum()],
        parts: found,
    })
}

fn parts(scenario: &Scenario) -> Result<Parts, Error> {
    let capacities = scenario.machine.topology.cpus.iter().map(|cpu| cpu.capacity);
    let mut path = Path::new(capacities.collect());
    let mut observer = Observer {
        sink: &mut path,
        reads: Vec::new(),
        counters: false,
        details: false,
    };
    let outcome = scenario.run_observed(&mut observer, &mut |_| {})?;
    if let Some(failure) = outcome.result.failure() {
        return Err(Error::new(format!("{} {failure}", scenario.policy.name())));
    }
    path.finish()
        .map_err(|why| Error::new(why).hint("use a workload whose tasks exit, such as hackbench or make, and no --for"))
}

/// Returns a difference in percent of the first total, with its sign.
fn points([a, b]: [u64; 2], total: u64) -> String {
    let tenths = u128::from(a.abs_diff(b)) * 1000 / u128::from(total.max(1));
    let sign = if b < a { '-' } else { '+' };
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

impl Attribution {
    pub fn text(&self) -> String {
        let [a, b] = &self.names;
        let [total_a, total_b] = self.totals.map(report::time);
        let base = self.totals[0];
        let mut out = format!(
            "where the difference comes from: with seed {}, the last task exits after {total_a} under {a}, and \
             after {total_b} under {b} ({} %)\n",
            self.seed,
            points(self.totals, base)
        );
        // Differences below 0.05 points are part of the last line.
        let visible = |[a, b]: [u64; 2]| u128::from(a.abs_diff(b)) * 2000 >= u128::from(base);
        let listed = self
            .parts
            .iter()
            .filter(|(_, _, lengths)| visible(*lengths))
            .take(LISTED);
        let mut rest = self.totals;
        for (name, kind, lengths) in listed {
            let [before, after] = lengths.map(report::time);
            let _ = writeln!(
                out,
                "  {:>6} points  {} {}: {before} under A, {after} under B",
                points(*lengths, base),
                escape::line(name),
                kind.text()
            );
            rest = [rest[0] - lengths[0], rest[1] - lengths[1]];
        }
        let _ = writeln!(out, "  {:>6} points  other parts", points(rest, base));
        out
    }

    /// Returns the parts as JSON. Times are in ns.
    pub fn json(&self) -> Value {
        let parts = self
            .parts
            .iter()
            .map(|(name, kind, [a, b])| json!({ "tasks": name, "part": format!("{kind:?}"), "a_ns": a, "b_ns": b }));
        json!({
            "seed": self.seed,
            "a_ns": self.totals[0],
            "b_ns": self.totals[1],
            "parts": parts.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_of_all_lines_are_those_of_the_totals() {
        let attribution = Attribution {
            seed: 3,
            names: ["fifo".into(), "twoq".into()],
            totals: [1_000_000, 1_140_000],
            parts: vec![
                ("ld".into(), Kind::SlowerCpu, [0, 110_000]),
                ("cc".into(), Kind::Waiting, [200_000, 210_000]),
                ("cc".into(), Kind::Computing, [800_000, 800_000]),
            ],
        };
        let want = "\
where the difference comes from: with seed 3, the last task exits after 1.00 ms under fifo, and after 1.14 ms under twoq (+14.0 %)
   +11.0 points  ld computes on slower CPUs: 0 ns under A, 110 us under B
    +1.0 points  cc waits for a CPU: 200 us under A, 210 us under B
    +2.0 points  other parts
";
        assert_eq!(attribution.text(), want);
        assert_eq!(points([100, 90], 1000), "-1.0");
    }
}
