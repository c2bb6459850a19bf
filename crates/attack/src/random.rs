// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers from a seed. They are the same on every host.

/// The splitmix64 generator.
pub struct Random(u64);

impl Random {
    /// Creates the generator for input number `index` of a campaign. (A campaign is a series of
    /// inputs with one seed.)
    pub fn new(seed: u64, index: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    #[allow(clippy::should_implement_trait)] // An iterator could end, this generator never does.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % (n as u64).max(1)) as usize
    }

    /// Returns true with a probability of `percent` per cent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns a number that programs often handle wrongly (near 0 or near a power of two), or
    /// sometimes an arbitrary number.
    pub fn edge(&mut self) -> u64 {
        let power = 1u64 << self.below(64);
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => power,
            4 => power.wrapping_sub(1),
            5 => power.wrapping_neg(),
            6 => self.below(300) as u64,
            _ => self.next(),
        }
    }
}
