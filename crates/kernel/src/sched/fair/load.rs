// SPDX-License-Identifier: GPL-2.0-only
//! Load and utilization of entities and queues. They are based on the decaying averages in
//! `pelt.rs`.
//!
//! The averages of a queue include the contributions of all entities that last ran there, even
//! while they sleep. A contribution leaves the queue when its entity migrates. The averages of an
//! idle CPU are updated by other CPUs from time to time (`nohz`).

use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRq, CfsRqId, Entity, EntityId, GROUP, NONE, scale_load_down};
use crate::sched::fair::state::pelt::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use machine::Feature;

/// What [`Machine::update_load_avg`] updates.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Update {
    /// The entity and its queue.
    Queue,
    /// Also the queue's contribution to the load of its group (UPDATE_TG).
    Group,
}

/// About 1 % of a CPU (UTIL_EST_MARGIN).
const UTIL_EST_MARGIN: u64 = 1024 / 100;

/// Returns whether a CPU with this capacity would have at least about 20 % of this capacity left at
/// the utilization `util` (fits_capacity).
pub(super) fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

/// Returns whether `a` is more than 5 % greater than `b` (capacity_greater).
pub(super) fn capacity_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

/// State of an entity that sleeps.
const ASLEEP: State = State {
    load: 0,
    runnable: 0,
    running: false,
};

impl CfsRq {
    /// Updates the averages to the time `now` on the clock of the queue's CPU. Returns whether they
    /// were recalculated.
    #[inline]
    fn update_avg(&mut self, now: u64) -> bool {
        let state = State {
            load: scale_load_down(self.load),
            runnable: u64::from(self.h_nr_runnable),
            running: self.curr != NONE,
        };
        let removed = self.removed.nr > 0;
        if removed {
            self.subtract_removed();
        }
        self.avg.update(now, state, 1) | removed
    }

    /// Subtracts the load of entities that have left the queue (update_cfs_rq_load_avg). Returns the
    /// (negative) change of the unweighted load sum.
    #[cold]
    fn subtract_removed(&mut self) -> i64 {
        let removed = std::mem::take(&mut self.removed);
        self.avg.subtract_removed(removed)
    }
}

impl Entity {
    /// Updates the averages to the time `now` on the clock of the entity's CPU. `running` says
    /// whether the entity was running. For a group, `runnable` is the number of its runnable tasks.
    #[inline]
    fn update_avg(&mut self, now: u64, running: bool, runnable: Option<u64>) {
        if self.avg.detached() {
            return;
        }
        let queued = u64::from(self.on_rq);
        let state = State {
            load: queued,
            runnable: runnable.unwrap_or(u64::from(self.on_rq && !self.delayed)),
            running: running && self.on_rq,
        };
        if self.avg.update(now, state, self.weight()) {
            self.util_unchanged = false;
        }
    }

    /// Lets the averages of an entity decay until the time `now`, as if it had slept
    /// (__update_load_avg_blocked_se).
    pub(super) fn decay_avg(&mut self, now: u64) {
        if !self.avg.detached() {
            self.avg.update(now, ASLEEP, self.weight());
        }
    }
}

impl Machine {
    /// Returns the capacity of a CPU at full speed (arch_scale_cpu_capacity).
    pub(crate) fn arch_capacity(&self, cpu: CpuId) -> u64 {
        u64::from(self.spec.topology.cpus[cpu.index()].capacity)
    }

    /// Updates a queue's averages to the current time. Returns whether they were recalculated
    /// (update_cfs_rq_load_avg).
    pub(super) fn update_cfs_avg(&mut self, cfs_rq: CfsRqId) -> bool {
        let now = self.cfs_rq_clock_pelt(cfs_rq);
        let mut decayed = false;
        if self.cfs(cfs_rq).removed.nr > 0 {
            let sum = self.cfs_mut(cfs_rq).subtract_removed();
            if cfs_rq >= GROUP {
                self.add_tg_cfs_propagate(cfs_rq, sum);
            }
            decayed = true;
        }
        self.cfs_mut(cfs_rq).update_avg(now) | decayed
    }

