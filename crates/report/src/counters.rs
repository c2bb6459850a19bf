// SPDX-License-Identifier: GPL-2.0-only
//! The counters of a policy: the numbers in its memory that it changed during a run, before, after
//! and over time.

use crate::units::{count, rounded, tenths};
use serde::{Deserialize, Serialize};

/// Characters that stand for the growth in one part of the run, from none to the most.
const LEVELS: [char; 8] = [' ', '.', ':', '-', '=', '+', '*', '#'];
/// Number of parts of the run in a line of these characters.
const PARTS: usize = 16;

/// The numbers that a policy changed during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountersResult {
    /// Times in ns at which the numbers were read. The last one is the end of the run.
    pub times_ns: Vec<u64>,
    pub list: Vec<Counter>,
    /// Number of further numbers that the policy changed and that are not in the list.
    pub omitted: u64,
}

/// A number that the policy changed. If it has several elements, for example one for each CPU, all
/// values are sums over the elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counter {
    /// Path as in C, for example `nr_stolen`, `queue[].len` or `stats[2]`.
    pub name: String,
    pub elements: u64,
    /// Whether the value never became smaller, as that of a counter.
    pub grows: bool,
    /// Value after the policy was loaded.
    pub before: i128,
    /// Value at the end of the run.
    pub after: i128,
    /// Values at `times_ns`.
    pub samples: Vec<i128>,
    /// Values of the elements at the end of the run. Empty if there is one element or if there are
    /// many.
    pub values: Vec<i128>,
}

impl CountersResult {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the growth of a counter per second of simulated time.
    pub(crate) fn per_second(&self, counter: &Counter, began_ns: u64) -> Option<f64> {
        let ns = self.times_ns.last()?.checked_sub(began_ns).filter(|&ns| ns > 0)?;
        (counter.grows).then(|| (counter.after - counter.before) as f64 * 1e9 / ns as f64)
    }

    /// Returns the rows of a table: name, values before and after, growth per second, and the growth
    /// over time as a line of characters.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.list.iter().map(|counter| {
            let rate = self.per_second(counter, 0).map(|rate| tenths(rounded(rate * 10.0)));
            let name = match counter.elements {
                1 => counter.name.clone(),
                elements => format!("{} (sum of {elements})", counter.name),
            };
            vec![
                name,
                number(counter.before),
                number(counter.after),
                rate.unwrap_or_default(),
                format!("|{}|", self.line(counter)),
            ]
        })
    }

    /// Returns how a number changed over time: one character for each part of the run. For a
    /// counter, the character stands for its growth, otherwise for its value.
    fn line(&self, counter: &Counter) -> String {
        let end = self.times_ns.last().copied().unwrap_or(0);
        let mut parts = Vec::new();
        let mut before = counter.before;
        for part in 1..=PARTS {
            let until = end.saturating_mul(part as u64) / PARTS as u64;
            let known = self.times_ns.iter().rposition(|&time| time <= until);
            let now = known.and_then(|at| counter.samples.get(at)).copied().unwrap_or(before);
            parts.push(if counter.grows { now - before } else { now });
            before = now;
        }
        let least = if counter.grows {
            0
        } else {
            parts.iter().copied().min().unwrap_or(0)
        };
        let most = parts.iter().copied().max().unwrap_or(0);
        let level = |value: i128| match (value - least, most - least) {
            (0, _) => 0,
            (value, range) => 1 + (value * (LEVELS.len() as i128 - 2)).checked_div(range).unwrap_or(0),
        };
        let characters = parts
            .into_iter()
            .map(|value| usize::try_from(level(value)).unwrap_or(0));
        characters.map(|level| LEVELS[level.min(LEVELS.len() - 1)]).collect()
    }
}

/// Formats a number: small ones exactly, large ones with three digits.
pub(crate) fn number(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
    match size {
        0..1_000_000 => format!("{sign}{size}"),
        _ => format!("{sign}{}", count(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_growth_and_a_line_over_time() {
        let counter = |name: &str, grows, samples: &[i128], elements| Counter {
            name: name.into(),
            elements,
            grows,
            before: 10,
            after: samples[samples.len() - 1],
            samples: samples.to_vec(),
            values: Vec::new(),
        };
        let counters = CountersResult {
            times_ns: (1..=16).map(|part| part * 125_000_000).collect(),
            list: vec![
                counter(
                    "nr_steady",
                    true,
                    &(1..=16).map(|part| 10 + part * 100).collect::<Vec<_>>(),
                    1,
                ),
                counter("nr_late", true, &[[10; 15].as_slice(), &[2_000_010]].concat(), 4),
                counter("level", false, &[[10; 8].as_slice(), &[-4; 8]].concat(), 1),
            ],
            omitted: 0,
        };
        let rows: Vec<Vec<String>> = counters.rows().collect();
        assert_eq!(rows[0], ["nr_steady", "10", "1610", "800", "|################|"]);
        assert_eq!(
            rows[1],
            ["nr_late (sum of 4)", "10", "2.00M", "1.00M", "|               #|"]
        );
        assert_eq!(rows[2], ["level", "10", "-4", "", "|########        |"]);
    }

    #[test]
    fn numbers_are_exact_up_to_a_million() {
        assert_eq!([0, -7, 999_999, 1_000_000].map(number), ["0", "-7", "999999", "1.00M"]);
        assert_eq!(number(i128::from(u64::MAX)), number(i128::MAX));
    }
}
