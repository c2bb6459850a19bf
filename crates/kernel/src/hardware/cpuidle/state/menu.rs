// SPDX-License-Identifier: GPL-2.0-only
//! The governor menu (drivers/cpuidle/governors/menu.c), which Debian's kernels use.
//!
//! The governor predicts how long the CPU will be idle. It multiplies the time until the CPU's next
//! timer by a correction factor, which it has learned from timers at a similar distance. If recent
//! idle times had a typical length that is shorter than this product, it predicts the typical
//! length instead. It chooses the deepest state whose target residency is not longer than the
//! prediction, and whose exit latency is not longer than the CPU's limit (PM QoS).

use machine::IdleState;

/// Number of correction factors: one for each order of magnitude of the time until the next timer.
const BUCKETS: usize = 6;
/// Number of recent idle times that are remembered.
const INTERVALS: usize = 8;
/// Correction factors are fixed-point numbers: a factor of 1 is stored as RESOLUTION * DECAY.
const RESOLUTION: u64 = 1024;
/// A new measurement has the weight 1/DECAY in a correction factor.
const DECAY: u64 = 8;
/// Idle times of at least this length count as perfectly predicted, ns.
const MAX_INTERESTING: u64 = 50_000_000;
/// If the typical idle time is not longer than this, the governor does not look for the next timer,
/// ns.
const RESIDENCY_THRESHOLD: u64 = 15_000;
/// Value in `Menu::intervals` for an idle time of unknown length (UINT_MAX), us.
const UNKNOWN: u64 = u32::MAX as u64;
/// Longest idle time that is remembered, us. The sum of the squares of eight such times does not
/// overflow.
const LONGEST: u64 = 1 << 30;
/// Time until the next timer that is assumed if a CPU has no timers, ns. A real kernel always has a
/// timer within some seconds.
const NO_TIMER: u64 = 1 << 40;

/// State of the governor for one CPU: what it has learned from earlier idle times (struct
/// menu_device).
#[derive(Clone, Debug)]
pub(crate) struct Menu {
    /// Time until the next timer at the last choice of a state, ns.
    next_timer: u64,
    /// Index of the correction factor for `next_timer`.
    bucket: usize,
    /// Correction factors; RESOLUTION * DECAY stands for 1.
    factors: [u64; BUCKETS],
    /// Recent idle times in us. The oldest one is at index `at`.
    intervals: [u64; INTERVALS],
    at: usize,
}

/// The next events that will wake a CPU. Times are in ns from now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    /// Time until the next timer, not counting the tick.
    pub timer: Option<u64>,
    /// Time until the next timer or tick.
    pub tick: u64,
    pub tick_ns: u64,
    pub tick_stopped: bool,
    /// Longest permitted exit latency of the state, ns (cpuidle_governor_latency_req).
    pub latency_limit: u64,
}

/// Decision of the governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub state: usize,
    /// Whether the CPU stops its tick.
    pub stop_tick: bool,
}

impl Default for Menu {
    fn default() -> Menu {
        Menu {
            next_timer: 0,
            bucket: 0,
            factors: [RESOLUTION * DECAY; BUCKETS],
            intervals: [0; INTERVALS],
            at: 0,
        }
    }
}

