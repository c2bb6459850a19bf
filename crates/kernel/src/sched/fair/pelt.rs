// SPDX-License-Identifier: GPL-2.0-only
//! Per-entity load tracking: decaying averages of load, runnable time and running time
//! (kernel/sched/pelt.c).
//!
//! A period is 1024 us. The contribution of a period halves every 32 periods. Only running time is
//! scaled by the CPU's capacity, so a slow CPU that never idles has its capacity as utilization.
//! The CPU's frequency is ignored here.

/// Number of periods in which a contribution halves.
const PERIOD: u64 = 32;
/// Greatest sum that a signal of 1 can reach: 1024 times the sum of all y^n.
pub const LOAD_AVG_MAX: u64 = 47_742;
/// Value of `last_update` for averages that belong to no queue.
const NEVER: u64 = u64::MAX;

/// 2^32 * y^n for n in 0..32, rounded down, with y^32 = 1/2.
const DECAY: [u32; PERIOD as usize] = {
    // y = 2^(-1/32) as a fraction with 62 bits, computed by five square roots of 1/2.
    let mut y: u128 = 1 << 61;
    let mut root = 0;
    while root < 5 {
        y = (y << 62).isqrt();
        root += 1;
    }
    let mut table = [u32::MAX; PERIOD as usize];
    let mut power = y;
    let mut n = 1;
    while n < PERIOD as usize {
        table[n] = (power >> 30) as u32;
        power = (power * y) >> 62;
        n += 1;
    }
    table
};

/// Returns `value` after `periods` periods of decay.
fn decay(value: u64, periods: u64) -> u64 {
    if periods > PERIOD * 63 {
        return 0;
    }
    let value = value >> (periods / PERIOD);
    ((u128::from(value) * u128::from(DECAY[(periods % PERIOD) as usize])) >> 32) as u64
}

/// Averages of an entity or of a queue (struct sched_avg).
#[derive(Clone, Copy, Debug)]
pub struct Avg {
    last_update: u64,
    /// Part of the current period that is already in the sums, us.
    contrib: u64,
    load_sum: u64,
    runnable_sum: u64,
    util_sum: u64,
    pub load_avg: u64,
    pub runnable_avg: u64,
    pub util_avg: u64,
}

impl Default for Avg {
    fn default() -> Avg {
        Avg {
            last_update: NEVER,
            contrib: 0,
            load_sum: 0,
            runnable_sum: 0,
            util_sum: 0,
            load_avg: 0,
            runnable_avg: 0,
            util_avg: 0,
        }
    }
}

/// State of an entity or a queue since the last update.
#[derive(Clone, Copy)]
pub struct State {
    /// Queued weight; 0 or 1 for an entity.
    pub load: u64,
    /// Number of runnable tasks.
    pub runnable: u64,
    /// Capacity of the CPU if a task ran, otherwise 0.
    pub running: u64,
}

/// Adds a delta to a value; the result is at least 0.
fn add_positive(value: &mut u64, delta: i64) {
    *value = value.saturating_add_signed(delta);
}

impl Avg {
    /// Returns whether the averages are not part of a queue's sums (last_update_time == 0).
    pub fn detached(&self) -> bool {
        self.last_update == NEVER
    }

    /// Marks the averages as not part of a queue's sums.
    pub fn detach(&mut self) {
        self.last_update = NEVER;
    }

    /// Marks the averages as part of a queue's sums, up to date at `now`.
    pub fn attach(&mut self, now: u64) {
        self.last_update = now;
    }

    /// Returns the greatest value that a sum can have at this point of the period.
    fn divider(&self) -> u64 {
        LOAD_AVG_MAX - 1024 + self.contrib
    }

