// SPDX-License-Identifier: GPL-2.0-only
//! Per-entity load tracking (PELT): decaying averages of load, runnable time and running time
//! (kernel/sched/pelt.c).
//!
//! Time is divided into periods of 1024 us. The contribution of a period to an average halves every
//! 32 periods. Times are those of the CPU's clock for load averages, which advances more slowly on
//! a slow CPU (`clock.rs`). All three averages are therefore independent of capacity and frequency.

/// Number of periods after which a contribution has halved.
const PERIOD: u64 = 32;
/// Greatest sum that a constant signal of 1 can reach: 1024 * (sum of y^n for all n >= 0), where
/// y^32 = 1/2.
pub const LOAD_AVG_MAX: u64 = 47_742;
/// Value of `last_update` while no queue's averages include these averages.
const NEVER: u64 = u64::MAX;

/// (2^32 - 1) * y^n for n from 0 to 31, rounded down, where y^32 = 1/2 (runnable_avg_yN_inv).
const DECAY: [u32; PERIOD as usize] = {
    // y = 2^(-1/32) as a fixed-point number with 62 fractional bits. It is computed by taking the
    // square root of 1/2 five times.
    let mut y: u128 = 1 << 61;
    let mut root = 0;
    while root < 5 {
        y = (y << 62).isqrt();
        root += 1;
    }
    let mut table = [0; PERIOD as usize];
    let mut power: u128 = 1 << 62;
    let mut n = 0;
    while n < PERIOD as usize {
        table[n] = ((power * u32::MAX as u128) >> 62) as u32;
        power = (power * y) >> 62;
        n += 1;
    }
    table
};

/// Returns what is left of `value` after `periods` periods.
fn decay(value: u64, periods: u64) -> u64 {
    if periods > PERIOD * 63 {
        return 0;
    }
    let value = value >> (periods / PERIOD);
    ((u128::from(value) * u128::from(DECAY[(periods % PERIOD) as usize])) >> 32) as u64
}

/// Averages of an entity or of a queue (struct sched_avg).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avg {
    /// Time of the last update on the clock of the CPU, ns, or [`NEVER`].
    last_update: u64,
    /// Part of the current period that has already been added to the sums, us.
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

/// Smallest value of [`Avg::divider`] (PELT_MIN_DIVIDER).
const MIN_DIVIDER: u64 = LOAD_AVG_MAX - 1024;

/// Sum of the averages of entities that have left a queue, and that the queue's averages still
/// include (cfs_rq->removed).
#[derive(Clone, Copy, Debug, Default)]
pub struct Removed {
    pub nr: u32,
    pub load: u64,
    pub util: u64,
    pub runnable: u64,
}

/// Activity of an entity or a queue since the last update.
#[derive(Clone, Copy)]
pub struct State {
    /// For a queue, the weight of the queued entities. For an entity, 1 if it is queued, otherwise
    /// 0.
    pub load: u64,
    /// Number of runnable tasks.
    pub runnable: u64,
    /// Whether the entity or a task of the queue was running.
    pub running: bool,
}

/// Changes an average and its sum. The results are at least 0, and the sum is at least the smallest
/// sum that belongs to the average (__update_sa).
fn change(avg: &mut u64, sum: &mut u64, delta_avg: i64, delta_sum: i64) {
    *avg = avg.saturating_add_signed(delta_avg);
    *sum = sum.saturating_add_signed(delta_sum).max(*avg * MIN_DIVIDER);
}

impl Avg {
    /// Returns the averages of a queue. Their first period begins at the time 0.
    pub(crate) fn of_queue() -> Avg {
        Avg {
            last_update: 0,
            ..Avg::default()
        }
    }

    /// Returns the time of the last update.
    pub(crate) fn last_update(&self) -> u64 {
        self.last_update
    }

    /// Subtracts the averages of entities that have left the queue while it was not locked. Their
    /// sums are estimated. Returns the (negative) change of the unweighted load sum.
    pub(crate) fn subtract_removed(&mut self, removed: Removed) -> i64 {
        let divider = self.divider();
        let sub = |avg: &mut u64, sum: &mut u64, removed: u64| {
            change(avg, sum, -(removed as i64), -((removed * divider) as i64));
        };
        sub(&mut self.load_avg, &mut self.load_sum, removed.load);
        sub(&mut self.util_avg, &mut self.util_sum, removed.util);
        sub(&mut self.runnable_avg, &mut self.runnable_sum, removed.runnable);
        -((removed.runnable * divider) as i64) >> 10
    }