impl Menu {
    /// Chooses the state that a CPU enters (menu_select).
    pub(crate) fn select(&mut self, states: &[IdleState], next: &Next) -> Choice {
        let mut predicted = self.typical_interval().map_or(u64::MAX, |us| us * 1000);
        let mut tick = next.tick;
        if predicted > RESIDENCY_THRESHOLD || next.tick_stopped {
            self.next_timer = next.timer.unwrap_or(NO_TIMER).min(NO_TIMER);
            self.bucket = bucket(self.next_timer);
            let unit = RESOLUTION * DECAY * 1000;
            let us = (unit / 2 + self.next_timer * self.factors[self.bucket]) / unit;
            predicted = predicted.min(us * 1000);
            // While the tick is stopped, no tick would correct a prediction that is too short. The
            // kernel then ignores such a prediction and uses the next timer.
            let safe = 2 * next.tick_ns;
            if next.tick_stopped && predicted < next.tick_ns && self.next_timer > safe {
                predicted = self.next_timer;
            }
        } else {
            self.next_timer = u64::MAX;
            tick = next.tick_ns / 2;
            self.bucket = BUCKETS - 1;
        }
        let too_deep = |state: &IdleState| {
            self.next_timer < u64::from(state.residency_ns) || next.latency_limit < u64::from(state.exit_ns)
        };
        if next.latency_limit == 0 || states.get(1).is_some_and(too_deep) {
            return Choice {
                state: 0,
                stop_tick: !states[0].busy,
            };
        }
        let mut at = 0;
        for (index, state) in states.iter().enumerate() {
            if u64::from(state.exit_ns) > next.latency_limit {
                break;
            }
            let residency = u64::from(state.residency_ns);
            if residency <= predicted {
                at = index;
                continue;
            }
            let exit = u64::from(state.exit_ns);
            let rests = residency < RESIDENCY_THRESHOLD && residency <= self.next_timer && exit <= predicted;
            if states[at].busy && rests {
                predicted = residency;
                at = index;
                break;
            }
            if predicted < next.tick_ns {
                break;
            }
            if !next.tick_stopped {
                // The tick stays enabled. If it finds the CPU in a shallow state, the governor
                // chooses again.
                predicted = states[at].residency_ns.into();
                break;
            }
            if u64::from(states[at].residency_ns) < next.tick_ns && residency <= tick {
                at = index;
            }
            return Choice {
                state: at,
                stop_tick: true,
            };
        }
        let keeps_tick = (states[at].busy || predicted < next.tick_ns) && !next.tick_stopped;
        if keeps_tick {
            // The tick will end the idle time, so the residency of the state must not be longer
            // than the time until the tick.
            while at > 0 && u64::from(states[at].residency_ns) > tick {
                at -= 1;
            }
        }
        Choice {
            state: at,
            stop_tick: !keeps_tick,
        }
    }

    /// Learns from an idle time of `measured` ns, which includes the exit latency `exit` of the
    /// state (menu_update). `tick` says whether the tick ended the idle time.
    pub(crate) fn reflect(&mut self, measured: u64, exit: u64, tick: bool, tick_ns: u64) {
        let idle = if tick && self.next_timer > tick_ns {
            // The prediction was too short: without the tick, the CPU would have stayed idle.
            9 * MAX_INTERESTING / 10
        } else if measured > 2 * exit {
            measured - exit
        } else {
            measured / 2
        };
        let idle = idle.min(self.next_timer);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY;
        *factor += match self.next_timer {
            timer if timer > 0 && idle < MAX_INTERESTING => RESOLUTION * idle / timer,
            _ => RESOLUTION,
        };
        self.add_interval((idle / 1000).min(LONGEST));
    }

    /// Handles a CPU that was interrupted before it entered the chosen state.
    pub(crate) fn rejected(&mut self) {
        self.add_interval(UNKNOWN);
    }

    fn add_interval(&mut self, us: u64) {
        self.intervals[self.at] = us;
        self.at = (self.at + 1) % INTERVALS;
    }

    /// Returns the typical length of recent idle times in us, or `None` if they vary too much
    /// (get_typical_interval).
    fn typical_interval(&self) -> Option<u64> {
        let mut kept = 0..UNKNOWN;
        loop {
            let mut nr = 0;
            let (mut sum, mut squares, mut min, mut max) = (0, 0, UNKNOWN, 0);
            for us in self.intervals {
                if us >= kept.start && us < kept.end {
                    nr += 1;
                    sum += us;
                    squares += us * us;
                    min = min.min(us);
                    max = max.max(us);
                }
            }
            if max == 0 {
                return None;
            }
            let average = sum / nr;
            let variance = squares / nr - average * average;
            let enough = nr * 4 >= INTERVALS as u64 * 3;
            let narrow = variance <= u64::MAX / 36 && average * average > 36 * variance;
            if variance <= 400 || (enough && narrow) {
                return Some(average);
            }
            // Leaves out the value that is farthest from the average and tries again, unless too
            // few values are left.
            if nr * 4 <= INTERVALS as u64 * 3 {
                return None;
            }
            if average - min > max - average {
                kept.start = min + 1;
            } else {
                kept.end = max;
            }
        }
    }
}

/// Returns the index of the correction factor for a time until the next timer in ns (which_bucket).
fn bucket(ns: u64) -> usize {
    let limits = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    limits.iter().filter(|&&limit| ns >= limit).count()
}

#[cfg(test)]
mod tests {
    use crate::hardware::cpuidle::state::menu::*;

