// SPDX-License-Identifier: GPL-2.0-only
//! Checks that are made in every run.
//!
//! [`Checks`] measures whether the scheduler is work-conserving. `idle_while_waiting_ns` is the
//! time during which a CPU was idle although a task waited that may run on this CPU.
//! [`Machine::verify`](crate::Machine::verify) verifies that the time of every CPU is completely
//! accounted for and that every runnable task is on exactly one queue.

use crate::simulation::cpuset::{ALL_CPUS, AffinityGroup, CpuSet, single_cpu};
use crate::simulation::id::CpuId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Counters of waiting tasks and idle CPUs, for `idle_while_waiting_ns`.
#[derive(Default)]
pub struct Checks {
    pub(crate) nr_cpus: u32,
    /// Number of waiting tasks (runnable, but not running) in each affinity group. An affinity
    /// group contains all tasks with equal sets of allowed CPUs.
    pub(crate) waiting: Vec<u64>,
    /// The set of all CPUs.
    all: Option<Rc<CpuSet>>,
    /// Sets of a single CPU, by this CPU. Contains only sets that were used.
    single: BTreeMap<CpuId, Rc<CpuSet>>,
    /// CPU sets of the affinity groups that contain several CPUs but not all. Set n belongs to the
    /// group with the number `1 + nr_cpus + n`.
    pub(crate) sets: Vec<Rc<CpuSet>>,
    /// Indexes in `sets` of the groups that have waiting tasks.
    pub(crate) sets_waiting: Vec<u32>,
    /// Number of idle CPUs for which at least one pinned task waits. A pinned task may run on only
    /// one CPU.
    pub(crate) idle_and_bound: u64,
    /// Whether each CPU is idle.
    pub(crate) idle: Vec<bool>,
    pub(crate) nr_idle: u64,
    /// Time of the last update.
    pub(crate) last: u64,
    /// Sum of the times during which an idle CPU could have run a waiting task, over all CPUs, ns.
    pub idle_while_waiting_ns: u64,
}

impl Checks {
    pub fn new(nr_cpus: u32) -> Checks {
        Checks {
            nr_cpus,
            waiting: (0..=nr_cpus).map(|_| 0).collect(),
            idle: (0..nr_cpus).map(|_| true).collect(),
            nr_idle: u64::from(nr_cpus),
            ..Checks::default()
        }
    }

    /// Returns the affinity group of the set of all CPUs, and this set.
    pub(crate) fn all_cpus(&mut self) -> (AffinityGroup, Rc<CpuSet>) {
        let nr_cpus = self.nr_cpus;
        let all = self.all.get_or_insert_with(|| Rc::new(CpuSet::all(nr_cpus)));
        (ALL_CPUS, Rc::clone(all))
    }

    /// Returns the affinity group of a set of allowed CPUs, and the set itself. On machines with
    /// many CPUs, a set takes as much memory as all other fields of a task. All tasks with equal
    /// sets therefore share one set.
    pub(crate) fn group(&mut self, cpus: CpuSet) -> (AffinityGroup, Rc<CpuSet>) {
        match (cpus.weight(), cpus.first()) {
            (n, _) if n == self.nr_cpus => self.all_cpus(),
            (1, Some(cpu)) => {
                let set = self.single.entry(cpu).or_insert_with(|| Rc::new(cpus));
                (single_cpu(cpu), Rc::clone(set))
            }
            _ => {
                let known = self.sets.iter().position(|set| **set == cpus);
                let at = known.unwrap_or_else(|| {
                    self.sets.push(Rc::new(cpus));
                    self.waiting.push(0);
                    self.sets.len() - 1
                });
                (1 + self.nr_cpus + at as u32, Rc::clone(&self.sets[at]))
            }
        }
    }

