// SPDX-License-Identifier: GPL-2.0-only
//! Runqueue lengths over time. Time is divided into bins, intervals of equal length, and the mean
//! length of each CPU's runqueue in each bin is computed. If there are too many bins, their length
//! is doubled. Load balancing is also counted for each bin.

use super::pack;

/// Initial length of the bins in ns.
const LEAST_NS: u64 = 1 << 10;
/// Maximum number of means, over all CPUs together, that a page contains for a run.
const MEANS: usize = 1 << 16;

/// Load balancing within one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Number of runs of the kernel's load balancing that moved tasks.
    pub runs: u64,
    /// Number of tasks that these runs moved.
    pub moved: u64,
    /// Number of migrations of runnable tasks, by load balancing or by a policy. Migrations at
    /// wake-up, fork and exec are not counted.
    pub pulled: u64,
}

/// Runqueue lengths and load balancing of a run.
#[derive(Clone, Debug)]
pub struct Queues {
    nr_cpus: usize,
    most_bins: usize,
    width_ns: u64,
    length: Vec<u32>,
    since: Vec<u64>,
    /// Sum of (number of tasks × time in ns), indexed by bin and CPU.
    integral: Vec<u64>,
    balance: Vec<Balance>,
    end: u64,
}

/// Converts the number of a bin to an index. The number is small, because the bins are made longer
/// when there are too many.
#[expect(clippy::cast_possible_truncation, reason = "the bins are in memory")]
fn bin(number: u64) -> usize {
    number as usize
}

impl Queues {
    pub fn new(nr_cpus: usize) -> Queues {
        Queues {
            nr_cpus,
            most_bins: (MEANS / nr_cpus.max(1)).clamp(256, 2048),
            width_ns: LEAST_NS,
            length: vec![0; nr_cpus],
            since: vec![0; nr_cpus],
            integral: Vec::new(),
            balance: Vec::new(),
            end: 0,
        }
    }

    /// Sets the number of tasks on a CPU.
    #[inline]
    pub fn set(&mut self, cpu: usize, now: u64, tasks: u32) {
        self.account(cpu, now);
        self.length[cpu] = tasks;
    }

    /// Counts a run of load balancing and the tasks it moved.
    pub fn add_balance_run(&mut self, now: u64, moved: u64) {
        let balance = self.balance(now);
        balance.runs += 1;
        balance.moved += moved;
    }

    /// Counts a migration of a runnable task.
    pub fn add_migration(&mut self, now: u64) {
        self.balance(now).pulled += 1;
    }

    /// Ends the run. All times are counted up to `end`.
    pub fn finish(&mut self, end: u64) {
        // While a CPU is idle, no bins are created for it. The bins up to the end are therefore
        // created here.
        self.widen_to(end);
        (0..self.nr_cpus).for_each(|cpu| self.account(cpu, end));
        self.end = end;
        // Events at exactly the end of the run belong to the last bin.
        let bins = self.bins();
        if let Some(beyond) = self.balance.get(bins).copied() {
            let last = &mut self.balance[bins.saturating_sub(1)];
            last.runs += beyond.runs;
            last.moved += beyond.moved;
            last.pulled += beyond.pulled;
        }
        self.balance.resize(bins, Balance::default());
        self.integral.resize(bins * self.nr_cpus, 0);
    }

    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub fn bins(&self) -> usize {
        bin(self.end.div_ceil(self.width_ns).max(1))
    }

    pub fn balances(&self) -> &[Balance] {
        &self.balance
    }

    /// Returns the mean runqueue length in a bin, in hundredths of a task.
    pub fn mean_centi(&self, cpu: usize, bin: usize) -> u64 {
        let begin = bin as u64 * self.width_ns;
        let width = self.width_ns.min(self.end.saturating_sub(begin)).max(1);
        let integral = u128::from(self.integral[bin * self.nr_cpus + cpu]);
        u64::try_from((integral * 100 + u128::from(width / 2)) / u128::from(width)).unwrap_or(u64::MAX)
    }

    /// Returns the packed means for the page: the means of all bins of each CPU, in hundredths of a
    /// task. Each mean is stored as its difference from the mean of the previous bin.
    pub fn packed(&self) -> String {
        let mut bytes = Vec::new();
        for cpu in 0..self.nr_cpus {
            let mut before = 0;
            for bin in 0..self.bins() {
                let mean = self.mean_centi(cpu, bin).cast_signed();
                pack::signed(mean.wrapping_sub(before), &mut bytes);
                before = mean;
            }
        }
        pack::packed(&bytes)
    }