    /// Updates the averages of a queue and of one of its entities to the current time
    /// (update_load_avg).
    pub(super) fn update_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId, update: Update) {
        if id >= GROUP || cfs_rq >= GROUP {
            return self.update_load_avg_in_group(cfs_rq, id, update);
        }
        let cpu = CpuId::from_root_queue(cfs_rq);
        let now = self.clock_pelt(cpu);
        let cfs = &mut self.rqs[cpu].fair.cfs;
        let decayed = cfs.update_avg(now);
        let running = cfs.curr == id;
        self.tasks[TaskId::from_entity(id)].fair.update_avg(now, running, None);
        if decayed {
            self.cpufreq_update_util(cpu, false);
        }
    }

    /// Performs [`Machine::update_load_avg`] for an entity or a queue that belongs to a group.
    #[inline(never)]
    fn update_load_avg_in_group(&mut self, cfs_rq: CfsRqId, id: EntityId, update: Update) {
        let now = self.cfs_rq_clock_pelt(cfs_rq);
        let running = self.cfs(cfs_rq).curr == id;
        let of_group = (id >= GROUP).then(|| u64::from(self.task_groups.rq(id).runnable));
        self.se_mut(id).update_avg(now, running, of_group);
        let mut decayed = self.update_cfs_avg(cfs_rq);
        if id >= GROUP {
            decayed |= self.propagate_entity_load_avg(cfs_rq, id);
        }
        if !decayed {
            return;
        }
        if cfs_rq < GROUP {
            self.cpufreq_update_util(CpuId::from_root_queue(cfs_rq), false);
        } else if update == Update::Group {
            self.update_tg_load_avg(cfs_rq);
        }
    }

    /// Adds the load of an entity that is being queued to its queue (update_load_avg with
    /// DO_ATTACH).
    pub(super) fn attach_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        self.update_cfs_avg(cfs_rq);
        if id >= GROUP {
            self.propagate_entity_load_avg(cfs_rq, id);
        }
        self.attach_entity_load_avg(cfs_rq, id);
        if cfs_rq >= GROUP {
            self.update_tg_load_avg(cfs_rq);
        }
    }

    /// Adds an entity's load to its queue, whose averages are up to date (attach_entity_load_avg).
    fn attach_entity_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        let (cfs, mut entities) = self.queue(cfs_rq);
        let e = &mut entities[id];
        let (load, util, runnable) = (e.avg.load_avg, e.avg.util_avg, e.avg.runnable_avg);
        e.avg.set(load, util, runnable, e.weight(), &cfs.avg);
        cfs.avg.add(&e.avg, e.weight());
        if cfs_rq >= GROUP {
            let load = e.avg.load_sum();
            self.add_tg_cfs_propagate(cfs_rq, load);
        } else {
            self.cpufreq_update_util(CpuId::from_root_queue(cfs_rq), false);
        }
    }

    /// Adds the load of an entity to a queue that it joins without being queued
    /// (attach_entity_cfs_rq).
    pub(super) fn attach_cfs_rq(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        self.attach_load_avg(cfs_rq, id);
        self.propagate_entity_cfs_rq(cfs_rq);
    }

    /// Begins the averages of a new task that a script moves to the fair class. In Linux, such a task is
    /// attached to a queue of the CPU that executes the script, which the script does not see.
    pub(super) fn attach_elsewhere(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.clock_pelt(cpu);
        let mut queue = self.rqs[cpu].fair.cfs.avg;
        queue.update(now, ASLEEP, 1);
        let e = &mut self.tasks[task].fair;
        let (load, util, runnable) = (e.avg.load_avg, e.avg.util_avg, e.avg.runnable_avg);
        let weight = e.weight();
        e.avg.set(load, util, runnable, weight, &queue);
    }

    /// Removes the load of an entity that is being dequeued from its queue (update_load_avg with
    /// DO_DETACH).
    pub(super) fn detach_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        if self.se(id).avg.detached() {
            return;
        }
        self.update_load_avg(cfs_rq, id, Update::Queue);
        self.subtract_load_avg(cfs_rq, id);
        self.se_mut(id).avg.detach();
    }

    /// Subtracts an entity's load from its queue (detach_entity_load_avg).
    fn subtract_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        let (cfs, mut entities) = self.queue(cfs_rq);
        let e = &mut entities[id];
        cfs.avg.sub(&e.avg, e.weight());
        if cfs_rq >= GROUP {
            let load = e.avg.load_sum();
            self.add_tg_cfs_propagate(cfs_rq, -load);
            self.update_tg_load_avg(cfs_rq);
        } else {
            self.cpufreq_update_util(CpuId::from_root_queue(cfs_rq), false);
        }
    }

    /// Removes the load of an entity that is not queued from its queue (detach_entity_cfs_rq).
    pub(super) fn detach_cfs_rq(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        if !self.se(id).avg.detached() {
            self.detach_load_avg(cfs_rq, id);
            self.propagate_entity_cfs_rq(cfs_rq);
        }
    }

    /// Removes the load of a task that leaves the fair class from its queue (switched_from_fair). Linux
    /// does not forget the time of the last update, so the load decays until the task comes back.
    pub(super) fn leave_cfs_rq(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        if !self.se(id).avg.detached() {
            self.update_load_avg(cfs_rq, id, Update::Queue);
            self.subtract_load_avg(cfs_rq, id);
            self.propagate_entity_cfs_rq(cfs_rq);
        }
    }

    /// Adds the load of a task that enters the fair class to its queue (switched_to_fair). If the task
    /// has just been queued and has no time of a last update, its load is added for a second time.
    pub(super) fn join_cfs_rq(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        if !self.se(id).avg.detached() && self.sched_feat(Feature::AttachAgeLoad) {
            self.update_load_avg(cfs_rq, id, Update::Queue);
        }
        self.attach_cfs_rq(cfs_rq, id);
    }

    /// Changes the load of an entity (reweight_entity). The load of the queue changes if the entity's load
    /// is a part of it, or if `leaves` is set.
    pub(super) fn reweight_entity(&mut self, cfs_rq: CfsRqId, id: EntityId, load: u64, leaves: bool) {
        let (cfs, mut entities) = self.queue(cfs_rq);
        let e = &mut entities[id];
        if e.load == load {
            return;
        }
        if e.on_rq {
            cfs.load = cfs.load - e.load + load;
        }
        let attached = !e.avg.detached() || leaves;
        if attached {
            cfs.avg.sub_load(&e.avg, e.weight());
        }
        e.load = load;
        e.avg.reweight(e.weight());
        if attached {
            cfs.avg.add_load(&e.avg, e.weight());
        }
    }

    /// Removes the load of a sleeping or dead task from its queue (remove_entity_load_avg). The
    /// averages of the queue include the task's until their next update, because the queue is not
    /// locked. If the task leaves an idle CPU, its own averages are updated to the current time
    /// (migrate_se_pelt_lag).
    pub(super) fn remove_load_avg(&mut self, cfs_rq: CfsRqId, id: EntityId) {
        let cpu = self.queue_cpu(cfs_rq);
        let idle_now = self.rqs[cpu].idle().then(|| self.idle_cfs_rq_clock_pelt(cfs_rq));
        let last = self.cfs(cfs_rq).avg.last_update();
        let e = self.se_mut(id);
        if e.avg.detached() {
            return;
        }
        e.decay_avg(last);
        let avg = e.avg;
        if let Some(now) = idle_now {
            e.decay_avg(now);
        }
        e.avg.detach();
        let removed = &mut self.cfs_mut(cfs_rq).removed;
        removed.nr += 1;
        removed.load += avg.load_avg;
        removed.util += avg.util_avg;
        removed.runnable += avg.runnable_avg;
    }

    /// Moves the averages of a task of another class to a different queue (set_task_rq_fair). They
    /// decay until the last update of the old queue, and then from the last update of the new one. The
    /// averages of a task of the fair class are detached at this time, so nothing happens.
    pub(super) fn move_load_avg(&mut self, from: CfsRqId, to: CfsRqId, task: TaskId) {
        if self.tasks[task].fair.avg.detached() || !self.sched_feat(Feature::AttachAgeLoad) {
            return;
        }
        let (old, new) = (self.cfs(from).avg.last_update(), self.cfs(to).avg.last_update());
        let e = &mut self.tasks[task].fair;
        e.decay_avg(old);
        if to >= GROUP && new == 0 {
            // The queue has never been updated. In Linux, this time means that the averages are detached.
            e.avg.detach();
        } else {
            e.avg.begin(new);
        }
    }

    /// Updates the averages of a task to the time of its queue's last update, as if the task had
    /// slept since its own last update (sync_entity_load_avg).
    pub(super) fn sync_entity_load_avg(&mut self, task: TaskId) {
        let cfs_rq = self.task_cfs_rq(self.tasks[task].cpu(), task);
        let last = self.cfs(cfs_rq).avg.last_update();
        self.tasks[task].fair.decay_avg(last);
    }

    /// Sets the averages of a new task: full load, and a utilization of half of the CPU's unused
    /// capacity (post_init_entity_util_avg).
    pub(super) fn init_load_avg(&mut self, cfs_rq: CfsRqId, task: TaskId) {
        let capacity = self.arch_capacity(self.queue_cpu(cfs_rq));
        let (cfs, mut entities) = self.queue(cfs_rq);
        let e = &mut entities[EntityId::from(task)];
        let cap = capacity.saturating_sub(cfs.avg.util_avg) / 2;
        if cap > 0 {
            let share = cfs.avg.util_avg * e.weight() / (cfs.avg.load_avg + 1);
            e.avg.util_avg = if cfs.avg.util_avg != 0 { share.min(cap) } else { cap };
        }
        e.avg.runnable_avg = e.avg.util_avg;
    }

    /// Adds the smoothed utilization (`util_est`) of a task to the smoothed utilization of the CPU,
    /// because the task is being queued there.
    pub(super) fn util_est_enqueue(&mut self, cpu: CpuId, task: TaskId) {
        self.rqs[cpu].fair.util_est += self.tasks[task].fair.util_est;
    }

    /// Subtracts the smoothed utilization of a task from the smoothed utilization of its CPU. The
    /// task leaves the queue or becomes a delayed sleeper (a sleeping task that is still queued).
    pub(super) fn util_est_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        let rq = &mut self.rqs[cpu].fair;
        rq.util_est = rq.util_est.saturating_sub(self.tasks[task].fair.util_est);
    }

    /// Updates the smoothed utilization of a task that goes to sleep (util_est_update).
    pub(super) fn util_est_update(&mut self, task: TaskId) {
        if !self.sched_feat(Feature::UtilEst) {
            // The smoothed utilization of all tasks and CPUs remains 0.
            return;
        }
        let e = &mut self.tasks[task].fair;
        // The utilization has not been recalculated since the last update (UTIL_AVG_UNCHANGED).
        if std::mem::replace(&mut e.util_unchanged, true) {
            return;
        }
        let dequeued = e.avg.util_avg;
        if e.util_est <= dequeued {
            e.util_est = dequeued;
            return;
        }
        let diff = e.util_est - dequeued;
        // `util_est` keeps its value if the change is small, or if the task often waited for the
        // CPU and would otherwise have used more CPU time.
        if diff >= UTIL_EST_MARGIN && dequeued + UTIL_EST_MARGIN >= e.avg.runnable_avg {
            e.util_est = (4 * e.util_est - diff) / 4;
        }
    }

    /// Returns the load of a CPU at the last update (cpu_load).
    pub(super) fn cpu_load(&self, cpu: CpuId) -> u64 {
        self.rqs[cpu].fair.cfs.avg.load_avg
    }

    /// Returns the utilization of a CPU (cpu_util_cfs). This is the utilization at the last update,
    /// or the smoothed utilization of the CPU's queued tasks if that is greater.
    pub(super) fn cpu_util(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu].fair;
        rq.cfs.avg.util_avg.max(rq.util_est).min(self.arch_capacity(cpu))
    }

    /// Returns the utilization of a CPU from which schedutil computes the frequency
    /// (cpu_util_cfs_boost). Tasks that wait for the CPU increase it (runnable_avg).
    pub(crate) fn cpu_util_boost(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu].fair;
        let avg = &rq.cfs.avg;
        let util = avg.util_avg.max(avg.runnable_avg).max(rq.util_est);
        util.min(self.arch_capacity(cpu))
    }

    /// Returns the utilization of a CPU like [`Machine::cpu_util`], but without the contribution of
    /// `task`, which runs or ran last on this CPU (cpu_util_without).
    pub(super) fn cpu_util_without(&self, cpu: CpuId, task: TaskId) -> u64 {
        let (rq, t) = (&self.rqs[cpu].fair, &self.tasks[task]);
        let util = rq.cfs.avg.util_avg.saturating_sub(t.fair.avg.util_avg);
        let queued = if t.on_rq() { t.fair.util_est } else { 0 };
        let util_est = rq.util_est.saturating_sub(queued);
        util.max(util_est).min(self.arch_capacity(cpu))
    }

    /// Returns the runnable average of a CPU at the time of the last update (cpu_runnable).
    pub(super) fn cpu_runnable(&self, cpu: CpuId) -> u64 {
        self.rqs[cpu].fair.cfs.avg.runnable_avg
    }

    /// Returns the part of a CPU's capacity that real-time tasks did not use when the CPU balanced
    /// last (capacity_of).
    pub(crate) fn capacity_of(&self, cpu: CpuId) -> u64 {
        match self.rqs[cpu].fair.cpu_capacity {
            0 => self.arch_capacity(cpu),
            capacity => capacity,
        }
    }

    /// Calculates the capacity that a CPU has for fair tasks (update_cpu_capacity).
    pub(super) fn update_cpu_capacity(&mut self, cpu: CpuId) {
        let used = self.rqs[cpu].rt.util_avg();
        self.domains.reduced |= used > 0;
        self.rqs[cpu].fair.cpu_capacity = self.arch_capacity(cpu).saturating_sub(used).max(1);
    }

    /// Returns whether a CPU is fast enough for a task (task_fits_cpu).
    pub(super) fn task_fits_cpu(&self, task: TaskId, cpu: CpuId) -> bool {
        fits_capacity(self.tasks[task].fair.util(), self.capacity_of(cpu))
    }

    /// Records whether the current task of `cpu` needs a faster CPU, so that load balancing can
    /// move it (update_misfit_status).
    pub(super) fn update_misfit_status(&mut self, cpu: CpuId, task: TaskId) {
        if !self.domains.asym {
            return;
        }
        let mut load = 0;
        if task != IDLE {
            let t = &self.tasks[task];
            let fits = t.nr_cpus_allowed() == 1
                || self.arch_capacity(cpu) == self.max_allowed_capacity(task)
                || self.task_fits_cpu(task, cpu);
            load = if fits { 0 } else { self.task_h_load(task).max(1) };
        }
        self.rqs[cpu].fair.misfit_task_load = load;
    }

    /// Returns the greatest capacity among the CPUs that a task may use. Offline CPUs count as well
    /// (set_task_max_allowed_capacity).
    fn max_allowed_capacity(&self, task: TaskId) -> u64 {
        if self.tasks[task].migration_disabled() > 0 && self.has_narrowed_mask(task) {
            return self.arch_capacity(self.tasks[task].cpu());
        }
        let allowed = &self.tasks[task].cpus;
        let capacities = &self.domains.all_capacities;
        let found = capacities.iter().find(|(_, cpus)| cpus.intersects(allowed));
        found.map_or(1024, |&(capacity, _)| capacity)
    }
}
