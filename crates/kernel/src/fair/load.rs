// SPDX-License-Identifier: GPL-2.0-only
//! Load and utilisation of tasks and CPUs, kept by the averages of pelt.rs.
//!
//! A runqueue's averages hold the parts of the tasks that ran there last, asleep ones included, until they move away.
//! They are brought up to date when they are read, so the load of an idle CPU decays without anybody visiting it.

use super::pelt::State;
use crate::machine::Machine;
use crate::task::{IDLE, TaskId};

/// ~1 % of a CPU (UTIL_EST_MARGIN).
const UTIL_EST_MARGIN: u64 = 1024 / 100;

/// `util` leaves about 20 % of `capacity` free (fits_capacity).
pub(super) fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

/// `a` is more than 5 % greater than `b`.
pub(super) fn capacity_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

impl Machine {
    pub(super) fn arch_capacity(&self, cpu: u32) -> u64 {
        u64::from(self.spec.topology.cpus[cpu as usize].capacity)
    }

    /// The runqueue's averages as of now.
    pub(super) fn update_cfs_avg(&mut self, cpu: u32) {
        let now = self.now;
        let capacity = self.arch_capacity(cpu);
        let cfs = &mut self.rqs[cpu as usize].fair;
        let running = if cfs.curr != IDLE { capacity } else { 0 };
        let state = State {
            load: cfs.load_weight,
            runnable: u64::from(cfs.nr_runnable),
            running,
        };
        cfs.avg.update(now, state, 1);
    }

    /// The averages of a task of `cpu` and of its runqueue as of now (update_load_avg).
    pub(super) fn update_load_avg(&mut self, cpu: u32, task: TaskId) {
        self.update_cfs_avg(cpu);
        let now = self.now;
        let running = if self.rqs[cpu as usize].fair.curr == task {
            self.arch_capacity(cpu)
        } else {
            0
        };
        let e = &mut self.tasks[task as usize].fair;
        if e.avg.detached() {
            return;
        }
        let queued = u64::from(e.on_rq);
        let state = State {
            load: queued,
            runnable: u64::from(e.on_rq && !e.delayed),
            running: running * queued,
        };
        e.avg.update(now, state, u64::from(e.weight));
    }

    /// A task's load becomes part of `cpu`'s (attach_entity_load_avg).
    pub(super) fn attach_load_avg(&mut self, cpu: u32, task: TaskId) {
        self.update_cfs_avg(cpu);
        let now = self.now;
        let cfs = &mut self.rqs[cpu as usize].fair;
        let e = &mut self.tasks[task as usize].fair;
        let (load, util, runnable) = (e.avg.load_avg, e.avg.util_avg, e.avg.runnable_avg);
        e.avg.set(load, util, runnable, u64::from(e.weight), &cfs.avg);
        e.avg.attach(now);
        cfs.avg.add(&e.avg, u64::from(e.weight));
    }

    /// And stops to be, with what is left of it by now.
    pub(super) fn detach_load_avg(&mut self, cpu: u32, task: TaskId) {
        if self.tasks[task as usize].fair.avg.detached() {
            return;
        }
        self.update_load_avg(cpu, task);
        let e = &mut self.tasks[task as usize].fair;
        self.rqs[cpu as usize].fair.avg.sub(&e.avg, u64::from(e.weight));
        e.avg.detach();
    }

    /// A new task is taken for heavy, and for using half of what is left of its CPU (post_init_entity_util_avg).
    pub(super) fn init_load_avg(&mut self, cpu: u32, task: TaskId) {
        self.update_cfs_avg(cpu);
        let capacity = self.arch_capacity(cpu);
        let rq = &self.rqs[cpu as usize].fair.avg;
        let e = &mut self.tasks[task as usize].fair;
        e.avg.load_avg = u64::from(e.weight);
        let cap = capacity.saturating_sub(rq.util_avg) / 2;
        if cap > 0 {
            let share = rq.util_avg * u64::from(e.weight) / (rq.load_avg + 1);
            e.avg.util_avg = if rq.util_avg != 0 { share.min(cap) } else { cap };
        }
        e.avg.runnable_avg = e.avg.util_avg;
    }

    /// A task goes to sleep: remember how much it used (util_est_update).
    pub(super) fn util_est_update(&mut self, task: TaskId) {
        let e = &mut self.tasks[task as usize].fair;
        let dequeued = e.avg.util_avg;
        if e.util_est <= dequeued {
            e.util_est = dequeued;
            return;
        }
        let diff = e.util_est - dequeued;
        // Small change, or it did not get all it wanted.
        if diff >= UTIL_EST_MARGIN && dequeued + UTIL_EST_MARGIN >= e.avg.runnable_avg {
            e.util_est -= diff / 4;
        }
    }

    /// cpu_load.
    pub(super) fn cpu_load(&mut self, cpu: u32) -> u64 {
        self.update_cfs_avg(cpu);
        self.rqs[cpu as usize].fair.avg.load_avg
    }

    /// cpu_util_cfs; call cpu_load first to have it as of now.
    pub(super) fn cpu_util(&self, cpu: u32) -> u64 {
        self.rqs[cpu as usize].fair.avg.util_avg.min(self.arch_capacity(cpu))
    }

    /// cpu_runnable; as cpu_util.
    pub(super) fn cpu_runnable(&self, cpu: u32) -> u64 {
        self.rqs[cpu as usize].fair.avg.runnable_avg
    }

    /// Capacity that realtime tasks leave (capacity_of).
    pub(super) fn capacity_of(&self, cpu: u32) -> u64 {
        let used = self.rqs[cpu as usize].rt.util_avg(self.now);
        self.arch_capacity(cpu).saturating_sub(used).max(1)
    }

    /// task_fits_cpu.
    pub(super) fn task_fits_cpu(&self, task: TaskId, cpu: u32) -> bool {
        fits_capacity(self.tasks[task as usize].fair.util(), self.capacity_of(cpu))
    }

    /// curr of `cpu` needs a faster CPU: note it for the balancer (update_misfit_status).
    pub(super) fn update_misfit_status(&mut self, cpu: u32, task: TaskId) {
        if !self.domains.asym {
            return;
        }
        let mut load = 0;
        if task != IDLE {
            let t = &self.tasks[task as usize];
            let fits = t.nr_cpus_allowed == 1
                || self.arch_capacity(cpu) == self.max_allowed_capacity(task)
                || self.task_fits_cpu(task, cpu);
            load = if fits { 0 } else { t.fair.avg.load_avg.max(1) };
        }
        self.rqs[cpu as usize].fair.misfit_task_load = load;
    }

    fn max_allowed_capacity(&self, task: TaskId) -> u64 {
        let allowed = &self.tasks[task as usize].cpus;
        let capacities = &self.domains.capacities;
        let found = capacities.iter().find(|(_, cpus)| cpus.intersects(allowed));
        found.map_or(1024, |&(capacity, _)| capacity)
    }
}
