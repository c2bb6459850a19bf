// SPDX-License-Identifier: GPL-2.0-only
//! A histogram with logarithmic buckets. Both its relative error and its memory are limited.
//!
//! Each power of two is divided into `2^BITS` equal buckets. Values below `2^BITS` are exact. A
//! percentile is reported as the middle of its bucket, so its relative error is at most `1 /
//! 2^(BITS + 1)`. This is 0.4 % for `BITS = 7`. Memory is allocated only for the buckets between
//! the smallest and the largest value.

/// Counters of the buckets of a histogram. There is one of these per task, so they take little memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets<const BITS: u32> {
    /// Counters, starting with the one of bucket `first`.
    counters: Vec<u32>,
    first: u32,
    /// Overflows of the 32-bit counters, which are rare.
    carried: Option<Box<Carried>>,
    max: u64,
}

/// Buckets whose counters have overflowed, and the number of their overflows.
#[derive(Clone, Debug, Default)]
struct Carried(Vec<(u32, u64)>);

impl<const BITS: u32> Buckets<BITS> {
    /// Returns the bucket of a value.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are (65 - BITS) * 2^BITS buckets")]
    fn index(value: u64) -> u32 {
        if value >> BITS == 0 {
            return value as u32;
        }
        let shift = 63 - value.leading_zeros() - BITS;
        (shift << BITS) + (value >> shift) as u32
    }

    /// Returns the value in the middle of a bucket.
    fn middle(index: u32) -> u64 {
        let index = u64::from(index);
        if index >> BITS == 0 {
            return index;
        }
        let shift = (index >> BITS) - 1;
        let low = (index - (shift << BITS)) << shift;
        low + ((1 << shift) - 1) / 2
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        let index = Self::index(value);
        let mut at = index.wrapping_sub(self.first) as usize;
        if at >= self.counters.len() {
            self.allocate_up_to(index);
            at = (index - self.first) as usize;
        }
        let counter = &mut self.counters[at];
        *counter = counter.wrapping_add(1);
        if *counter == 0 {
            self.count_overflow(index);
        }
        self.max = self.max.max(value);
    }

    /// Returns the counter that [`Buckets::add`] would increment for this value, if it is allocated.
    #[inline]
    pub fn counter(&self, value: u64) -> Option<&u32> {
        self.counters.get(Self::index(value).wrapping_sub(self.first) as usize)
    }

    /// Allocates memory so that the counters include this bucket.
    #[cold]
    fn allocate_up_to(&mut self, index: u32) {
        if self.counters.is_empty() {
            self.first = index;
        }
        let below = self.first.saturating_sub(index);
        self.counters.splice(0..0, std::iter::repeat_n(0, below as usize));
        self.first -= below;
        let nr = self.counters.len().max((index - self.first) as usize + 1);
        self.counters.resize(nr, 0);
    }

    /// Records that the counter of a bucket has overflowed.
    #[cold]
    fn count_overflow(&mut self, index: u32) {
        let Carried(all) = &mut **self.carried.get_or_insert_default();
        match all.iter_mut().find(|(bucket, _)| *bucket == index) {
            Some((_, times)) => *times += 1,
            None => all.push((index, 1)),
        }
    }

    /// Returns (middle, number of values) for each bucket that contains values, in ascending order.
    fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = (self.first..).zip(&self.counters).map(|(index, &count)| {
            let carried = self.carried.iter().flat_map(|carried| &carried.0);
            let carried = carried.copied().find(|(bucket, _)| *bucket == index);
            let count = u64::from(count) + carried.map_or(0, |(_, times)| times << 32);
            (Self::middle(index).min(self.max), count)
        });
        filled.filter(|&(_, count)| count > 0)
    }

    /// Returns a quantile. For example, 990 000 gives the 99th percentile: the smallest value that
    /// 99 % of the values do not exceed. Returns 0 if there are no values.
    pub fn quantile(&self, per_million: u32) -> u64 {
        let count: u64 = self.filled().map(|(_, count)| count).sum();
        let rank = (u128::from(count) * u128::from(per_million)).div_ceil(1_000_000).max(1);
        let rank = u64::try_from(rank).unwrap_or(u64::MAX);
        let mut below = 0;
        for (value, count) in self.filled() {
            below += count;
            if below >= rank {
                return value;
            }
        }
        self.max
    }
}

