// SPDX-License-Identifier: GPL-2.0-only
//! Durations as users write them: `250ms`, `1.5s`, `20us`, `700ns`.

use crate::Error;
use crate::quoted::Quoted;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

/// Parses a duration to nanoseconds. Only 0 needs no unit.
///
/// # Errors
/// The text is not a duration, has no unit, or the duration exceeds about 584 years.
pub fn parse(text: &str) -> Result<u64, Error> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = number.trim_end();
    let bad = || format!("'{text}' is not a length of time, expected for example 250ms or 1.5s");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if fraction.len() > 9 || (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return Err(bad().into());
    }
    let unit_ns = match unit {
        "m" => 60_000_000_000,
        "" if number.bytes().all(|b| matches!(b, b'0' | b'.')) => 1,
        "" => return Err(without_unit(number).into()),
        unit => match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, ns)) => *ns,
            None => {
                return Err(Error::new(format!(
                    "'{text}': unknown unit '{unit}', expected ns, us, ms, s or min, for example {number}ms"
                )));
            }
        },
    };
    let value = |part: &str| {
        if part.is_empty() {
            Ok(0)
        } else {
            part.parse::<u64>().map_err(|_| bad())
        }
    };
    let scale = fraction.bytes().fold(1u64, |scale, _| scale * 10);
    let part = u128::from(value(fraction)?) * u128::from(unit_ns) / u128::from(scale);
    let ns = u128::from(value(whole)?) * u128::from(unit_ns) + part;
    Ok(u64::try_from(ns).map_err(|_| format!("'{text}' is too long"))?)
}

/// Returns the error message about a duration that is only a number.
fn without_unit(number: impl Display) -> String {
    format!("'{number}' has no unit, expected ns, us, ms, s or min, for example {number}ms")
}

/// The text of a duration in a TOML file. If the file has a number in its place, the error says that
/// the unit is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer
            .deserialize_any(Quoted(&|number| {
                format!("'{number}' has no unit: write a text with ns, us, ms, s or min, for example \"{number}ms\"")
            }))
            .map(Text)
    }
}

/// Parses a duration that must not be 0.
///
/// # Errors
/// The errors of [`parse`], and an error if the duration is 0.
pub fn parse_some(text: &str) -> Result<u64, Error> {
    match parse(text)? {
        0 => Err(Error::new(format!(
            "'{text}' is zero, expected a longer time, for example 250ms or 1.5s"
        ))),
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
            ("0", 0),
            ("90 s", 90_000_000_000),
            ("2m", 120_000_000_000),
            ("0.5min", 30_000_000_000),
            ("1.5s", 1_500_000_000),
            ("20us", 20_000),
            (".25ms", 250_000),
        ] {
            assert_eq!(parse(text), Ok(ns));
            assert_eq!(parse(&format(ns)), Ok(ns));
        }
        assert_eq!(parse_some("1ns"), Ok(1));
        assert!(parse_some("0ms").is_err_and(|error| error.message.contains("'0ms' is zero")));
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

    #[test]
    fn a_number_without_a_unit_is_refused() {
        for (text, example) in [("100", "100ms"), ("1.5", "1.5ms"), ("7 ", "7ms")] {
            let error = parse(text).expect_err(text);
            let number = text.trim();
            assert_eq!(
                error,
                format!("'{number}' has no unit, expected ns, us, ms, s or min, for example {example}").into()
            );
        }
        let error = parse("100sec").expect_err("an unknown unit");
        assert_eq!(
            error,
            "'100sec': unknown unit 'sec', expected ns, us, ms, s or min, for example 100ms".into()
        );
    }
}
