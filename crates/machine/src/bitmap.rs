// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs or NUMA nodes in hwloc's notation: hexadecimal words of 32 bits, highest word
//! first.

use crate::MAX_CPUS;
use input::Error;
use std::fmt;

/// Every index of a CPU or node is below this limit. It is higher than the largest number of CPUs,
/// because offline CPUs leave gaps in the indexes.
pub(crate) const MAX_INDEX: u32 = MAX_CPUS * 2;

/// A set of indexes: one bit for each index, 64 in each word. The last word is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bitmap(Vec<u64>);

impl Bitmap {
    /// Parses hwloc's notation.
    ///
    /// # Errors
    /// Fails if `text` is not a bitmap of indexes below [`MAX_INDEX`]. The error says why.
    pub(crate) fn parse(text: &str) -> Result<Bitmap, Error> {
        if text.starts_with("0xf...f") {
            return Err("is infinite".into());
        }
        if let Some(bad) = text.chars().find(|c| !(c.is_ascii_hexdigit() || "x,".contains(*c))) {
            return Err(Error::new(format!("contains {bad:?}, which is not part of a bitmap")));
        }
        let mut bitmap = Bitmap::default();
        let highest = text.matches(',').count();
        for (n, word) in text.rsplit(',').enumerate() {
            // hwloc omits zero words between others: 0x1,,0x0.
            let value = match word.strip_prefix("0x") {
                None if word.is_empty() && n != highest => Some(0),
                Some(digits) if digits.len() <= 8 => u32::from_str_radix(digits, 16).ok(),
                _ => None,
            };
            let value = value.ok_or_else(|| format!("contains {word:?}, which is not a word of 32 bits"))?;
            if value != 0 && n * 32 >= MAX_INDEX as usize || n > MAX_INDEX as usize {
                return Err(Error::new(format!("contains an index that is not below {MAX_INDEX}")));
            }
            if value != 0 {
                let len = bitmap.0.len().max(n / 2 + 1);
                bitmap.0.resize(len, 0);
                bitmap.0[n / 2] |= u64::from(value) << (32 * (n % 2));
            }
        }
        Ok(bitmap)
    }

    pub(crate) fn single(index: u32) -> Bitmap {
        Bitmap::from_iter([index])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let bits = |word: u64| (0..64).filter(move |bit| word & (1 << bit) != 0);
        let words = (0..).step_by(64).zip(&self.0);
        words.flat_map(move |(first, &word)| bits(word).map(move |bit| first + bit))
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        let word = self.0.get(index as usize / 64);
        word.is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    pub(crate) fn is_within(&self, outer: &Bitmap) -> bool {
        let in_outer = |n: usize| outer.0.get(n).copied().unwrap_or(0);
        self.0.iter().enumerate().all(|(n, word)| word & !in_outer(n) == 0)
    }

    pub(crate) fn intersects(&self, other: &Bitmap) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn insert_all(&mut self, other: &Bitmap) {
        let len = self.0.len().max(other.0.len());
        self.0.resize(len, 0);
        for (word, new) in self.0.iter_mut().zip(&other.0) {
            *word |= new;
        }
    }
}

impl FromIterator<u32> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Bitmap {
        let mut bitmap = Bitmap::default();
        for index in indexes {
            let word = index as usize / 64;
            let len = bitmap.0.len().max(word + 1);
            bitmap.0.resize(len, 0);
            bitmap.0[word] |= 1 << (index % 64);
        }
        bitmap
    }
}

/// Formats the set in hwloc's notation.
impl fmt::Display for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<u64> = self
            .0
            .iter()
            .flat_map(|&word| [word & u64::from(u32::MAX), word >> 32])
            .collect();
        let end = words.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
        for n in (0..end).rev() {
            let comma = if n + 1 < end { "," } else { "" };
            write!(f, "{comma}0x{:08x}", words.get(n).unwrap_or(&0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<u32>, Error> {
        Bitmap::parse(text).map(|bitmap| bitmap.iter().collect())
    }

    #[test]
    fn hwloc_notation_is_read() {
        assert_eq!(parse("0x0"), Ok(vec![]));
        assert_eq!(parse("0x00000005"), Ok(vec![0, 2]));
        assert_eq!(parse("0x1,,0x3"), Ok(vec![0, 1, 64]));
        assert_eq!(parse("0x80000000,0x0"), Ok(vec![63]));
        for bad in ["0x1ffffffff", "0x000000001", ",0x1", "", "1", "0xz"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("0x1{}", ",0x0".repeat(600))).is_err());
    }

    #[test]
    fn hwloc_notation_is_written() {
        for indexes in [vec![], vec![0, 2], vec![0, 1, 64], vec![63], vec![33]] {
            let bitmap = Bitmap::from_iter(indexes.iter().copied());
            assert_eq!(parse(&bitmap.to_string()), Ok(indexes));
        }
        assert_eq!(Bitmap::single(33).to_string(), "0x00000002,0x00000000");
    }

    #[test]
    fn sets_are_compared() {
        let (small, large) = (Bitmap::from_iter([1, 65]), Bitmap::from_iter([1, 2, 65, 130]));
        assert!(small.is_within(&large) && !large.is_within(&small));
        assert!(small.intersects(&large) && !small.intersects(&Bitmap::from_iter([2, 64])));
        assert_eq!((small.first(), small.len()), (Some(1), 2));
        assert!(small.contains(65) && !small.contains(64) && !small.contains(1000));
    }
}