    /// Returns whether no queue's averages include these averages (last_update_time == 0).
    pub fn detached(&self) -> bool {
        self.last_update == NEVER
    }

    /// Records that no queue's averages include these averages any more.
    pub fn detach(&mut self) {
        self.last_update = NEVER;
    }

    /// Returns the greatest value that a sum can reach at this point of the current period.
    fn divider(&self) -> u64 {
        LOAD_AVG_MAX - 1024 + self.contrib
    }

    /// Updates the averages to the time `now` in ns. load_avg = weight * load_sum / divider, where
    /// `weight` is the weight of an entity, or 1 for a queue. Returns whether the averages were
    /// recalculated.
    #[inline(always)]
    pub fn update(&mut self, now: u64, state: State, weight: u64) -> bool {
        if self.last_update == NEVER {
            self.last_update = now;
            return false;
        }
        let delta = now.saturating_sub(self.last_update) >> 10;
        if delta == 0 {
            // The clock of another CPU may be behind.
            self.last_update = self.last_update.min(now);
            return false;
        }
        self.last_update += delta << 10;
        if state.load == 0 && self.load_sum | self.runnable_sum | self.util_sum == 0 {
            // Periods begin and end even if nothing is runnable.
            let total = delta + self.contrib;
            self.contrib = total % 1024;
            if total >= 1024 {
                (self.load_avg, self.runnable_avg, self.util_avg) = (0, 0, 0);
            }
            return total >= 1024;
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
            self.util_sum += (u64::from(state.running) * share) << 10;
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

    /// Begins the averages at the time `now`, without a change of their values.
    pub(crate) fn begin(&mut self, now: u64) {
        self.last_update = now;
    }

    /// Sets the averages of a new or moved entity, and the sums that correspond to them
    /// (attach_entity_load_avg). `like` contains the averages of the entity's new queue. The
    /// entity's current period begins when the queue's current period begins.
    pub fn set(&mut self, load: u64, util: u64, runnable: u64, weight: u64, like: &Avg) {
        self.last_update = like.last_update;
        self.contrib = like.contrib;
        let divider = self.divider();
        self.util_avg = util;
        self.util_sum = util * divider;
        self.runnable_avg = runnable;
        self.runnable_sum = runnable * divider;
        self.load_avg = load;
        self.load_sum = (load * divider / weight.max(1)).max(1);
    }

    /// Adds an entity's averages to the averages of its queue.
    pub fn add(&mut self, entity: &Avg, weight: u64) {
        self.add_load(entity, weight);
        self.runnable_avg += entity.runnable_avg;
        self.runnable_sum += entity.runnable_sum;
        self.util_avg += entity.util_avg;
        self.util_sum += entity.util_sum;
    }

    /// Adds an entity's load to the load of its queue (enqueue_load_avg).
    pub(crate) fn add_load(&mut self, entity: &Avg, weight: u64) {
        let (avg, sum) = (entity.load_avg as i64, (weight * entity.load_sum) as i64);
        change(&mut self.load_avg, &mut self.load_sum, avg, sum);
    }

    /// Subtracts an entity's averages from the averages of its queue.
    pub fn sub(&mut self, entity: &Avg, weight: u64) {
        self.sub_load(entity, weight);
        let (avg, sum) = (entity.runnable_avg as i64, entity.runnable_sum as i64);
        change(&mut self.runnable_avg, &mut self.runnable_sum, -avg, -sum);
        let (avg, sum) = (entity.util_avg as i64, entity.util_sum as i64);
        change(&mut self.util_avg, &mut self.util_sum, -avg, -sum);
    }

    /// Subtracts an entity's load from the load of its queue (dequeue_load_avg).
    pub(crate) fn sub_load(&mut self, entity: &Avg, weight: u64) {
        let (avg, sum) = (entity.load_avg as i64, (weight * entity.load_sum) as i64);
        change(&mut self.load_avg, &mut self.load_sum, -avg, -sum);
    }

    /// Updates the entity of a group (`self`) after load has joined or left the group's queue
    /// (update_tg_cfs_util, update_tg_cfs_runnable, update_tg_cfs_load).
    ///
    /// The entity gets the averages of the group's queue (`group`). The queue that contains the
    /// entity (`above`) changes by the same amounts. `runnable` is the change of the group's
    /// unweighted load_sum. `weights` contains the entity's weight and the total weight on the
    /// group's queue.
    pub(crate) fn follow(&mut self, above: &mut Avg, group: &Avg, runnable: i64, weights: (u64, u64)) {
        let divider = above.divider();
        let follow = |avg: &mut u64, sum: &mut u64, to: u64, above_avg: &mut u64, above_sum: &mut u64| {
            let delta = to as i64 - *avg as i64;
            if delta == 0 {
                return;
            }
            let new_sum = to * divider;
            change(above_avg, above_sum, delta, new_sum as i64 - *sum as i64);
            (*avg, *sum) = (to, new_sum);
        };
        let (util, runnable_avg) = (group.util_avg, group.runnable_avg);
        follow(
            &mut self.util_avg,
            &mut self.util_sum,
            util,
            &mut above.util_avg,
            &mut above.util_sum,
        );
        follow(
            &mut self.runnable_avg,
            &mut self.runnable_sum,
            runnable_avg,
            &mut above.runnable_avg,
            &mut above.runnable_sum,
        );
        if runnable == 0 {
            return;
        }
        let (weight, group_weight) = weights;
        let sum = if runnable > 0 {
            (self.load_sum + runnable as u64).min(divider)
        } else {
            // The estimate assumes that all tasks of the group are runnable for equally long times.
            // It must not increase the sum, because load has left the queue.
            let estimate = group.load_sum.checked_div(group_weight).unwrap_or(0);
            self.load_sum.min(estimate)
        };
        // The entity cannot run for longer than it is runnable.
        let sum = sum.max(self.util_sum >> 10);
        let load = weight * sum / divider;
        let delta = load as i64 - self.load_avg as i64;
        if delta != 0 {
            let delta_sum = (weight * sum) as i64 - (weight * self.load_sum) as i64;
            change(&mut above.load_avg, &mut above.load_sum, delta, delta_sum);
            (self.load_avg, self.load_sum) = (load, sum);
        }
    }

    /// Returns whether any sum is not 0 and therefore decays.
    pub(crate) fn decays(&self) -> bool {
        self.load_sum | self.util_sum | self.runnable_sum != 0
    }

    /// Returns the sum from which the utilization is calculated.
    pub(crate) fn util_sum(&self) -> u64 {
        self.util_sum
    }

    /// Returns the unweighted load sum of an entity.
    pub(crate) fn load_sum(&self) -> i64 {
        self.load_sum as i64
    }

    /// Changes the weight of an entity.
    pub fn reweight(&mut self, weight: u64) {
        self.load_avg = weight * self.load_sum / self.divider();
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fair::state::pelt::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_table_halves_in_32_periods() {
        assert_eq!(DECAY[0], 0xffff_ffff);
        assert_eq!(DECAY[16], 0xb504_f333);
        assert_eq!(decay(1 << 20, 32), (1 << 19) - 1);
    }

    #[test]
    fn utilization_is_the_share_of_busy_time() {
        for (busy_in_10, expected) in [(10, 1024), (5, 512)] {
            let mut avg = Avg::of_queue();
            for step in 0..1000 {
                let running = step % 10 < busy_in_10;
                let on = u64::from(running);
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
                "the utilization is {} instead of {expected}",
                avg.util_avg
            );
        }
    }

    #[test]
    fn averages_of_a_sleeper_halve_in_32_ms() {
        let mut avg = Avg::of_queue();
        avg.update(
            1000 * MS,
            State {
                load: 1,
                runnable: 1,
                running: true,
            },
            1024,
        );
        avg.update(
            1000 * MS + 32 * 1_048_576,
            State {
                load: 0,
                runnable: 0,
                running: false,
            },
            1024,
        );
        assert!(
            avg.load_avg.abs_diff(512) < 20 && avg.util_avg.abs_diff(512) < 20,
            "the averages have not halved: {avg:?}"
        );
    }
}