    /// Adds the time since the last update to `idle_while_waiting_ns`, for each idle CPU that could
    /// have run a waiting task.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        if self.nr_idle > 0 && now > self.last {
            self.add_idle(now - self.last);
        }
        self.last = now;
    }

    /// Adds `elapsed` ns to `idle_while_waiting_ns` for each idle CPU that could have run a waiting
    /// task.
    pub(crate) fn add_idle(&mut self, elapsed: u64) {
        let mut usable = self.waiting[0] + self.idle_and_bound;
        for &at in &self.sets_waiting {
            let idle = self.sets[at as usize]
                .iter()
                .filter(|&cpu| self.idle[cpu.index()])
                .count() as u64;
            usable += idle.min(self.waiting[(1 + self.nr_cpus + at) as usize]);
        }
        self.idle_while_waiting_ns += elapsed * usable.min(self.nr_idle);
    }

    /// Increases the number of waiting tasks of a group by one.
    #[inline]
    pub(crate) fn wait(&mut self, group: AffinityGroup) {
        self.waiting[group as usize] += 1;
        if group != ALL_CPUS {
            self.wait_bound(group);
        }
    }

    /// Updates the counters after a task that may not use all CPUs has begun to wait.
    pub(crate) fn wait_bound(&mut self, group: AffinityGroup) {
        let waiting = &self.waiting[group as usize];
        if group > self.nr_cpus && *waiting == 1 {
            self.sets_waiting.push(group - 1 - self.nr_cpus);
        } else if group > 0 && group <= self.nr_cpus && *waiting == 1 && self.idle[group as usize - 1] {
            self.idle_and_bound += 1;
        }
    }

    /// Reduces the number of waiting tasks of a group by one.
    #[inline]
    pub(crate) fn unwait(&mut self, group: AffinityGroup) {
        self.waiting[group as usize] -= 1;
        if group != ALL_CPUS {
            self.unwait_bound(group);
        }
    }

    /// Updates the counters after a task that may not use all CPUs has stopped waiting.
    pub(crate) fn unwait_bound(&mut self, group: AffinityGroup) {
        let waiting = &self.waiting[group as usize];
        if group > self.nr_cpus && *waiting == 0 {
            let at = group - 1 - self.nr_cpus;
            self.sets_waiting.retain(|&set| set != at);
        } else if group > 0 && group <= self.nr_cpus && *waiting == 0 && self.idle[group as usize - 1] {
            self.idle_and_bound -= 1;
        }
    }

    /// Handles a task that became runnable and begins to wait.
    #[inline(always)]
    pub(crate) fn queued(&mut self, now: u64, group: AffinityGroup) {
        self.advance(now);
        self.wait(group);
    }

    /// Handles a waiting task that left its queue without running.
    pub(crate) fn dequeued(&mut self, now: u64, group: AffinityGroup) {
        self.advance(now);
        self.unwait(group);
    }

    /// Handles a context switch. `prev_waits` is the affinity group of the previous task if it is
    /// still runnable. `next` is the affinity group of the next task, or `None` if the CPU becomes
    /// idle.
    #[inline(always)]
    pub(crate) fn switched(
        &mut self,
        now: u64,
        cpu: CpuId,
        prev_waits: Option<AffinityGroup>,
        next: Option<AffinityGroup>,
    ) {
        self.advance(now);
        if let Some(group) = prev_waits {
            self.wait(group);
        }
        if let Some(group) = next {
            self.unwait(group);
        }
        self.set_idle(cpu, next.is_none());
    }

    #[inline]
    pub(crate) fn set_idle(&mut self, cpu: CpuId, idle: bool) {
        if self.idle[cpu.index()] == idle {
            return;
        }
        self.idle[cpu.index()] = idle;
        let bound = u64::from(self.waiting[cpu.index() + 1] > 0);
        if idle {
            self.nr_idle += 1;
            self.idle_and_bound += bound;
        } else {
            self.nr_idle -= 1;
            self.idle_and_bound -= bound;
        }
    }

    /// Handles CPU hotplug. An offline CPU does not count as idle.
    pub(crate) fn online(&mut self, now: u64, cpu: CpuId, online: bool) {
        self.advance(now);
        self.set_idle(cpu, online);
    }

    pub(crate) fn finish(&mut self, now: u64) {
        self.advance(now);
    }

    pub(crate) fn nr_waiting(&self) -> u64 {
        self.waiting.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::testbed::cpu_id;
    use crate::watch::state::check::*;

    #[test]
    fn only_idle_cpus_that_could_run_a_waiting_task_are_counted() {
        let mut checks = Checks::new(4);
        let (bound, _) = checks.group(CpuSet::from_cpus(4, &[2]));
        let (pair, _) = checks.group(CpuSet::from_cpus(4, &[0, 1]));
        // CPUs 2 and 3 each run a task. CPUs 0 and 1 are idle, but the only waiting task may run
        // only on CPU 2.
        checks.queued(0, 0);
        checks.switched(0, cpu_id(2), None, Some(0));
        checks.queued(0, 0);
        checks.switched(0, cpu_id(3), None, Some(0));
        checks.queued(0, bound);
        checks.finish(100);
        assert_eq!(checks.idle_while_waiting_ns, 0);
        // Three more tasks wait that may run only on CPUs 0 and 1, so both idle CPUs count.
        for _ in 0..3 {
            checks.queued(100, pair);
        }
        checks.finish(110);
        assert_eq!(checks.idle_while_waiting_ns, 20);
        // CPU 2 becomes idle although a task waits that may run there.
        checks.switched(110, cpu_id(2), None, None);
        checks.finish(111);
        assert_eq!(checks.idle_while_waiting_ns, 23);
        for _ in 0..3 {
            checks.dequeued(111, pair);
        }
        checks.dequeued(111, bound);
        checks.finish(1000);
        assert_eq!(checks.idle_while_waiting_ns, 23);
    }

    #[test]
    fn equal_sets_are_shared() {
        let mut checks = Checks::new(4);
        for cpus in [&[0, 1, 2, 3][..], &[2], &[0, 3]] {
            let (group, set) = checks.group(CpuSet::from_cpus(4, cpus));
            let (again, shared) = checks.group(CpuSet::from_cpus(4, cpus));
            assert_eq!(group, again);
            assert!(Rc::ptr_eq(&set, &shared), "the set {cpus:?} exists twice");
            assert_eq!(*set, CpuSet::from_cpus(4, cpus));
        }
    }
}