    /// Updates the averages to `now` (ns). `weight` multiplies `load_sum`; it is the entity's
    /// weight, or 1 for a queue.
    #[inline(always)]
    pub fn update(&mut self, now: u64, state: State, weight: u64) -> bool {
        if self.last_update == NEVER {
            self.last_update = now;
            return false;
        }
        let delta = now.saturating_sub(self.last_update) >> 10;
        if delta == 0 {
            return false;
        }
        self.last_update += delta << 10;
        if state.load == 0 && self.load_sum | self.runnable_sum | self.util_sum == 0 {
            return false;
        }
        let total = delta + self.contrib;
        let periods = total / 1024;
        let mut share = delta;
        if periods > 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(self.util_sum, periods);
            let rest = total % 1024;
            let first = decay(1024 - self.contrib, periods);
            share = first + (LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - 1024) + rest;
            self.contrib = rest;
        } else {
            self.contrib = total;
        }
        if state.load > 0 {
            self.load_sum += state.load * share;
            self.runnable_sum += (state.runnable * share) << 10;
            self.util_sum += state.running * share;
        }
        if periods == 0 {
            return false;
        }
        let divider = self.divider();
        self.load_avg = weight * self.load_sum / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = self.util_sum / divider;
        true
    }

    /// Sets the averages and the matching sums of a new or moved entity (attach_entity_load_avg).
    pub fn set(&mut self, load: u64, util: u64, runnable: u64, weight: u64, like: &Avg) {
        self.contrib = like.contrib;
        let divider = self.divider();
        self.util_avg = util;
        self.util_sum = util * divider;
        self.runnable_avg = runnable;
        self.runnable_sum = runnable * divider;
        self.load_avg = load;
        self.load_sum = (load * divider / weight.max(1)).max(1);
    }

    /// Adds an entity's averages to those of its queue.
    pub fn add(&mut self, entity: &Avg, weight: u64) {
        self.load_avg += entity.load_avg;
        self.load_sum += weight * entity.load_sum;
        self.runnable_avg += entity.runnable_avg;
        self.runnable_sum += entity.runnable_sum;
        self.util_avg += entity.util_avg;
        self.util_sum += entity.util_sum;
    }

    /// Subtracts an entity's averages from those of its queue. Rounding may have made the sum
    /// smaller than the part.
    pub fn sub(&mut self, entity: &Avg, weight: u64) {
        self.load_avg = self.load_avg.saturating_sub(entity.load_avg);
        self.load_sum = self.load_sum.saturating_sub(weight * entity.load_sum);
        self.runnable_avg = self.runnable_avg.saturating_sub(entity.runnable_avg);
        self.runnable_sum = self.runnable_sum.saturating_sub(entity.runnable_sum);
        self.util_avg = self.util_avg.saturating_sub(entity.util_avg);
        self.util_sum = self.util_sum.saturating_sub(entity.util_sum);
    }

    /// Updates a group's entity (`self`) after load has joined or left the group's queue.
    ///
    /// The entity takes over the averages of the group's queue (`group`), and the queue on which
    /// the entity competes (`above`) changes by the same amounts. `runnable` is the change of the
    /// group's unweighted load_sum. `weights` are the entity's weight and the total weight on the
    /// group's queue (update_tg_cfs_util, update_tg_cfs_runnable, update_tg_cfs_load).
    pub(super) fn follow(&mut self, above: &mut Avg, group: &Avg, runnable: i64, weights: (u64, u64)) {
        let divider = above.divider();
        let follow = |sum: &mut u64, avg: &mut u64, above_sum: &mut u64, above_avg: &mut u64, to: u64| {
            let delta = to as i64 - *avg as i64;
            if delta == 0 {
                return;
            }
            let new_sum = to * divider;
            add_positive(above_avg, delta);
            add_positive(above_sum, new_sum as i64 - *sum as i64);
            (*avg, *sum) = (to, new_sum);
        };
        let (util, runnable_avg) = (group.util_avg, group.runnable_avg);
        follow(
            &mut self.util_sum,
            &mut self.util_avg,
            &mut above.util_sum,
            &mut above.util_avg,
            util,
        );
        follow(
            &mut self.runnable_sum,
            &mut self.runnable_avg,
            &mut above.runnable_sum,
            &mut above.runnable_avg,
            runnable_avg,
        );
        if runnable == 0 {
            return;
        }
        let (weight, group_weight) = weights;
        let sum = if runnable > 0 {
            (self.load_sum + runnable as u64).min(divider)
        } else {
            // All tasks of the group count as equally often runnable. This must not increase the
            // sum.
            let estimate = group.load_sum.checked_div(group_weight).unwrap_or(0);
            self.load_sum.min(estimate)
        };
        // The entity cannot run for longer than it is runnable.
        let sum = sum.max(self.util_sum >> 10);
        let load = weight * sum / divider;
        let delta = load as i64 - self.load_avg as i64;
        if delta != 0 {
            add_positive(&mut above.load_avg, delta);
            add_positive(
                &mut above.load_sum,
                (weight * sum) as i64 - (weight * self.load_sum) as i64,
            );
            (self.load_avg, self.load_sum) = (load, sum);
        }
    }

    /// Returns whether a sum is left that decays.
    pub(super) fn decays(&self) -> bool {
        self.load_sum | self.util_sum | self.runnable_sum != 0
    }

    /// Returns the unweighted load sum of an entity.
    pub(super) fn load_sum(&self) -> i64 {
        self.load_sum as i64
    }

    /// Changes the weight of an entity.
    pub fn reweight(&mut self, weight: u64) {
        self.load_avg = weight * self.load_sum / self.divider();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_table_halves_in_32_periods() {
        assert_eq!(DECAY[0], 0xffff_ffff);
        assert_eq!(DECAY[16], 0xb504_f333);
        assert_eq!(decay(1 << 20, 32), (1 << 19) - 1);
    }

    #[test]
    fn utilization_is_capacity_times_busy_time() {
        for (capacity, busy_in_10, expected) in [(1024, 10, 1024), (512, 10, 512), (1024, 5, 512)] {
            let mut avg = Avg::default();
            avg.attach(0);
            for step in 0..1000 {
                let running = if step % 10 < busy_in_10 { capacity } else { 0 };
                let on = u64::from(running > 0);
                avg.update(
                    (step + 1) * MS,
                    State {
                        load: on,
                        runnable: on,
                        running,
                    },
                    1024,
                );
            }
            assert!(
                avg.util_avg.abs_diff(expected) < 70,
                "{} instead of {expected}",
                avg.util_avg
            );
        }
    }

    #[test]
    fn averages_of_a_sleeper_halve_in_32_ms() {
        let mut avg = Avg::default();
        avg.attach(0);
        avg.update(
            1000 * MS,
            State {
                load: 1,
                runnable: 1,
                running: 1024,
            },
            1024,
        );
        avg.update(
            1000 * MS + 32 * 1_048_576,
            State {
                load: 0,
                runnable: 0,
                running: 0,
            },
            1024,
        );
        assert!(
            avg.load_avg.abs_diff(512) < 20 && avg.util_avg.abs_diff(512) < 20,
            "{avg:?}"
        );
    }
}
