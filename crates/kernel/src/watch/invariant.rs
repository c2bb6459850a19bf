// SPDX-License-Identifier: GPL-2.0-only
//! Detects violations of three invariants without affecting the run:
//!
//! 1. No CPU is idle for longer than a bound while a task waits that may run on this CPU.
//! 2. No task waits for a CPU for longer than a bound.
//! 3. No task runs on a CPU that it may not use.
//!
//! For the first invariant, an idle CPU and a waiting task form an episode. It lasts as long as the
//! CPU is idle and the task waits. The bound must be long enough for the reaction of the policy and
//! for the latency of an IPI, because an episode includes both. The invariants apply to tasks of
//! all classes.

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::task::Task;
use crate::watch::state::violation::*;

impl Invariants {
    /// Returns the initial state, for a machine that has not run yet and whose CPUs are all idle.
    pub fn new(nr_cpus: u32, idle_bound_ns: u64, starvation_bound_ns: u64) -> Invariants {
        Invariants {
            idle_bound_ns,
            starvation_bound_ns,
            idle_since: vec![Some(0); nr_cpus as usize],
            ..Invariants::default()
        }
    }

    /// Ends the episode of the waiting task `task` and the idle CPU `cpu`. Records a violation if
    /// the episode was longer than the bound.
    fn idled(&mut self, m: &Machine, task: TaskId, cpu: CpuId) {
        let (Some(idle), Some(waiting)) = (self.idle_since[cpu.index()], self.waiting.get(&task)) else {
            return;
        };
        let from = idle.max(waiting.allowed_since);
        if m.now.saturating_sub(from) > self.idle_bound_ns && m.tasks[task].may_use(cpu) {
            self.idle_while_waiting.add(m.violation(task, from, Some(cpu)));
        }
    }

    /// Ends the episodes that a task has with all idle CPUs.
    fn idled_anywhere(&mut self, m: &Machine, task: TaskId) {
        for cpu in m.cpus() {
            self.idled(m, task, cpu);
        }
    }

    /// Ends the wait of a task. Records a violation if the wait was longer than the bound.
    fn waits_no_more(&mut self, m: &Machine, task: TaskId) {
        self.idled_anywhere(m, task);
        let Some(waiting) = self.waiting.remove(&task) else {
            return;
        };
        if m.now.saturating_sub(waiting.since) > self.starvation_bound_ns {
            self.starvation.add(m.violation(task, waiting.since, None));
        }
    }

    /// Handles a CPU that becomes idle or stops being idle.
    fn set_idle(&mut self, m: &Machine, cpu: CpuId, idle: bool) {
        if idle == self.idle_since[cpu.index()].is_some() {
            return;
        }
        if idle {
            self.idle_since[cpu.index()] = Some(m.now);
            return;
        }
        let tasks: Vec<TaskId> = self.waiting.keys().copied().collect();
        for task in tasks {
            self.idled(m, task, cpu);
        }
        self.idle_since[cpu.index()] = None;
    }
}

impl Machine {
    /// Returns the path of the cgroup whose sub-scheduler schedules a task.
    fn sub_of(&self, task: &Task) -> Option<String> {
        if task.class != Class::Ext || task.ext.sched == SchedId::ROOT {
            return None;
        }
        let cgroup = self.ext.sched(task.ext.sched).cgroup;
        Some(self.workload.cgroups.get(cgroup as usize)?.path.clone())
    }

    fn violation(&self, task: TaskId, from: u64, cpu: Option<CpuId>) -> Violation {
        let t = &self.tasks[task];
        Violation {
            from,
            until: self.now,
            pid: t.pid(),
            comm: t.comm(),
            sub: self.sub_of(t),
            cpu: cpu.map(CpuId::nr),
        }
    }

    /// Starts checking the invariants. The machine must not have run yet.
    pub fn watch(&mut self, idle_bound_ns: u64, starvation_bound_ns: u64) {
        let invariants = Invariants::new(self.nr_cpus(), idle_bound_ns, starvation_bound_ns);
        self.invariants = Some(Box::new(invariants));
    }

    /// Calls `watch` with the state of the invariants, if they are checked.
    #[cold]
    fn watching(&mut self, watch: impl FnOnce(&mut Invariants, &Machine)) {
        if let Some(mut invariants) = self.invariants.take() {
            watch(&mut invariants, self);
            self.invariants = Some(invariants);
        }
    }

    /// Handles a task that became runnable. If the task is already waiting, its wait continues.
    #[inline]
    pub(super) fn watch_queued(&mut self, task: TaskId) {
        if self.invariants.is_some() {
            self.watching(|watch, m| {
                let now = m.now;
                let since = Waiting {
                    since: now,
                    allowed_since: now,
                };
                watch.waiting.entry(task).or_insert(since);
            });
        }
    }

    /// Ends the wait of a task that is throttled because its cgroup has used up its CPU time.
    pub(super) fn watch_throttled(&mut self, task: TaskId) {
        self.watching(|watch, m| watch.waits_no_more(m, task));
    }