    const TICK: u64 = 4_000_000;

    fn states() -> Vec<IdleState> {
        let state = |name: &str, exit_us: u32, residency_us: u32, busy| IdleState {
            name: name.into(),
            exit_ns: exit_us * 1000,
            residency_ns: residency_us * 1000,
            polling: true,
            busy,
        };
        vec![
            state("POLL", 0, 0, true),
            state("C1", 2, 2, false),
            state("C1E", 10, 20, false),
            state("C6", 133, 600, false),
        ]
    }

    fn next(timer: Option<u64>, tick_stopped: bool) -> Next {
        Next {
            timer,
            tick: timer.unwrap_or(TICK).min(TICK),
            tick_ns: TICK,
            tick_stopped,
            latency_limit: u64::MAX,
        }
    }

    /// Returns the state that a governor without history chooses if the next timer expires in `ns`.
    fn fresh(ns: u64) -> usize {
        Menu::default().select(&states(), &next(Some(ns), false)).state
    }

    #[test]
    fn the_next_timer_limits_the_depth() {
        assert_eq!(fresh(1_000), 0, "the timer expires within the residency of C1");
        assert_eq!(fresh(5_000), 1);
        assert_eq!(fresh(500_000), 2);
        assert_eq!(fresh(700_000), 3);
        assert_eq!(fresh(1_000_000_000), 3);
    }

    #[test]
    fn a_latency_limit_excludes_deep_states() {
        let limited = |latency_limit: u64| {
            let far = next(Some(1_000_000_000), false);
            Menu::default().select(&states(), &Next { latency_limit, ..far }).state
        };
        assert_eq!(limited(133_000), 3);
        assert_eq!(limited(132_999), 2);
        assert_eq!(limited(2_000), 1);
        assert_eq!(limited(1_999), 0);
        assert_eq!(limited(0), 0);
    }

    #[test]
    fn repeated_short_idle_times_lead_to_shallow_states_and_keep_the_tick() {
        let mut menu = Menu::default();
        let far = next(Some(1_000_000_000), false);
        assert_eq!(
            menu.select(&states(), &far),
            Choice {
                state: 3,
                stop_tick: true
            }
        );
        for _ in 0..INTERVALS {
            menu.select(&states(), &far);
            menu.reflect(30_000, 10_000, false, TICK);
        }
        assert_eq!(menu.typical_interval(), Some(20));
        assert_eq!(
            menu.select(&states(), &far),
            Choice {
                state: 2,
                stop_tick: false
            }
        );
        // When the tick is stopped, the governor does not trust a short prediction.
        let stopped = next(Some(1_000_000_000), true);
        assert_eq!(
            menu.select(&states(), &stopped),
            Choice {
                state: 3,
                stop_tick: true
            }
        );
    }

    #[test]
    fn ticks_that_wake_the_cpu_lengthen_the_prediction() {
        let mut menu = Menu::default();
        let far = next(Some(1_000_000_000), false);
        for _ in 0..INTERVALS {
            menu.select(&states(), &far);
            menu.reflect(30_000, 10_000, false, TICK);
        }
        for _ in 0..INTERVALS {
            menu.select(&states(), &far);
            menu.reflect(TICK, 10_000, true, TICK);
        }
        assert_eq!(menu.typical_interval(), Some(45_000));
        assert_eq!(menu.select(&states(), &far).state, 3);
    }

    #[test]
    fn wakeups_before_the_timer_lower_the_correction_factor() {
        let mut menu = Menu::default();
        let timer = next(Some(700_000), false);
        let mut us = 10;
        // The idle times vary, so only the factor of this bucket can predict them.
        for _ in 0..40 {
            menu.select(&states(), &timer);
            us = us * 37 % 509;
            menu.reflect(us * 1000 + 133_000, 133_000, false, TICK);
        }
        assert_eq!(menu.typical_interval(), None);
        assert_eq!(menu.select(&states(), &timer).state, 2);
    }

    #[test]
    fn one_outlier_does_not_hide_a_typical_interval() {
        let mut menu = Menu {
            next_timer: u64::MAX,
            ..Menu::default()
        };
        for us in [100, 101, 99, 100, 5000, 100, 100, 102] {
            menu.reflect(us * 1000, 0, false, TICK);
        }
        assert_eq!(menu.typical_interval(), Some(100));
    }
}
