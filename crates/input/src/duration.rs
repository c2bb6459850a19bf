// SPDX-License-Identifier: GPL-2.0-only
//! Durations as users write them: `250ms`, `1.5s`, `20us`, `700ns`.

/// Parses a duration to nanoseconds. A number without a unit is in seconds.
///
/// # Errors
/// The text is not a duration, or the duration exceeds about 584 years.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bad = || format!("'{text}' is not a length of time, expected for example 250ms or 1.5s");
    if number.is_empty() {
        return Err(bad());
    }
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        _ => {
            return Err(format!(
                "'{text}': unknown unit '{unit}', expected ns, us, ms, s or min"
            ));
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || (whole.is_empty() && fraction.is_empty()) {
        return Err(bad());
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| bad())?
    };
    let scale = fraction.bytes().fold(1u64, |scale, _| scale * 10);
    let fraction: u64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| bad())?
    };
    let part = u128::from(fraction) * u128::from(unit_ns) / u128::from(scale);
    let ns = u128::from(whole) * u128::from(unit_ns) + part;
    u64::try_from(ns).map_err(|_| format!("'{text}' is too long"))
}

/// Parses a duration that must not be 0.
///
/// # Errors
/// The errors of [`parse`], and an error if the duration is 0.
pub fn parse_some(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err(format!(
            "'{text}' is zero, expected a longer time, for example 250ms or 1.5s"
        )),
        ns => Ok(ns),
    }
}

/// Formats a number of nanoseconds as the shortest exact text with a unit.
pub fn format(ns: u64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns > 0 && ns.is_multiple_of(unit) {
            return format!("{}{name}", ns / unit);
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_exactly_and_written_back() {
        for (text, ns) in [
            ("1", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            ("20us", 20_000),
            (".25ms", 250_000),
        ] {
            assert_eq!(parse(text), Ok(ns));
            assert_eq!(parse(&format(ns)), Ok(ns));
        }
        assert_eq!(parse_some("1ns"), Ok(1));
        assert!(parse_some("0ms").is_err_and(|error| error.contains("'0ms' is zero")));
        for text in [
            "",
            "s",
            "1h",
            "-1s",
            "1.2.3s",
            "1e3s",
            "99999999999999s",
            "1.0000000001s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