    /// Handles a switch of `cpu` from `prev` to `next`. `prev` may still be runnable and begin to
    /// wait.
    #[inline]
    pub(super) fn watch_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        if self.invariants.is_some() {
            if prev != IDLE && self.is_waiting(prev) {
                self.watch_queued(prev);
            }
            self.watching(|watch, m| {
                if next != IDLE {
                    watch.waits_no_more(m, next);
                    if !m.tasks[next].may_use(cpu) {
                        watch.affinity.add(m.violation(next, m.now, Some(cpu)));
                    }
                }
                watch.set_idle(m, cpu, next == IDLE);
            });
        }
    }

    /// Ends all episodes of a task, because its set of allowed CPUs is about to change.
    pub(super) fn watch_affinity(&mut self, task: TaskId) {
        self.watching(|watch, m| {
            watch.idled_anywhere(m, task);
            if let Some(waiting) = watch.waiting.get_mut(&task) {
                waiting.allowed_since = m.now;
            }
        });
    }

    /// Handles a CPU that has come online and is idle, or that goes offline.
    pub(super) fn watch_online(&mut self, cpu: CpuId, online: bool) {
        self.watching(|watch, m| watch.set_idle(m, cpu, online));
    }

    /// Ends all waits and episodes at the end of the run.
    pub(super) fn watch_end(&mut self) {
        self.watching(|watch, m| {
            let tasks: Vec<TaskId> = watch.waiting.keys().copied().collect();
            for task in tasks {
                watch.waits_no_more(m, task);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testbed::*;
    use workload::{Dist, Op};

    #[test]
    fn an_idle_cpu_beside_a_waiting_task_is_a_violation_unless_affinity_forbids_it() {
        // Two tasks that never sleep are on CPU 0, and CPU 1 is idle. Every scheduling class would
        // move a waiting task that may run on CPU 1 to this CPU. To prevent the move, the test adds
        // CPU 1 to the task's mask directly. The scheduler still uses the old number of allowed
        // CPUs.
        let watched = |lift: bool| {
            let mut bed = Bed::default();
            bed.pinned(0, hog());
            bed.pinned(0, hog());
            let mut m = bed.machine(free(spec(1, 1, 2, 1)));
            m.watch(MS, SECOND);
            m.advance(10 * MS, &mut Vec::new());
            if lift {
                m.tasks[nth(1)].cpus = crate::simulation::cpuset::CpuSet::all(2).into();
            }
            m.run(100 * MS, &mut Vec::new());
            *m.invariants.expect("Machine::watch() was called")
        };
        let pinned = watched(false);
        assert_eq!((pinned.idle_while_waiting.count, pinned.affinity.count), (0, 0));
        let lifted = watched(true);
        let first = lifted
            .idle_while_waiting
            .first
            .expect("an idle CPU beside a waiting task is recorded");
        assert_eq!((first.pid, first.cpu), (2, Some(1)));
        assert!(first.until - first.from > MS, "the violation is too short: {first:?}");
        let worst = lifted
            .idle_while_waiting
            .worst
            .expect("an idle CPU beside a waiting task is recorded");
        assert!(worst.until - worst.from >= first.until - first.from);
    }

    #[test]
    fn a_cpu_does_not_idle_beside_a_task_that_cannot_migrate_to_it() {
        // Task 0 computes on CPU 0, until a real-time task preempts it there at 5 ms. CPU 1 is idle.
        let watched = |stays: bool| {
            let mut bed = Bed::default();
            let run = |ms| Op::Run(Dist::Fixed(ms * MS));
            let disable = if stays { vec![Op::MigrateDisable] } else { Vec::new() };
            bed.task(0, [disable, vec![run(40)]].concat());
            let urgent = bed.pinned(0, vec![run(20)]);
            (urgent.policy, urgent.start_ns) = (workload::SchedPolicy::Fifo { rt_priority: 50 }, 5 * MS);
            let mut m = bed.machine(free(spec(1, 1, 2, 1)));
            m.watch(MS, SECOND);
            m.run(100 * MS, &mut Vec::new());
            let watched = *m.invariants.expect("Machine::watch() was called");
            let counts = [watched.idle_while_waiting.count, watched.affinity.count];
            (counts, m.checks.idle_while_waiting_ns, m.tasks[nth(0)].cpu().nr())
        };
        assert_eq!(watched(true), ([0, 0], 0, 0));
        // A task that can migrate waits only until the idle CPU pulls it.
        let (counts, idle_ns, cpu) = watched(false);
        assert_eq!((counts[1], cpu), (0, 1));
        assert!(idle_ns > 0, "the wait of a task that can migrate is not counted");
    }

    #[test]
    fn a_long_wait_is_a_violation_even_if_the_task_never_runs() {
        let mut bed = Bed::default();
        bed.pinned(0, hog()).policy = workload::SchedPolicy::Fifo { rt_priority: 50 };
        bed.pinned(0, hog()).start_ns = 30 * MS;
        let mut m = bed.machine(free(spec(1, 1, 1, 1)));
        m.watch(SECOND, 100 * MS);
        m.run(400 * MS, &mut Vec::new());
        let watched = m.invariants.expect("Machine::watch() was called");
        let first = watched.starvation.first.expect("the long wait is recorded");
        assert_eq!((first.pid, first.from, first.until), (2, 30 * MS, 400 * MS));
        assert_eq!((watched.starvation.count, watched.idle_while_waiting.count), (1, 0));
    }

    #[test]
    fn a_task_on_a_forbidden_cpu_is_a_violation() {
        let mut bed = Bed::default();
        bed.pinned(0, sleeper(MS, MS));
        let mut m = bed.machine(free(spec(1, 1, 2, 1)));
        m.watch(SECOND, SECOND);
        m.advance(10 * MS, &mut Vec::new());
        // Changes the task's affinity without informing the scheduler, so the task continues to run
        // on its old CPU.
        let task = &mut m.tasks[nth(0)];
        (task.affinity, task.cpus) = m.checks.group(crate::simulation::cpuset::CpuSet::from_cpus(2, &[1]));
        let cpu = m.tasks[nth(0)].cpu();
        m.watch_switch(cpu, crate::simulation::id::IDLE, nth(0));
        let watched = m.invariants.expect("Machine::watch() was called");
        assert_eq!(watched.affinity.count, 1);
        assert_eq!(watched.affinity.first.map(|first| first.cpu), Some(Some(0)));
    }
}