    fn balance(&mut self, now: u64) -> &mut Balance {
        self.widen_to(now);
        let bin = bin(now / self.width_ns);
        if bin >= self.balance.len() {
            self.balance.resize(bin + 1, Balance::default());
        }
        &mut self.balance[bin]
    }

    /// Updates the sums of a CPU up to the time `now`.
    #[inline]
    fn account(&mut self, cpu: usize, now: u64) {
        let (since, length) = (self.since[cpu], u64::from(self.length[cpu]));
        self.since[cpu] = now;
        if length == 0 || now <= since {
            return;
        }
        self.widen_to(now);
        let last = bin((now - 1) / self.width_ns);
        if self.integral.len() < (last + 1) * self.nr_cpus {
            self.integral.resize((last + 1) * self.nr_cpus, 0);
        }
        let mut from = since;
        while from < now {
            let at = from / self.width_ns;
            let to = (at + 1).saturating_mul(self.width_ns).min(now);
            let integral = &mut self.integral[bin(at) * self.nr_cpus + cpu];
            *integral = integral.saturating_add((to - from).saturating_mul(length));
            from = to;
        }
    }

    /// Doubles the length of the bins until the bin that contains `now` is within the maximum
    /// number of bins.
    #[inline]
    fn widen_to(&mut self, now: u64) {
        while now / self.width_ns >= self.most_bins as u64 {
            self.double_width();
        }
    }

    /// Doubles the length of the bins.
    #[cold]
    fn double_width(&mut self) {
        self.width_ns *= 2;
        let n = self.nr_cpus;
        let bins = self.integral.len() / n.max(1);
        for bin in 0..bins {
            for cpu in 0..n {
                let value = std::mem::take(&mut self.integral[bin * n + cpu]);
                let pair = &mut self.integral[bin / 2 * n + cpu];
                *pair = pair.saturating_add(value);
            }
        }
        self.integral.truncate(bins.div_ceil(2) * n);
        let pairs = self.balance.chunks(2);
        self.balance = pairs
            .map(|pair| Balance {
                runs: pair.iter().map(|b| b.runs).sum(),
                moved: pair.iter().map(|b| b.moved).sum(),
                pulled: pair.iter().map(|b| b.pulled).sum(),
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_trace_of_a_hundred_years_has_a_limited_number_of_bins() {
        let mut queues = Queues::new(4);
        queues.finish(1 << 62);
        assert!(queues.bins() <= 2048, "{}", queues.bins());
    }

    #[test]
    fn means_are_computed_for_each_bin() {
        let mut queues = Queues::new(2);
        queues.set(0, 0, 2);
        queues.set(0, 512, 1);
        queues.set(1, 1536, 4);
        queues.finish(3072);
        let means = |cpu| (0..3).map(|bin| queues.mean_centi(cpu, bin)).collect::<Vec<_>>();
        assert_eq!((queues.width_ns(), queues.bins()), (1024, 3));
        assert_eq!((means(0), means(1)), (vec![150, 100, 100], vec![0, 200, 400]));
    }

    #[test]
    fn long_runs_have_wider_bins_with_equal_sums() {
        let mut queues = Queues::new(4);
        let mut task_ns = 0;
        for i in 0..100_000u64 {
            let now = i * 10_000;
            queues.set((i % 4) as usize, now, 1);
            queues.set((i % 4) as usize, now + 5_000, 0);
            task_ns += 5_000;
            if i % 100 == 0 {
                queues.add_balance_run(now, 3);
                queues.add_migration(now);
            }
        }
        queues.finish(1_000_000_000);
        assert!((1024..=2048).contains(&queues.bins()), "{}", queues.bins());
        assert_eq!(queues.integral.iter().sum::<u64>(), task_ns);
        let sum = |part: fn(&Balance) -> u64| queues.balances().iter().map(part).sum::<u64>();
        assert_eq!(
            (sum(|b| b.runs), sum(|b| b.moved), sum(|b| b.pulled)),
            (1000, 3000, 1000)
        );
        assert_eq!(queues.balances().len(), queues.bins());
    }

    #[test]
    fn events_at_the_end_are_in_the_last_bin() {
        let mut queues = Queues::new(1);
        queues.add_balance_run(2048, 7);
        queues.finish(2048);
        assert_eq!((queues.bins(), queues.balances()[1].moved), (2, 7));
        Queues::new(1).finish(0);
    }
}
