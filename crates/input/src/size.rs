// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of memory, for example `512M` or `2 GiB`.

const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// Parses a size. Returns the number of bytes. The text is a number, which K, M, G or T may follow.
/// These units are powers of 1024. `KiB` and `KB` mean the same as `K`.
///
/// # Errors
/// The text is not a size, or the size is 0 or larger than 128T.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("'{text}' is not a size: expected a number of bytes, or a number with K, M, G or T, for example 512M")
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1,
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    let bytes = number
        .checked_mul(1 << shift)
        .filter(|bytes| (1..=1 << 47).contains(bytes));
    bytes.ok_or_else(|| format!("'{text}' is out of range: expected 1 byte to 128T"))
}

/// Formats a size so that [`parse`] returns the same number of bytes.
pub fn format(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|&&(_, shift)| bytes.trailing_zeros() >= shift);
    match unit {
        Some((name, shift)) if bytes > 0 => format!("{}{name}", bytes >> shift),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, written) in [
            ("4096", 4096, "4K"),
            ("512M", 512 << 20, "512M"),
            ("2GiB", 2 << 30, "2G"),
            ("3 kb", 3 << 10, "3K"),
            ("1025", 1025, "1025"),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(format(bytes), written);
        }
        for text in [
            "",
            "G",
            "0",
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