/// Histogram with `2^BITS` buckets per power of two.
#[derive(Clone, Debug, Default)]
pub struct Histogram<const BITS: u32> {
    buckets: Buckets<BITS>,
    count: u64,
    sum: u128,
}

impl<const BITS: u32> Histogram<BITS> {
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.buckets.add(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest value, or 0 if there are no values. The result is exact.
    pub fn max(&self) -> u64 {
        self.buckets.max
    }

    /// Returns the mean of all values, rounded down, or 0 if there are no values. It is computed
    /// from the exact sum.
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns (middle, number of values) for each bucket that contains values, in ascending order.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.filled()
    }

    /// Returns a quantile, like [`Buckets::quantile`].
    pub fn quantile(&self, per_million: u32) -> u64 {
        self.buckets.quantile(per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut h = Histogram::<7>::default();
        (0..=100).for_each(|v| h.add(v));
        assert_eq!(
            [1, 500_000, 990_000, 1_000_000].map(|q| h.quantile(q)),
            [0, 50, 99, 100]
        );
        assert_eq!((h.count(), h.max(), h.mean()), (101, 100, 50));
    }

    #[test]
    fn an_empty_histogram_returns_zeros() {
        let h = Histogram::<7>::default();
        assert_eq!((h.quantile(500_000), h.max(), h.mean(), h.count()), (0, 0, 0, 0));
    }

    /// Compares quantiles with exact ones. The values cover the whole range of u64.
    #[test]
    fn the_error_is_under_half_a_percent() {
        let mut random = 1u64;
        let mut values: Vec<u64> = (0..20_000)
            .map(|i| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                random >> (i % 64)
            })
            .collect();
        let mut h = Histogram::<7>::default();
        values.iter().for_each(|&v| h.add(v));
        values.sort_unstable();
        for per_million in [1_000, 100_000, 500_000, 900_000, 990_000, 999_000, 1_000_000] {
            let exact = values[(values.len() as u64 * u64::from(per_million)).div_ceil(1_000_000) as usize - 1];
            let estimate = h.quantile(per_million);
            assert!(
                u128::from(estimate.abs_diff(exact)) * 250 <= u128::from(exact),
                "quantile {per_million} ppm: estimate {estimate}, exact {exact}"
            );
        }
    }

    #[test]
    fn buckets_are_contiguous() {
        let mut last = 0;
        for value in 0..100_000u64 {
            let index = Buckets::<3>::index(value);
            assert!(index == last || index == last + 1, "{value}");
            last = index;
            assert_eq!(Buckets::<3>::index(Buckets::<3>::middle(index)), index);
        }
        let top = Buckets::<7>::index(u64::MAX);
        assert_eq!(Buckets::<7>::index(Buckets::<7>::middle(top)), top);
    }

    #[test]
    fn values_may_be_added_in_any_order() {
        let mut h = Histogram::<3>::default();
        [500, 7, 90_000, 0, 500].into_iter().for_each(|value| h.add(value));
        let quantiles = [200_000, 400_000, 600_000, 800_000, 1_000_000].map(|q| h.quantile(q));
        let middle = |value| Buckets::<3>::middle(Buckets::<3>::index(value));
        assert_eq!(quantiles, [0, 7, middle(500), middle(500), middle(90_000).min(90_000)]);
    }

    #[test]
    fn full_counters_carry_over() {
        let mut h = Buckets::<7> {
            counters: vec![1, u32::MAX],
            ..Buckets::default()
        };
        h.add(1);
        h.add(2);
        assert_eq!(h.carried.as_ref().expect("a counter overflowed").0, [(1, 1)]);
        assert_eq!([h.quantile(500_000), h.quantile(1_000_000)], [1, 2]);
    }
}
