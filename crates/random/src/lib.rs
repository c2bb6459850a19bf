// SPDX-License-Identifier: GPL-2.0-only
//! Random choices for tests, attacks and fuzz targets. They are the same on every host.
//!
//! Crates for random numbers do not fit here, because each choice must depend on only one byte of a
//! fuzzer's input: otherwise a small change of the input changes everything that is made from it.
//! The simulated machine has a generator of its own (`kernel::rng`), which determines results.

/// A source of random choices: Marsaglia's xorshift generator with 64 bits. Each choice also
/// depends on the next byte of the fuzzer's input, until the input is used up.
pub struct Random<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl Random<'static> {
    pub fn new(seed: u64) -> Random<'static> {
        Random::with_bytes(seed, &[])
    }

    /// Creates the generator for input number `index` of a series of inputs with one seed.
    pub fn of_series(seed: u64, index: u64) -> Random<'static> {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ index);
        // Neighbouring seeds differ in few bits, which the first steps spread over the state.
        for _ in 0..4 {
            random.next();
        }
        random
    }
}

impl<'a> Random<'a> {
    pub fn with_bytes(seed: u64, bytes: &'a [u8]) -> Random<'a> {
        Random {
            bytes,
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    #[allow(clippy::should_implement_trait)] // An iterator could end, this generator never does.
    pub fn next(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            self.state ^= u64::from(*first) << 24;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, n: N) -> N {
        let n = n.try_into().unwrap_or(0).max(1);
        let number = N::try_from((self.next() >> 11) % n);
        number.unwrap_or_else(|_| unreachable!("the number is less than one of this type"))
    }

    /// Returns true with a probability of `percent` per cent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns an element of a list that is not empty.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns a number that programs often handle wrongly (near 0 or near a power of two), or
    /// sometimes an arbitrary number.
    pub fn edge(&mut self) -> u64 {
        let power = 1u64 << self.below(64u64);
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => power,
            4 => power.wrapping_sub(1),
            5 => power.wrapping_neg(),
            6 => self.below(300),
            _ => self.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(mut random: Random<'_>) -> Vec<u64> {
        (0..6).map(|_| random.below(1000)).collect()
    }

    #[test]
    fn choices_depend_on_the_seed_and_on_the_bytes_so_far() {
        assert_eq!(numbers(Random::new(1)), numbers(Random::new(1)));
        assert_ne!(numbers(Random::new(1)), numbers(Random::new(2)));
        assert_ne!(numbers(Random::of_series(1, 2)), numbers(Random::of_series(2, 1)));
        let (a, b) = (&[1, 2, 3, 4], &[1, 2, 3, 5]);
        let (a, b) = (numbers(Random::with_bytes(7, a)), numbers(Random::with_bytes(7, b)));
        assert_eq!(a[..3], b[..3]);
        assert_ne!(a[3..], b[3..]);
    }

    #[test]
    fn numbers_are_in_range_and_reach_all_values() {
        let mut random = Random::new(3);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[random.below(7usize)] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!((random.below(0u64), random.below(1u8)), (0, 0));
        assert_eq!(random.pick(&["only"]), "only");
    }
}
