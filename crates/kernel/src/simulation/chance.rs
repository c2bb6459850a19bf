// SPDX-License-Identifier: GPL-2.0-only
//! Random samples of the distributions in a workload. Only integers are used: logarithms and powers
//! of two are calculated with fixed-point numbers.

use crate::simulation::rng::Rng;
use workload::Dist;

/// The number 1 in the format Q32, which is a fixed-point number with 32 fractional bits.
const ONE: u64 = 1 << 32;
/// ln 2 in Q32.
const LN_2: u64 = 2_977_044_472;

/// Draws a random value from `dist`, in most cases a duration in ns. `position` is the number of
/// values that the caller has already drawn from a [`Dist::Trace`]; other distributions ignore it.
pub fn draw(dist: &Dist, rng: &mut Rng, position: &mut u64) -> u64 {
    match dist {
        Dist::Fixed(ns) => *ns,
        Dist::Uniform { lo, hi } => lo + rng.below((hi - lo).saturating_add(1)),
        Dist::Exponential { mean } => exponential(*mean, rng),
        Dist::HyperExponential {
            permille_a,
            mean_a,
            mean_b,
        } => {
            let first = rng.below(1000) < u64::from(*permille_a);
            exponential(if first { *mean_a } else { *mean_b }, rng)
        }
        Dist::Pareto { lo, hi, alpha_milli } => {
            // The inverse of the distribution function is lo * u^(-1/alpha), where u is uniformly
            // distributed in (0, 1]. The result is clamped to hi.
            let exponent = minus_log2(rng) as u128 * 1000 / u128::from((*alpha_milli).max(1));
            let value = (u128::from(*lo) * u128::from(exp2(exponent.min(u128::from(ONE) * 31) as u64))) >> 32;
            value.clamp(u128::from(*lo), u128::from(*hi)) as u64
        }
        Dist::Trace(values) => {
            let value = values
                .get((*position % values.len().max(1) as u64) as usize)
                .copied()
                .unwrap_or(0);
            *position += 1;
            value
        }
    }
}

fn exponential(mean: u64, rng: &mut Rng) -> u64 {
    let minus_ln = (u128::from(minus_log2(rng)) * u128::from(LN_2)) >> 32;
    ((u128::from(mean) * minus_ln) >> 32) as u64
}

/// Returns -log2(u) in the format Q32, where u is uniformly distributed in (0, 1].
fn minus_log2(rng: &mut Rng) -> u64 {
    let u = rng.next_u64().max(1);
    // The variable `u` is 2^64 times the u in the description of this function. The result is
    // therefore 64 - log2(`u`). Here log2(`u`) = 63 - (leading zeros of `u`) + log2(m), with a
    // mantissa m in [1, 2).
    let zeros = u.leading_zeros();
    let mut mantissa = u << zeros >> 31;
    let mut fraction = 0;
    for bit in (0..32).rev() {
        mantissa = ((u128::from(mantissa) * u128::from(mantissa)) >> 32) as u64;
        if mantissa >= 2 * ONE {
            mantissa >>= 1;
            fraction |= 1 << bit;
        }
    }
    (u64::from(zeros) + 1) * ONE - fraction
}

/// Returns 2^x in the format Q32. x is also in this format and is less than 32.
fn exp2(x: u64) -> u64 {
    // The bits of the fraction that are set multiply the result by 2^(1/2), 2^(1/4) and so on.
    // These factors are repeated square roots of 2.
    let mut root: u64 = 2 * ONE;
    let mut result: u128 = u128::from(ONE);
    for bit in (0..32).rev() {
        root = (u128::from(root) << 32).isqrt() as u64;
        if x >> bit & 1 != 0 {
            result = (result * u128::from(root)) >> 32;
        }
    }
    (result << (x >> 32).min(31)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(dist: &Dist) -> u64 {
        let mut rng = Rng::new(1);
        let n = 200_000;
        (0..n).map(|_| draw(dist, &mut rng, &mut 0)).sum::<u64>() / n
    }

    #[test]
    fn sample_means_match_the_distributions() {
        let near = |dist: Dist, mean: u64| {
            let measured = sample_mean(&dist);
            assert!(
                measured.abs_diff(mean) * 100 < mean,
                "{dist:?}: the mean is {measured} instead of {mean}"
            );
        };
        near(Dist::Exponential { mean: 20_000_000 }, 20_000_000);
        near(Dist::Uniform { lo: 1000, hi: 3000 }, 2000);
        near(
            Dist::HyperExponential {
                permille_a: 900,
                mean_a: 1_000_000,
                mean_b: 11_000_000,
            },
            2_000_000,
        );
        // With alpha = 3 and an upper limit that is never reached, the mean is 1.5 * lo.
        near(
            Dist::Pareto {
                lo: 1_000_000,
                hi: u64::MAX,
                alpha_milli: 3000,
            },
            1_500_000,
        );
    }

    #[test]
    fn a_trace_repeats() {
        let dist = Dist::Trace(vec![5, 7]);
        let (mut rng, mut at) = (Rng::new(0), 0);
        assert_eq!([5, 7, 5], [0; 3].map(|_| draw(&dist, &mut rng, &mut at)));
    }
}
