// SPDX-License-Identifier: GPL-2.0-only
//! The order in which QEMU's only thread executes the CPUs, and for how long: a model of
//! rr_cpu_thread_fn() in accel/tcg/tcg-accel-ops-rr.c and of accel/tcg/tcg-accel-ops-icount.c (QEMU
//! 10.0), with one nanosecond for each instruction.
//!
//! ```text
//! begin:   run the timers that have expired; budget = time until the next timer / number of CPUs
//!          first CPU, unless a pass was left
//! pass:    for each CPU:  if it is asked to leave: withdraw that, go to `begin`, continue with it
//!                         if a timer has expired: run it
//!                         execute the CPU for the budget, unless it is halted
//!          go to `begin`
//! ```
//!
//! When timers run, all CPUs are asked to leave (icount_notify_aio_contexts), so each of them gets
//! a new and smaller budget, and the CPU at which the timer had expired gets none. The CPUs after
//! that one come first. So CPUs do not share the time evenly: if three of four CPUs are busy, the
//! last one gets about twice as much as the others.

/// Shortest turn, ns. Just before its next timer, QEMU has turns of a few instructions; here, the
/// CPUs share the rest of the time in one pass.
const SHORTEST_NS: u64 = 1000;

pub(crate) struct Rotation {
    nr_cpus: usize,
    /// Time between two expirations of the host's timer, ns.
    interval: u64,
    /// Time of the next expiration, ns.
    deadline: u64,
    /// Which CPUs are asked to leave (exit_request).
    asked: Vec<bool>,
    /// The next CPU, or `None` at the end of a pass.
    position: Option<usize>,
    /// Whether a pass has begun.
    in_pass: bool,
    /// Length of the turns of the present pass, ns.
    budget: u64,
}

impl Rotation {
    pub(crate) fn new(nr_cpus: usize, longest: u64) -> Rotation {
        let interval = longest * nr_cpus as u64;
        Rotation {
            nr_cpus,
            interval,
            deadline: interval,
            asked: vec![false; nr_cpus],
            position: None,
            in_pass: false,
            budget: longest,
        }
    }

    /// Returns the next CPU that `wants` to run, and the length of its turn in ns. Returns `None` if
    /// all CPUs are halted.
    pub(crate) fn next(&mut self, now: u64, wants: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
        let busy = (0..self.nr_cpus).filter(|&cpu| wants(cpu)).count();
        if busy == 0 {
            return None;
        }
        loop {
            if !self.in_pass {
                if now >= self.deadline {
                    self.expire(now);
                }
                self.budget = self.share(self.deadline - now, busy);
                self.position.get_or_insert(0);
                self.in_pass = true;
            }
            while let Some(cpu) = self.position {
                if std::mem::take(&mut self.asked[cpu]) {
                    self.in_pass = false;
                    break;
                }
                self.position = self.after(cpu);
                if now >= self.deadline {
                    self.expire(now);
                    // A halted CPU does not notice that it is asked.
                    self.asked[cpu] = !wants(cpu);
                } else if wants(cpu) {
                    return Some((cpu, self.budget.min(self.deadline - now)));
                }
            }
            if self.position.is_none() {
                self.in_pass = false;
            }
        }
    }

    /// A timer of the guest expires.
    pub(crate) fn fire(&mut self, wants: impl Fn(usize) -> bool) {
        self.asked.fill(true);
        // The turns before that were short, and the first busy CPU had the last one. The timer runs
        // when the next CPU is about to begin.
        let last = (0..self.nr_cpus).find(|&cpu| wants(cpu));
        let next = last.and_then(|last| self.after(last));
        if let Some(next) = next {
            self.asked[next] = !wants(next);
        }
        self.position = next.and_then(|next| self.after(next));
        self.in_pass = self.position.is_some();
    }

    /// Begins the turn of a CPU while all others are halted. Returns its length in ns, which counts
    /// as soon as a different CPU wants to run.
    pub(crate) fn begin_at(&mut self, cpu: usize, now: u64) -> u64 {
        self.asked.fill(false);
        self.deadline = (now / self.interval + 1) * self.interval;
        self.position = self.after(cpu);
        self.in_pass = self.position.is_some();
        self.budget = self.share(self.deadline - now, 1);
        self.budget
    }

    fn after(&self, cpu: usize) -> Option<usize> {
        (cpu + 1 < self.nr_cpus).then_some(cpu + 1)
    }

    fn expire(&mut self, now: u64) {
        self.asked.fill(true);
        self.deadline = (now / self.interval + 1) * self.interval;
    }

    /// Returns the length of the turns of a pass, if `limit` ns are left until the next timer.
    fn share(&self, limit: u64, busy: usize) -> u64 {
        let share = limit / self.nr_cpus as u64;
        if share >= SHORTEST_NS {
            return share;
        }
        if limit < SHORTEST_NS {
            // The first busy CPU has the last turn.
            return limit;
        }
        // If a CPU is halted, a part of the time always remains.
        let rest = u64::from(busy < self.nr_cpus);
        (limit - rest) / busy as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how much of a second each of four CPUs runs, in percent, if these CPUs are busy.
    fn shares(busy: &[usize]) -> [u64; 4] {
        let mut rotation = Rotation::new(4, 12_000);
        let mut ran = [0; 4];
        let mut now = 0;
        while now < 1_000_000_000 {
            let (cpu, length) = rotation.next(now, |cpu| busy.contains(&cpu)).expect("a CPU is busy");
            ran[cpu] += length;
            now += length;
        }
        ran.map(|ns| (ns + 5_000_000) / 10_000_000)
    }

    #[test]
    fn busy_cpus_do_not_share_evenly() {
        // In a guest of QEMU with these CPUs busy, requests of 200 us on CPUs 1, 2 and 3 took 1023,
        // 924 and 485 us.
        assert_eq!(shares(&[1, 2, 3]), [0, 25, 25, 50]);
        assert_eq!(shares(&[2]), [0, 0, 100, 0]);
        assert_eq!(shares(&[0, 1, 2, 3]).iter().sum::<u64>(), 100);
    }

    #[test]
    fn a_timer_gives_the_turn_to_the_cpus_after_the_first_busy_one() {
        let mut rotation = Rotation::new(4, 12_000);
        let all = |_| true;
        assert_eq!(rotation.next(0, all), Some((0, 12_000)));
        rotation.fire(all);
        // CPU 1 loses its turn. The budget is a quarter of the time until 48 us.
        assert_eq!(rotation.next(4_000, all), Some((2, 11_000)));
        assert_eq!(rotation.next(15_000, all), Some((3, 8_250)));
    }

    #[test]
    fn halted_cpus_get_no_turn() {
        let mut rotation = Rotation::new(2, 10_000);
        assert_eq!(rotation.next(0, |_| false), None);
        assert_eq!(rotation.begin_at(1, 15_000), 2_500);
        assert_eq!(rotation.next(17_500, |cpu| cpu == 0), Some((0, 1_250)));
    }
}
