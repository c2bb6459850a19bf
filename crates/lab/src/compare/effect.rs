// SPDX-License-Identifier: GPL-2.0-only
//! Computes how much a metric changes from policy A to policy B, over pairs of runs. Both runs of a
//! pair have the same seed.
//!
//! Comparing within pairs cancels what a seed does to both policies. If all values are positive,
//! the ratio B / A is the geometric mean over the pairs, in which doubling and halving weigh the
//! same. A value of 0 has no geometric mean, so the ratio is then 1 + (mean of B - A) / (mean of
//! A).

use crate::experiment::statistics::{Estimate, estimate_repeated, mean};

/// A value with its 95 % confidence interval. With a single pair of runs, `bounds` is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: f64,
    pub bounds: Option<(f64, f64)>,
}

/// The change of one metric from A to B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    pub a: Estimate,
    pub b: Estimate,
    /// B - A, in the unit of the metric.
    pub difference: Interval,
    /// B / A. Infinite if all values of A are 0 and those of B are not.
    pub ratio: Interval,
}

/// Conclusion about a metric, which follows from the confidence interval of its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// B is larger than A.
    More,
    /// B is smaller than A.
    Less,
    /// A and B are equal in every pair.
    Equal,
    /// The confidence interval contains 0, so the direction of the change is not known.
    Unclear,
    /// There is only one pair of runs, and therefore no confidence interval.
    OnePair,
}

impl Interval {
    fn from_values(values: &[f64], looks: usize) -> Option<Interval> {
        let estimate = estimate_repeated(values, looks)?;
        let bounds = estimate
            .half_width
            .map(|half| (estimate.mean - half, estimate.mean + half));
        Some(Interval {
            value: estimate.mean,
            bounds,
        })
    }

    fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval {
            value: f(self.value),
            bounds: self.bounds.map(|(low, high)| (f(low), f(high))),
        }
    }

    /// Returns the bounds of the interval. Without an interval, returns the value as both bounds.
    pub fn ends(&self) -> (f64, f64) {
        self.bounds.unwrap_or((self.value, self.value))
    }
}

impl Effect {
    /// Computes the effect from pairs of values (A, B). Returns `None` if there are no pairs. `looks`
    /// is the number of times that the effect may be computed while the number of pairs grows. The
    /// confidence intervals are corrected for it.
    pub fn from_pairs(pairs: &[(f64, f64)], looks: usize) -> Option<Effect> {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
        let difference = Interval::from_values(&differences, looks)?;
        let ratio = if pairs.iter().all(|&(a, b)| a > 0.0 && b > 0.0) {
            let logarithms: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
            Interval::from_values(&logarithms, looks)?.map(f64::exp)
        } else if pairs.iter().all(|(a, b)| a == b) {
            difference.map(|_| 1.0)
        } else {
            let base = mean(&a)?;
            difference.map(|difference| {
                if base > 0.0 {
                    // No metric can fall below 0.
                    (1.0 + difference / base).max(0.0)
                } else {
                    infinite(difference)
                }
            })
        };
        Some(Effect {
            a: estimate_repeated(&a, looks)?,
            b: estimate_repeated(&b, looks)?,
            difference,
            ratio,
        })
    }

    pub fn conclusion(&self) -> Conclusion {
        match self.difference.bounds {
            _ if self.difference.value == 0.0 && self.difference.ends() == (0.0, 0.0) => Conclusion::Equal,
            None => Conclusion::OnePair,
            // If the values of a metric differ by large factors between the seeds, the ratio is a
            // better test than the difference.
            Some(_) if self.ratio.ends().0 > 1.0 => Conclusion::More,
            Some(_) if self.ratio.ends().1 < 1.0 => Conclusion::Less,
            Some(_) => Conclusion::Unclear,
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
    fn pairing_reveals_effects_smaller_than_the_noise() {
        // The values differ by a factor of 10 between the seeds, but only by 1 % between the
        // policies. B is larger than A in every pair, although the ranges of A and B overlap.
        let pairs = [(100.0, 101.1), (200.0, 202.0), (1000.0, 1009.0), (500.0, 505.0)];
        let effect = Effect::from_pairs(&pairs, 1).expect("the list of pairs is not empty");
        assert_eq!(effect.conclusion(), Conclusion::More);
        let (low, high) = effect.ratio.ends();
        assert!(low > 1.008 && high < 1.012 && (effect.ratio.value - 1.01).abs() < 1e-3);
        // Without the pairs, there would be no conclusion, because the confidence intervals of A
        // and B are much wider than the difference.
        assert!(effect.a.half_width.expect("four pairs have an interval") > 50.0 * effect.difference.value);
    }

    #[test]
    fn doubling_and_halving_cancel() {
        let effect = Effect::from_pairs(&[(1.0, 2.0), (2.0, 1.0)], 1).expect("the list of pairs is not empty");
        assert!((effect.ratio.value - 1.0).abs() < 1e-12);
        assert_eq!(effect.conclusion(), Conclusion::Unclear);
    }

    #[test]
    fn changes_from_zero_are_judged_by_their_difference() {
        let equal = Effect::from_pairs(&[(0.0, 0.0), (0.0, 0.0)], 1).expect("the list of pairs is not empty");
        assert_eq!((equal.conclusion(), equal.ratio.value), (Conclusion::Equal, 1.0));
        let from_zero =
            Effect::from_pairs(&[(0.0, 5.0), (0.0, 6.0), (0.0, 5.5)], 1).expect("the list of pairs is not empty");
        assert_eq!(
            (from_zero.conclusion(), from_zero.ratio.value),
            (Conclusion::More, f64::INFINITY)
        );
        let one = Effect::from_pairs(&[(2.0, 3.0)], 1).expect("the list of pairs is not empty");
        assert_eq!((one.conclusion(), one.ratio.bounds), (Conclusion::OnePair, None));
        assert_eq!(Effect::from_pairs(&[], 1), None);
    }
}
