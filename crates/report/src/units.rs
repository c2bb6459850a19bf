// SPDX-License-Identifier: GPL-2.0-only
//! Formats numbers with three digits and a unit.

/// Returns `n / unit` with three digits, or `None` if the result is 1000 or more.
fn three_digits(n: u64, unit: u64) -> Option<String> {
    for (places, scale) in [(2, 100u128), (1, 10), (0, 1)] {
        let scaled = (u128::from(n) * scale + u128::from(unit) / 2) / u128::from(unit);
        if scaled < 1000 {
            return Some(match places {
                0 => scaled.to_string(),
                _ => format!("{}.{:0places$}", scaled / scale, scaled % scale),
            });
        }
    }
    None
}

/// Formats a time, for example `870 ns`, `12.3 us`, `1.05 ms` or `7.00 s`.
#[must_use]
pub fn time(ns: u64) -> String {
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let units = [(1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
    let short = units
        .iter()
        .find_map(|&(unit, name)| Some(format!("{} {name}", three_digits(ns, unit)?)));
    short.unwrap_or_else(|| format!("{} s", (u128::from(ns) + 500_000_000) / 1_000_000_000))
}

/// Formats a value that is given in tenths, for example `980`, `12.3k`, `4.05M` or `7.00G`.
pub(crate) fn tenths(n: u64) -> String {
    if n < 10_000 && n.is_multiple_of(10) {
        return (n / 10).to_string();
    }
    let units = [(10, ""), (10_000, "k"), (10_000_000, "M"), (10_000_000_000, "G")];
    let short = units
        .iter()
        .find_map(|&(unit, name)| Some(format!("{}{name}", three_digits(n, unit)?)));
    short.unwrap_or_else(|| (n / 10).to_string())
}

/// Formats a count, for example `980`, `12.3k`, `4.05M` or `7.00G`.
pub(crate) fn count(n: u64) -> String {
    tenths(n.saturating_mul(10))
}

/// Rounds to the nearest integer. Negative values and NaN become 0. Values that are too large become
/// the largest number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "conversions of floats saturate"
)]
#[must_use]
pub fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Formats a percentage with two decimals. The value must have at most three decimals, so that the
/// rounding with integers is exact.
pub(crate) fn percent(value: f64) -> String {
    let hundredths = (rounded(value * 1000.0) + 5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let cases = [
            0,
            999,
            1_000,
            9_994,
            9_995,
            99_949,
            99_950,
            999_499,
            999_500,
            1_050_000,
            7_000_000_000,
        ];
        let expected = [
            "0 ns", "999 ns", "1.00 us", "9.99 us", "10.0 us", "99.9 us", "100 us", "999 us", "1.00 ms", "1.05 ms",
            "7.00 s",
        ];
        assert_eq!(cases.map(time), expected);
        assert_eq!(time(5_000_000_000_000), "5000 s");
        assert_eq!(time(u64::MAX), "18446744074 s");
    }

    #[test]
    fn counts_have_three_digits() {
        assert_eq!(
            [0, 7, 999, 1_000, 12_345, 4_050_000].map(count),
            ["0", "7", "999", "1.00k", "12.3k", "4.05M"]
        );
        assert_eq!(tenths(35), "3.50");
        assert_eq!(count(u64::MAX / 10), "1844674407370955161");
    }

    #[test]
    fn percentages_have_two_decimals() {
        assert_eq!(
            [0.0, 0.004, 0.005, 33.333, 66.667, 100.0].map(percent),
            ["0.00", "0.00", "0.01", "33.33", "66.67", "100.00"]
        );
    }
}
