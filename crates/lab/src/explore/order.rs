// SPDX-License-Identifier: GPL-2.0-only
//! The order in which the CPUs of a run proceed.

use super::case::{Case, Space};
use input::error::Error;
use kernel::rng::Rng;
use kernel::{Hold, Priorities};
use std::str::FromStr;

/// Largest depth. Real defects need few ordering constraints.
const MAX_DEPTH: u64 = 10;
/// Depth of `pct` without a number.
const DEPTH: u64 = 3;
/// Number of CPUs that get a priority. The machines of explorations are far smaller.
const CPUS: usize = 64;

/// Rule that decides which CPU proceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Local time, except for delays at random points.
    #[default]
    Delays,
    /// Random priorities of the CPUs, which drop at `depth - 1` random points (probabilistic
    /// concurrency testing).
    Priorities { depth: u64 },
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Order, Error> {
        let depth = match text.split_once(':') {
            _ if text == "delays" => return Ok(Order::Delays),
            _ if text == "pct" => Some(DEPTH),
            Some(("pct", depth)) => depth.parse().ok(),
            _ => None,
        };
        match depth.filter(|depth| (1..=MAX_DEPTH).contains(depth)) {
            Some(depth) => Ok(Order::Priorities { depth }),
            None => Err(Error::new(format!(
                "expected 'delays', 'pct' or 'pct:DEPTH' with a depth from 1 to {MAX_DEPTH}"
            ))),
        }
    }
}

impl Space {
    /// Returns case number `number` of an exploration, and the priorities that decide its order. The
    /// forced switches that the priorities cause are known after the run.
    pub fn ordered(&self, case: Case, seed: u64, number: u64) -> (Case, Option<Priorities>) {
        let Order::Priorities { depth } = self.order else {
            return (case, None);
        };
        let mut rng = Rng::new(seed.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(number));
        let cpus = (0..CPUS).map(|_| 1 + i64::from(rng.next_u64() as u32)).collect();
        let drops = self.holds(&mut rng, depth - 1).into_iter();
        let priorities = Priorities {
            cpus,
            drops: drops.map(|(point, ns)| Hold { point, ns }).collect(),
        };
        let holds = Vec::new();
        (Case { holds, ..case }, Some(priorities))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_parsed() {
        let order = |text: &str| text.parse::<Order>().ok();
        assert_eq!(order("delays"), Some(Order::Delays));
        assert_eq!(order("pct"), Some(Order::Priorities { depth: 3 }));
        assert_eq!(order("pct:2"), Some(Order::Priorities { depth: 2 }));
        for text in ["", "pct:", "pct:0", "pct:11", "pct:x", "delays:2", "random"] {
            assert_eq!(order(text), None, "{text}");
        }
    }

    #[test]
    fn a_depth_has_one_drop_less() {
        let space = Space {
            order: Order::Priorities { depth: 3 },
            points: 100_000,
            ..Space::default()
        };
        let (case, priorities) = space.ordered(space.case(1, 2), 1, 2);
        let priorities = priorities.expect("priorities");
        assert!(case.holds.is_empty() && priorities.drops.len() == 2);
        assert!(priorities.cpus[0] != priorities.cpus[1]);
        assert_eq!(space.ordered(case, 1, 2).1, Some(priorities));
    }
}
