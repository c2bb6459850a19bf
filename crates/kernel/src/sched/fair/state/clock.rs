// SPDX-License-Identifier: GPL-2.0-only
//! State of the clock of the load averages, see `sched::fair::clock`.

use crate::layout::SCHED_CAPACITY_SCALE;

/// State of a CPU's clock. All fields are in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeltClock {
    /// By how much the clock was behind the time at `since`.
    behind: u64,
    /// Time at which the CPU last changed its capacity or became busy or idle.
    since: u64,
    /// By how much the clock stays behind when the CPU is idle (lost_idle_time).
    pub(crate) lost: u64,
}

impl PeltClock {
    /// Returns by how much the clock is behind the time `now`. `capacity` is the CPU's capacity
    /// since the last change, or 1024 if the CPU is idle.
    #[inline]
    pub(crate) fn behind(&self, now: u64, capacity: u64) -> u64 {
        if capacity >= SCHED_CAPACITY_SCALE {
            return self.behind;
        }
        let elapsed = now - self.since;
        self.behind + elapsed - elapsed * capacity / SCHED_CAPACITY_SCALE
    }

    /// Starts a new period, because the capacity changes or an idle period ends.
    pub(crate) fn restart(&mut self, now: u64, capacity: u64) {
        self.behind = self.behind(now, capacity);
        self.since = now;
    }

    /// Makes the clock catch up with the time, because the CPU becomes idle
    /// (update_idle_rq_clock_pelt). `saturated` says that the CPU was busy all the time.
    pub(crate) fn enter_idle(&mut self, now: u64, capacity: u64, saturated: bool) {
        if saturated {
            self.lost = self.behind(now, capacity);
        }
        self.behind = self.lost;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fair::state::clock::*;

    #[test]
    fn a_slow_cpu_has_a_slow_clock_until_it_is_idle() {
        let mut clock = PeltClock::default();
        let at = |clock: &PeltClock, now: u64, capacity| now - clock.behind(now, capacity);
        clock.restart(2000, 1024);
        assert_eq!((at(&clock, 4000, 512), at(&clock, 6000, 512)), (3000, 4000));
        clock.enter_idle(6000, 512, false);
        assert_eq!(at(&clock, 7000, 1024), 7000);
        clock.restart(9000, 1024);
        assert_eq!(at(&clock, 11_000, 512), 10_000);
        // The CPU's frequency, and therefore its capacity, doubles.
        clock.restart(11_000, 512);
        assert_eq!(at(&clock, 12_000, 1024), 11_000);
        // The CPU was saturated, so its clock does not catch up.
        clock.enter_idle(12_000, 1024, true);
        assert_eq!((at(&clock, 13_000, 1024), clock.lost), (12_000, 1000));
    }
}
