// SPDX-License-Identifier: GPL-2.0-only
//! What shall never happen, watched: a CPU that idles beyond a bound while a task that may run there waits, a task that waits
//! beyond a bound, a task on a CPU that it may not use. Watches and never steers.
//!
//! An idle CPU and a waiting task are one episode for as long as both last; so are the policy's time to react and the IPI's way
//! part of it, which is what the bound is for. Tasks of all classes count.

use super::violation::*;
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Invariants {
    /// For a machine that has not run yet.
    pub fn new(nr_cpus: u32, idle_bound_ns: u64, starvation_bound_ns: u64) -> Invariants {
        Invariants {
            idle_bound_ns,
            starvation_bound_ns,
            idle_since: vec![Some(0); nr_cpus as usize],
            ..Invariants::default()
        }
    }

    /// The episode of a task and an idle CPU is over.
    fn idled(&mut self, m: &Machine, task: TaskId, cpu: CpuId) {
        let (Some(idle), Some(waiting)) = (self.idle_since[cpu.index()], self.waiting.get(&task)) else {
            return;
        };
        let from = idle.max(waiting.allowed_since);
        if m.now.saturating_sub(from) > self.idle_bound_ns && m.tasks[task].allows(cpu) {
            self.idle_while_waiting.add(violation(m, task, from, Some(cpu)));
        }
    }

    /// A task's episodes with all idle CPUs are over.
    fn idled_anywhere(&mut self, m: &Machine, task: TaskId) {
        for cpu in m.cpus() {
            self.idled(m, task, cpu);
        }
    }

    fn waits_no_more(&mut self, m: &Machine, task: TaskId) {
        self.idled_anywhere(m, task);
        let Some(waiting) = self.waiting.remove(&task) else {
            return;
        };
        if m.now.saturating_sub(waiting.since) > self.starvation_bound_ns {
            self.starvation.add(violation(m, task, waiting.since, None));
        }
    }

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

fn violation(m: &Machine, task: TaskId, from: u64, cpu: Option<CpuId>) -> Violation {
    let t = &m.tasks[task];
    Violation {
        from,
        until: m.now,
        pid: t.pid,
        comm: t.comm.clone(),
        cpu: cpu.map(CpuId::nr),
    }
}

impl Machine {
    /// Watches from now on; the machine has not run yet.
    pub fn watch(&mut self, idle_bound_ns: u64, starvation_bound_ns: u64) {
        let invariants = Invariants::new(self.nr_cpus(), idle_bound_ns, starvation_bound_ns);
        self.invariants = Some(Box::new(invariants));
    }

    #[cold]
    fn watching(&mut self, watch: impl FnOnce(&mut Invariants, &Machine)) {
        if let Some(mut invariants) = self.invariants.take() {
            watch(&mut invariants, self);
            self.invariants = Some(invariants);
        }
    }

    /// A task became runnable and waits, or goes on waiting on another queue.
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

    /// A waiting task's cgroup has used up its time.
    pub(super) fn watch_throttled(&mut self, task: TaskId) {
        self.watching(|watch, m| watch.waits_no_more(m, task));
    }

    /// `cpu` switches from `prev`, which may go on waiting, to `next`.
    #[inline]
    pub(super) fn watch_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        if self.invariants.is_some() {
            if prev != IDLE && self.waits(prev) {
                self.watch_queued(prev);
            }
            self.watching(|watch, m| {
                if next != IDLE {
                    watch.waits_no_more(m, next);
                    if !m.tasks[next].allows(cpu) {
                        watch.affinity.add(violation(m, next, m.now, Some(cpu)));
                    }
                }
                watch.set_idle(m, cpu, next == IDLE);
            });
        }
    }

    /// The CPUs that a task may use are about to change.
    pub(super) fn watch_affinity(&mut self, task: TaskId) {
        self.watching(|watch, m| {
            watch.idled_anywhere(m, task);
            if let Some(waiting) = watch.waiting.get_mut(&task) {
                waiting.allowed_since = m.now;
            }
        });
    }

    /// A CPU came online, idle, or goes offline.
    pub(super) fn watch_online(&mut self, cpu: CpuId, online: bool) {
        self.watching(|watch, m| watch.set_idle(m, cpu, online));
    }

    /// The run is over: so is everything that lasts.
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

    #[test]
    fn a_cpu_that_idles_beside_a_waiting_task_is_found_and_affinity_excuses_it() {
        // Two hogs on CPU 0, beside which CPU 1 idles. No class leaves one there that may go: its mask is lifted behind the kernel's
        // back, which still counts the CPUs it had.
        let watched = |lift: bool| {
            let mut bed = Bed::default();
            bed.pinned(0, hog());
            bed.pinned(0, hog());
            let mut m = bed.machine(free(spec(1, 1, 2, 1)));
            m.watch(MS, SECOND);
            m.advance(10 * MS, &mut Vec::new());
            if lift {
                m.tasks[nth(1)].cpus.insert(cpu_id(1));
            }
            m.run(100 * MS, &mut Vec::new());
            *m.invariants.expect("watched")
        };
        let pinned = watched(false);
        assert_eq!((pinned.idle_while_waiting.count, pinned.affinity.count), (0, 0));
        let lifted = watched(true);
        let first = lifted.idle_while_waiting.first.expect("a violation");
        assert_eq!((first.pid, first.cpu), (2, Some(1)));
        assert!(first.until - first.from > MS, "{first:?}");
        let worst = lifted.idle_while_waiting.worst.expect("a violation");
        assert!(worst.until - worst.from >= first.until - first.from);
    }

    #[test]
    fn a_task_that_waits_too_long_is_found_also_if_it_never_runs() {
        let mut bed = Bed::default();
        bed.pinned(0, hog()).policy = workload::Policy::Fifo { rt_priority: 50 };
        bed.pinned(0, hog()).start_ns = 30 * MS;
        let mut m = bed.machine(free(spec(1, 1, 1, 1)));
        m.watch(SECOND, 100 * MS);
        m.run(400 * MS, &mut Vec::new());
        let watched = m.invariants.expect("watched");
        let first = watched.starvation.first.expect("a violation");
        assert_eq!((first.pid, first.from, first.until), (2, 30 * MS, 400 * MS));
        assert_eq!((watched.starvation.count, watched.idle_while_waiting.count), (1, 0));
    }

    #[test]
    fn a_task_where_it_may_not_be_is_found() {
        let mut bed = Bed::default();
        bed.pinned(0, sleeper(MS, MS));
        let mut m = bed.machine(free(spec(1, 1, 2, 1)));
        m.watch(SECOND, SECOND);
        m.advance(10 * MS, &mut Vec::new());
        // Behind the kernel's back: it goes on waking there.
        let task = &mut m.tasks[nth(0)];
        task.affinity = m.checks.group(&crate::hardware::cpuset::CpuSet::from_cpus(2, &[1]));
        task.cpus = crate::hardware::cpuset::CpuSet::from_cpus(2, &[1]);
        let cpu = m.tasks[nth(0)].cpu;
        m.watch_switch(cpu, crate::simulation::id::IDLE, nth(0));
        let watched = m.invariants.expect("watched");
        assert_eq!(watched.affinity.count, 1);
        assert_eq!(watched.affinity.first.map(|first| first.cpu), Some(Some(0)));
    }
}
