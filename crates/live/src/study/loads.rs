// SPDX-License-Identifier: GPL-2.0-only
//! Loads of the CPUs over time: how they are split, and since when they are even.

use crate::run::Look;
use std::collections::BTreeMap;

/// Even loads count as reached if they stay so for this long.
const STAYS_NS: u64 = 1_000_000_000;

/// The most frequent split from `after_ns` on, the most loaded CPU first (which one that is is chance), and the share of the
/// looks that saw it in percent.
pub fn usual(looks: &[Look], after_ns: u64) -> Option<(Vec<u32>, f64)> {
    let mut seen: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    let later = looks.iter().filter(|(at, _)| *at >= after_ns);
    for (_, loads) in later {
        let mut loads = loads.clone();
        loads.sort_unstable_by(|a, b| b.cmp(a));
        *seen.entry(loads).or_default() += 1;
    }
    let all: usize = seen.values().sum();
    let (loads, count) = seen.into_iter().max_by_key(|(_, count)| *count)?;
    Some((loads, 100.0 * count as f64 / all as f64))
}

/// The first look, in s, from which on no CPU had two tasks more than another one for a second.
pub fn even_from_s(looks: &[Look]) -> Option<f64> {
    let even = |loads: &[u32]| {
        let (least, most) = (loads.iter().min()?, loads.iter().max()?);
        (most - least <= 1).then_some(())
    };
    let mut since = None;
    for (at, loads) in looks {
        match (even(loads), since) {
            (None, _) => since = None,
            (Some(()), None) => since = Some(*at),
            (Some(()), Some(begun)) if at - begun >= STAYS_NS => return Some(begun as f64 / 1e9),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn splits_are_counted_and_even_ones_must_stay() {
        let mut looks: Vec<Look> = vec![(0, vec![7, 0]), (10 * MS, vec![4, 3]), (20 * MS, vec![5, 2])];
        looks.extend((3..200).map(|i| (i * 10 * MS, vec![3, 4])));
        assert_eq!(even_from_s(&looks), Some(0.03));
        assert_eq!(usual(&looks, 20 * MS).map(|(loads, _)| loads), Some(vec![4, 3]));
        let (_, share) = usual(&looks, 0).expect("looks");
        assert!((share - 99.0).abs() < 1e-9, "{share}");
        assert_eq!(even_from_s(&looks[..50]), None);
        assert_eq!(usual(&looks, u64::MAX), None);
    }
}
