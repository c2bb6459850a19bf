// SPDX-License-Identifier: GPL-2.0-only
//! Statistics for comparisons: means, confidence intervals, medians and rank correlation.

/// A mean and the half width of its 95 % confidence interval. The half width is `None` if there are
/// fewer than two values, because they have no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: Option<f64>,
}

/// Returns the mean of independent values with a confidence interval from Student's t distribution.
/// Returns `None` if there are no values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    estimate_repeated(values, 1)
}

/// Like [`estimate`], for values that are evaluated up to `looks` times while their number grows.
/// The intervals of all evaluations contain the true mean with a probability of at least 95 %,
/// because each of them is wrong with a probability of 5 % / `looks` (Bonferroni's correction).
pub fn estimate_repeated(values: &[f64], looks: usize) -> Option<Estimate> {
    let quantile = |df| match looks {
        0 | 1 => student(df),
        _ => student_quantile(df, 1.0 - 0.05 / looks as f64),
    };
    let half_width = deviation(values).map(|s| quantile(values.len() - 1) * s / (values.len() as f64).sqrt());
    Some(Estimate {
        mean: mean(values)?,
        half_width,
    })
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation, or `None` if there are fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// Returns Spearman's rank correlation. Equal values share their mean rank. Returns `None` if there
/// are fewer than three pairs, or if all values of one side are equal.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (a, b) = (ranks(&a), ranks(&b));
    let middle = (pairs.len() + 1) as f64 / 2.0;
    let sum = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| (x - middle) * (y - middle)).sum() };
    let (xx, yy) = (sum(&a, &a), sum(&b, &b));
    (xx > 0.0 && yy > 0.0).then(|| sum(&a, &b) / (xx * yy).sqrt())
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// Returns the 97.5 % quantile of Student's t distribution with these degrees of freedom.
pub fn student(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    let df = degrees_of_freedom.max(1);
    // Above 30 degrees of freedom, the first terms of the series expansion around the quantile of
    // the normal distribution are used. The result is exact to three decimals.
    let (z, n): (f64, f64) = (1.959_964, df as f64);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    let beyond = z + (z.powi(3) + z) / (4.0 * n) + second;
    TABLE.get(df - 1).copied().unwrap_or(beyond)
}

/// Returns the number `t` such that a value of Student's t distribution is between `-t` and `t` with
/// this probability. Above 10 000 degrees of freedom, the result is that for 10 000.
fn student_quantile(degrees_of_freedom: usize, probability: f64) -> f64 {
    let df = degrees_of_freedom.clamp(1, 10_000);
    let (mut low, mut high) = (0.0, 1.0);
    while student_within(df, high) < probability {
        high *= 2.0;
    }
    // Each step halves the interval, and 60 steps exceed the precision of the numbers.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_within(df, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the probability that a value of Student's t distribution is between `-t` and `t`, from
/// the finite series for integer degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn student_within(df: usize, t: f64) -> f64 {
    let angle = (t / (df as f64).sqrt()).atan();
    let square = angle.cos().powi(2);
    // The series has terms with the exponents 0, 2, 4, ... or 1, 3, 5, ... up to df - 2.
    let series = |first: f64, from: usize| {
        let (mut sum, mut term) = (0.0, first);
        for exponent in (from..df.saturating_sub(1)).step_by(2) {
            sum += term;
            term *= square * (exponent + 1) as f64 / (exponent + 2) as f64;
        }
        sum
    };
    match df % 2 {
        0 => angle.sin() * series(1.0, 0),
        _ => (angle + angle.sin() * series(angle.cos(), 1)) * std::f64::consts::FRAC_2_PI,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_students_distribution() {
        let four = estimate(&[1.0, 2.0, 3.0, 4.0]).expect("there are values");
        assert_eq!(four.mean, 2.5);
        // The sample deviation s is 1.29099, and the quantile for 3 degrees of freedom is 3.182.
        assert!((four.half_width.expect("four values have an interval") - 3.182 * 1.290_994 / 2.0).abs() < 1e-5);
        assert_eq!(estimate(&[7.0]).expect("there are values").half_width, None);
        assert_eq!(estimate(&[]), None);
        assert!((student(60) - 2.000).abs() < 1e-3 && (student(31) - 2.0395).abs() < 1e-3);
    }

    #[test]
    fn quantiles_of_any_probability_agree_with_tables() {
        for df in 1..=30 {
            assert!(
                (student_quantile(df, 0.95) - student(df)).abs() < 6e-4,
                "{df} degrees of freedom"
            );
        }
        // From a table of the distribution, for a two-sided probability of 99 % and 99.9 %.
        for (df, probability, quantile) in [
            (1, 0.99, 63.657),
            (2, 0.99, 9.925),
            (9, 0.99, 3.250),
            (10, 0.999, 4.587),
            (39, 0.99, 2.708),
            (100_000, 0.99, 2.576),
        ] {
            assert!((student_quantile(df, probability) - quantile).abs() < 1e-3, "{df}");
        }
        // With three evaluations, an interval is wrong with a probability of 5 % / 3.
        let values = [1.0, 2.0, 3.0, 4.0];
        let [once, thrice] = [1, 3].map(|looks| estimate_repeated(&values, looks).and_then(|e| e.half_width));
        assert_eq!(once, estimate(&values).and_then(|e| e.half_width));
        assert!(thrice > once.map(|half| 1.5 * half) && thrice < once.map(|half| 1.6 * half));
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn rank_correlation_depends_only_on_order() {
        let curve = [(1.0, 1.0), (2.0, 10.0), (3.0, 100.0), (4.0, 1000.0)];
        assert_eq!(spearman(&curve), Some(1.0));
        let falling: Vec<(f64, f64)> = curve.iter().map(|&(x, y)| (x, -y)).collect();
        assert_eq!(spearman(&falling), Some(-1.0));
        // Two neighbours of the four values are exchanged: 1 - 6 * 2 / (4 * 15) = 0.8.
        let swapped =
            spearman(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0)]).expect("the list of pairs is not empty");
        assert!((swapped - 0.8).abs() < 1e-12);
        // Equal values share their mean rank.
        let tied = spearman(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).expect("the list of pairs is not empty");
        assert!((tied - 0.866_025).abs() < 1e-5);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), None);
        assert_eq!(spearman(&curve[..2]), None);
    }
}
