// SPDX-License-Identifier: GPL-2.0-only
//! How a number of B differs from A's over runs that were made in pairs, each pair from the same seed.
//!
//! Pairs take out what the seeds do to both. Ratios of numbers above 0 are averaged as logarithms: twice and half as much
//! weigh the same. Where a 0 is among them there is no logarithm, and differences are set beside A's mean.

use crate::experiment::statistics::{Estimate, estimate, mean};

/// A value, and between what it lies with 95 % confidence; `None` of a single pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: f64,
    pub bounds: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    pub a: Estimate,
    pub b: Estimate,
    /// B - A, in the number's unit.
    pub difference: Interval,
    /// B / A; infinite if A's are all 0 and B's are not.
    pub ratio: Interval,
}

/// What the interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// B's is more, for sure.
    More,
    Less,
    /// All pairs are equal.
    Equal,
    /// The interval has both in it.
    Nothing,
    /// A single pair shows nothing for sure.
    OnePair,
}

impl Interval {
    fn of(values: &[f64]) -> Option<Interval> {
        let told = estimate(values)?;
        let bounds = told.half_width.map(|half| (told.mean - half, told.mean + half));
        Some(Interval {
            value: told.mean,
            bounds,
        })
    }

    fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval {
            value: f(self.value),
            bounds: self.bounds.map(|(low, high)| (f(low), f(high))),
        }
    }

    /// Every value of the interval; without one, the value itself.
    pub fn ends(&self) -> (f64, f64) {
        self.bounds.unwrap_or((self.value, self.value))
    }
}

impl Effect {
    /// Of (A, B) pairs; `None` without any.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Effect> {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
        let difference = Interval::of(&differences)?;
        let ratio = if pairs.iter().all(|&(a, b)| a > 0.0 && b > 0.0) {
            let logarithms: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
            Interval::of(&logarithms)?.map(f64::exp)
        } else if pairs.iter().all(|(a, b)| a == b) {
            difference.map(|_| 1.0)
        } else {
            let base = mean(&a)?;
            difference.map(|difference| {
                if base > 0.0 {
                    1.0 + difference / base
                } else {
                    infinite(difference)
                }
            })
        };
        Some(Effect {
            a: estimate(&a)?,
            b: estimate(&b)?,
            difference,
            ratio,
        })
    }

    pub fn shown(&self) -> Shown {
        match self.difference.bounds {
            _ if self.difference.value == 0.0 && self.difference.ends() == (0.0, 0.0) => Shown::Equal,
            None => Shown::OnePair,
            // A ratio's interval is the better judge of numbers that vary by factors.
            Some(_) if self.ratio.ends().0 > 1.0 => Shown::More,
            Some(_) if self.ratio.ends().1 < 1.0 => Shown::Less,
            Some(_) => Shown::Nothing,
        }
    }
}

fn infinite(difference: f64) -> f64 {
    if difference > 0.0 { f64::INFINITY } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_show_what_their_seeds_hide() {
        // Seeds vary by 10, the policies by 1 %: sides overlap, pairs do not.
        let pairs = [(100.0, 101.1), (200.0, 202.0), (1000.0, 1009.0), (500.0, 505.0)];
        let effect = Effect::of(&pairs).expect("pairs");
        assert_eq!(effect.shown(), Shown::More);
        let (low, high) = effect.ratio.ends();
        assert!(low > 1.008 && high < 1.012 && (effect.ratio.value - 1.01).abs() < 1e-3);
        // The sides by themselves tell nothing: their intervals are wider than their distance.
        assert!(effect.a.half_width.expect("four") > 50.0 * effect.difference.value);
    }

    #[test]
    fn ratios_are_symmetrical() {
        let effect = Effect::of(&[(1.0, 2.0), (2.0, 1.0)]).expect("pairs");
        assert!((effect.ratio.value - 1.0).abs() < 1e-12);
        assert_eq!(effect.shown(), Shown::Nothing);
    }

    #[test]
    fn nothing_is_something_to_measure_against_by_difference_alone() {
        let equal = Effect::of(&[(0.0, 0.0), (0.0, 0.0)]).expect("pairs");
        assert_eq!((equal.shown(), equal.ratio.value), (Shown::Equal, 1.0));
        let from_nothing = Effect::of(&[(0.0, 5.0), (0.0, 6.0), (0.0, 5.5)]).expect("pairs");
        assert_eq!(
            (from_nothing.shown(), from_nothing.ratio.value),
            (Shown::More, f64::INFINITY)
        );
        let one = Effect::of(&[(2.0, 3.0)]).expect("a pair");
        assert_eq!((one.shown(), one.ratio.bounds), (Shown::OnePair, None));
        assert_eq!(Effect::of(&[]), None);
    }
}
