// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's generator of pseudo-random numbers (lib/random32.c): four linear feedback shift
//! registers.

/// State of a generator (struct rnd_state).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prandom([u32; 4]);

/// Parameters of each register: two shifts of the feedback, the shift of the state, and the lowest
/// value with which the register may start.
const REGISTERS: [(u32, u32, u32, u32); 4] = [(6, 13, 18, 2), (2, 27, 2, 8), (13, 21, 7, 16), (3, 12, 13, 128)];

impl Prandom {
    /// Returns the generator that begins with a seed (prandom_seed_state).
    pub(crate) fn new(seed: u64) -> Prandom {
        let mixed = ((seed >> 32) ^ (seed << 10) ^ seed) as u32;
        Prandom(REGISTERS.map(|(_, _, _, least)| if mixed < least { mixed + least } else { mixed }))
    }

    /// Returns the next number (prandom_u32_state).
    pub(crate) fn next(&mut self) -> u32 {
        for (register, (a, b, shift, least)) in self.0.iter_mut().zip(REGISTERS) {
            let s = *register;
            *register = ((s & !(least - 1)) << shift) ^ (((s << a) ^ s) >> b);
        }
        self.0.iter().fold(0, |all, register| all ^ register)
    }
}

#[cfg(test)]
mod tests {
    use crate::simulation::prandom::*;

    #[test]
    fn the_numbers_are_those_of_the_kernel() {
        // The kernel's self-test (test1 of random32): the first number after ten others.
        for (seed, expected) in [(1, 3_484_351_685), (2, 2_623_130_059), (3, 3_125_133_893)] {
            let lcg = |x: u32| x.wrapping_mul(69_069);
            let mut random = Prandom([0; 4]);
            let mut x = seed;
            for (register, (_, _, _, least)) in random.0.iter_mut().zip(REGISTERS) {
                x = lcg(x);
                *register = if x < least { x + least } else { x };
            }
            (0..10).for_each(|_| {
                random.next();
            });
            assert_eq!(random.next(), expected, "seed {seed}");
        }
    }
}
