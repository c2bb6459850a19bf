// SPDX-License-Identifier: GPL-2.0-only
//! Distributions, named by the letters that queueing theory uses.

use super::arguments::{Arguments, Unit};
use crate::program::Dist;

/// D is constant, M exponential, and H2 hyper-exponential with balanced means. A trace is a list of
/// values, which are used one after the other.
pub const KINDS: Unit = Unit::Choice(&["D", "M", "H2", "trace", "uniform", "pareto"]);

/// Returns the distribution `kind`. `mean` is the name of the parameter that contains its mean or,
/// for a trace, all values. `cv2` is the squared coefficient of variation of H2. `uniform` ranges
/// from 0 to twice the mean. `pareto` is bounded and has shape 1.5. Because of the bound, its mean
/// is lower than the value of the parameter.
///
/// # Errors
/// Fails if there are several values for anything but a trace.
pub fn dist(arguments: &Arguments, kind: &str, mean: &str, cv2: u64) -> Result<Dist, crate::Error> {
    let values = arguments.list(mean);
    if kind != "trace" && values.len() != 1 {
        let message = format!("'{mean}' has {} values, but {kind} takes one, the mean", values.len());
        return Err(arguments
            .error(message)
            .hint("give one value, or use the distribution trace"));
    }
    let value = values[0];
    Ok(match kind {
        "D" => Dist::Fixed(value),
        "M" => Dist::Exponential { mean: value },
        "H2" => hyper_exponential(value, cv2),
        "uniform" => Dist::Uniform { lo: 0, hi: 2 * value },
        // The mean of a Pareto distribution is lo * alpha / (alpha - 1), which is 3 lo.
        "pareto" => Dist::Pareto {
            lo: (value / 3).max(1),
            hi: (value * 1000).max(1),
            alpha_milli: 1500,
        },
        _ => Dist::Trace(values),
    })
}

/// Returns a mixture of two exponential distributions, each of which contributes half of the mean.
/// With c = cv2, the probability of the first one is p = (1 + sqrt((c - 1) / (c + 1))) / 2.
fn hyper_exponential(mean: u64, cv2: u64) -> Dist {
    let permille_a = 500 + (250_000 * (cv2 - 1) / (cv2 + 1)).isqrt();
    Dist::HyperExponential {
        permille_a: u32::try_from(permille_a).unwrap_or(1000),
        mean_a: mean * 500 / permille_a,
        mean_b: mean * 500 / (1000 - permille_a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_phases_have_the_mean_and_variance() {
        for cv2 in [1, 4, 10, 100] {
            let Dist::HyperExponential {
                permille_a,
                mean_a,
                mean_b,
            } = hyper_exponential(1_000_000, cv2)
            else {
                panic!("not hyper-exponential")
            };
            let (p, a, b) = (u64::from(permille_a), mean_a, mean_b);
            let mean = (p * a + (1000 - p) * b) / 1000;
            assert!(mean.abs_diff(1_000_000) < 10, "{mean}");
            // The second moment of an exponential distribution is 2 mean^2. The mean is a million,
            // so `second` and `measured` are in thousandths of mean^2.
            let second = 2 * (p * (a / 1000).pow(2) + (1000 - p) * (b / 1000).pow(2)) / 1_000_000;
            let measured = second - 1000;
            assert!(measured.abs_diff(cv2 * 1000) <= cv2 * 60, "{cv2}: {measured}");
        }
    }
}
