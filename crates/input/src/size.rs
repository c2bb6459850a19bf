// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of memory, for example `512M` or `2 GiB`.

use crate::Error;
use crate::quoted::Quoted;
use serde::{Deserialize, Deserializer};

const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// Parses a size. Returns the number of bytes. The text is a number with the unit B, K, M, G or T.
/// These units are powers of 1024. `KiB` and `KB` mean the same as `K`.
///
/// # Errors
/// The text is not a size, has no unit, or the size is 0 or larger than 128T.
pub fn parse(text: &str) -> Result<u64, Error> {
    let bad = || format!("'{text}' is not a size: expected a number with B, K, M, G or T, for example 512M");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let bytes: u64 = number.parse().map_err(|_| bad())?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let shift = match unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit) {
        "" if unit.is_empty() => {
            return Err(Error::new(format!(
                "'{text}' has no unit, expected B, K, M, G or T, for example {number}M"
            )));
        }
        "" if unit == "B" => 0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1,
    };
    let bytes = bytes
        .checked_mul(1 << shift)
        .filter(|bytes| (1..=1 << 47).contains(bytes));
    Ok(bytes.ok_or_else(|| format!("'{text}' is out of range: expected 1B to 128T"))?)
}

/// The text of a size in a TOML file. If the file has a number in its place, the error says that
/// the unit is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer
            .deserialize_any(Quoted(&|number| {
                format!("'{number}' has no unit: write a text with B, KiB, MiB or GiB, for example \"{number} KiB\"")
            }))
            .map(Text)
    }
}

/// Formats a size so that [`parse`] returns the same number of bytes.
pub fn format(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|&&(_, shift)| bytes.trailing_zeros() >= shift);
    match unit {
        Some((name, shift)) if bytes > 0 => format!("{}{name}", bytes >> shift),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, written) in [
            ("4096B", 4096, "4K"),
            ("512M", 512 << 20, "512M"),
            ("2GiB", 2 << 30, "2G"),
            ("3 kb", 3 << 10, "3K"),
            ("1025 b", 1025, "1025B"),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(format(bytes), written);
        }
        assert_eq!(
            parse("512").expect_err("no unit"),
            "'512' has no unit, expected B, K, M, G or T, for example 512M".into()
        );
        for text in [
            "",
            "G",
            "0B",
            "7iB",
            "-1",
            "1.5G",
            "2X",
            "99999999T",
            "18446744073709551615G",
            "1e9",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
