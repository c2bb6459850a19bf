// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling algorithm EEVDF (earliest eligible virtual deadline first): virtual time,
//! placement of tasks, and the choice of the next task.
//!
//! V is the average of the vruntimes of all tasks of a CPU, weighted by their weights. The weight
//! of a task (`h_load`) depends on its nice value and on the shares of its groups.
//!
//! - lag = weight * (V - vruntime). This is the CPU time that the task is owed. A task keeps its lag
//!   while it is not queued.
//! - A task is eligible if its lag is not negative.
//! - deadline = (vruntime at the start of the slice) + (length of the slice in virtual time).
//!
//! The eligible task with the earliest deadline runs next.

use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::state::entity::{Eevdf, Entity, EntityId, GROUP, MIN_SHARES, NICE_0_LOAD};
use crate::sched::state::task::Task;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Table;
use machine::Feature;

type Tasks = Table<TaskId, Task>;

/// Returns `sum` / `weight`, rounded down.
#[inline]
fn average(sum: i128, weight: i64) -> i64 {
    match i64::try_from(sum) {
        Ok(sum) => sum.div_euclid(weight),
        Err(_) => sum.div_euclid(weight.into()) as i64,
    }
}

impl Eevdf {
    /// Returns the key (vruntime - `zero_vruntime`) and the weight of the current task. Returns
    /// `None` if no fair task runs or if the current task is not queued.
    #[inline]
    fn curr_part(&self, tasks: &Tasks) -> Option<(i64, i64)> {
        if self.curr == IDLE {
            return None;
        }
        let e = &tasks[self.curr].fair;
        e.on_rq.then(|| self.part(e))
    }

    /// Returns the key and the weight of a task.
    #[inline]
    fn part(&self, e: &Entity) -> (i64, i64) {
        (e.vruntime - self.zero_vruntime, e.h_load as i64)
    }

    /// Increases `zero_vruntime` by `delta`, and adapts `sum_w_vruntime`, which is relative to
    /// `zero_vruntime`.
    fn move_zero(&mut self, delta: i64) {
        self.sum_w_vruntime -= product(delta, self.sum_weight);
        self.zero_vruntime += delta;
    }

    /// Returns V, rounded down. Also sets `zero_vruntime` to V.
    pub(super) fn avg_vruntime(&mut self, tasks: &Tasks) -> i64 {
        let delta = match (self.sum_weight, self.curr_part(tasks)) {
            (0, None) => 0,
            (0, Some((key, _))) => key,
            (weight, None) => average(self.sum_w_vruntime, weight),
            (weight, Some((key, w))) => average(self.sum_w_vruntime + product(key, w), weight + w),
        };
        self.move_zero(delta);
        self.zero_vruntime
    }

    /// Returns V of all tasks except the current one, rounded down.
    pub(super) fn avg_without_curr(&self) -> i64 {
        match self.sum_weight {
            0 => self.zero_vruntime,
            weight => self.zero_vruntime + average(self.sum_w_vruntime, weight),
        }
    }

    /// Forgets that `task` should be picked next (clear_buddies).
    #[inline]
    pub(super) fn clear_buddy(&mut self, task: TaskId) {
        if self.next == task {
            self.next = IDLE;
        }
    }

    /// Returns a function that tests whether a vruntime is at most V (vruntime_eligible). It
    /// compares with the exact V, which is not rounded.
    pub(super) fn eligibility(&self, tasks: &Tasks) -> impl Fn(i64) -> bool + use<> {
        let (key, w) = self.curr_part(tasks).unwrap_or((0, 0));
        let (load, zero) = (self.sum_weight + w, self.zero_vruntime);
        let sum = self.sum_w_vruntime + product(key, w);
        move |vruntime| sum >= product(vruntime - zero, load)
    }

    pub(super) fn eligible(&self, tasks: &Tasks, task: TaskId) -> bool {
        self.eligibility(tasks)(tasks[task].fair.vruntime)
    }

    /// Inserts a task into the timeline, the list of queued tasks (__enqueue_entity).
    pub(super) fn insert(&mut self, tasks: &mut Tasks, task: TaskId) {
        let e = &mut tasks[task].fair;
        let (key, weight) = self.part(e);
        self.sum_w_vruntime += product(key, weight);
        self.sum_weight += weight;
        e.position = self.timeline.insert(task, e.deadline, e.vruntime);
        self.slices.insert(e.own_slice());
    }

    /// Removes a task from the timeline, the list of queued tasks (__dequeue_entity).
    pub(super) fn remove(&mut self, tasks: &Tasks, task: TaskId) {
        let e = &tasks[task].fair;
        self.timeline.remove(e.position);
        self.slices.remove(e.own_slice());
        let (key, weight) = self.part(e);
        self.sum_w_vruntime -= product(key, weight);
        self.sum_weight -= weight;
    }

    /// Returns the lengths of the slices on the queue: the shortest custom slice of a waiting task,
    /// the longest one, the base slice if a waiting task has it, and the slice of the current task.
    fn queued_slices(&self, tasks: &Tasks, base_slice: u64) -> [Option<u64>; 4] {
        let has_base = self.timeline.count() > self.slices.total();
        let curr = (self.curr != IDLE && tasks[self.curr].fair.on_rq).then(|| tasks[self.curr].fair.slice(base_slice));
        [
            self.slices.shortest(),
            self.slices.longest(),
            has_base.then_some(base_slice),
            curr,
        ]
    }

    /// Returns the longest slice on the queue; 0 if the queue is empty (cfs_rq_max_slice).
    fn max_slice(&self, tasks: &Tasks, base_slice: u64) -> u64 {
        let slices = self.queued_slices(tasks, base_slice);
        slices.into_iter().flatten().max().unwrap_or(0)
    }
}

#[inline]
fn product(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

impl Machine {
    pub(super) fn avg_vruntime(&mut self, cpu: CpuId) -> i64 {
        self.rqs[cpu].fair.eevdf.avg_vruntime(&self.tasks)
    }

    /// Returns whether a task is eligible. Only eligible tasks may be picked.
    pub(super) fn eligible(&self, cpu: CpuId, task: TaskId) -> bool {
        self.rqs[cpu].fair.eevdf.eligible(&self.tasks, task)
    }

    /// Returns V - vruntime of a task. The absolute value of the result is limited to the virtual
    /// time of the longest slice on the queue plus one tick.
    pub(super) fn entity_lag(&mut self, cpu: CpuId, task: TaskId) -> i64 {
        let max_ns = self.longest_slice(cpu) + self.tick_ns();
        let avg = self.avg_vruntime(cpu);
        let e = &self.tasks[task].fair;
        let limit = e.delta_fair(max_ns);
        (avg - e.vruntime).clamp(-limit, limit)
    }

    /// Returns the longest slice on a queue.
    #[inline]
    fn longest_slice(&self, cpu: CpuId) -> u64 {
        let (rq, base_slice) = (&self.rqs[cpu].fair, self.domains.base_slice);
        if !self.task_groups.custom_slices && rq.cfs.h_nr_queued > 0 {
            return base_slice;
        }
        rq.eevdf.max_slice(&self.tasks, base_slice)
    }

    /// Returns the shortest slice on a queue, or `None` if the queue is empty (cfs_rq_min_slice).
    pub(super) fn shortest_slice(&self, cpu: CpuId) -> Option<u64> {
        let slices = self.rqs[cpu]
            .fair
            .eevdf
            .queued_slices(&self.tasks, self.domains.base_slice);
        slices.into_iter().flatten().min()
    }

    /// Stores the lag of a queued task (update_entity_lag). Returns true if the lag was limited. The
    /// stored lag then differs from V - vruntime.
    pub(super) fn update_entity_lag(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let mut lag = self.entity_lag(cpu, task);
        let avg = self.rqs[cpu].fair.eevdf.zero_vruntime;
        let delay_zero = self.sched_feat(Feature::DelayZero);
        let e = &mut self.tasks[task].fair;
        if e.delayed {
            // A delayed sleeper is a task that sleeps but is still queued. Its negative lag only
            // moves towards 0, and it does not become positive (DELAY_ZERO).
            lag = lag.max(e.vlag);
            if delay_zero {
                lag = lag.min(0);
            }
        }
        e.vlag = lag;
        avg - lag != e.vruntime
    }

    /// Sets the vruntime and the deadline of a task that is being queued (place_entity). `others`
    /// says whether other tasks are queued.
    pub(super) fn place_entity(&mut self, cpu: CpuId, task: TaskId, enqueue_flags: u32, others: bool) {
        let (base_slice, features) = (self.domains.base_slice, self.spec.kernel.features);
        let rq = &mut self.rqs[cpu].fair.eevdf;
        let avg = rq.avg_vruntime(&self.tasks);
        let curr_weight = rq.curr_part(&self.tasks).map_or(0, |(_, w)| w);
        let e = &mut self.tasks[task].fair;
        e.renew_base_slice();
        let mut lag = 0;
        if others && e.vlag != 0 && features.has(Feature::PlaceLag) {
            // The task changes V when it is queued. The lag is scaled up so that the task has the
            // intended lag relative to the new V.
            let load = (rq.sum_weight + curr_weight).max(1);
            let weight = e.h_load as i64;
            lag = (product(e.vlag, load + weight) / i128::from(load)) as i64;
            if weight > load {
                rq.move_zero(-lag);
            }
        }
        e.vruntime = avg - lag;
        if e.rel_deadline {
            e.deadline += e.vruntime;
            e.rel_deadline = false;
            return;
        }
        let mut vslice = e.delta_fair(e.slice(base_slice));
        if enqueue_flags & flags::INITIAL != 0 && features.has(Feature::PlaceDeadlineInitial) {
            // A new task starts with half of a slice, because on average the other tasks have used
            // half of their slices.
            vslice /= 2;
        }
        e.deadline = e.vruntime + vslice;
    }

    /// Starts a new slice if the task's current slice is used up. Returns whether a new slice has
    /// started.
    pub(super) fn update_deadline(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let base_slice = self.domains.base_slice;
        let e = &mut self.tasks[task].fair;
        if e.vruntime < e.deadline {
            return false;
        }
        e.renew_base_slice();
        e.deadline = e.vruntime + e.delta_fair(e.slice(base_slice));
        self.avg_vruntime(cpu);
        true
    }

    /// Returns the task that a CPU should run. With `protect`, the current task continues to run
    /// until its vruntime reaches `vprot`.
    pub(super) fn pick_eevdf(&mut self, cpu: CpuId, protect: bool) -> Option<TaskId> {
        let (rq, tasks) = (&self.rqs[cpu].fair, &self.tasks);
        let (nr, rq) = (rq.cfs.h_nr_queued, &rq.eevdf);
        let curr = (rq.curr != IDLE && tasks[rq.curr].fair.on_rq).then_some(rq.curr);
        if nr == 1 {
            return curr.or_else(|| rq.timeline.any());
        }
        let eligible = rq.eligibility(tasks);
        if protect && rq.next != IDLE && eligible(tasks[rq.next].fair.vruntime) && self.sched_feat(Feature::PickBuddy) {
            return Some(rq.next);
        }
        let curr = curr.filter(|&curr| eligible(tasks[curr].fair.vruntime));
        if let Some(curr) = curr
            && protect
            && tasks[curr].fair.protected()
        {
            return Some(curr);
        }
        match (rq.timeline.first_eligible(eligible), curr) {
            (None, curr) => curr,
            (Some((_, deadline)), Some(curr)) if tasks[curr].fair.deadline < deadline => Some(curr),
            (Some((best, _)), _) => Some(best),
        }
    }

    /// Returns the weight with which a queued task competes on its CPU: its own load, divided in
    /// each of its groups by the load of the group's queue and multiplied by the load of the group's
    /// entity (__calc_prop_weight).
    #[inline]
    pub(super) fn prop_weight(&self, cpu: CpuId, task: TaskId) -> u64 {
        let e = &self.tasks[task].fair;
        match e.group {
            0 => e.load.max(MIN_SHARES),
            _ => self.prop_weight_in_group(cpu, task),
        }
    }

    #[inline(never)]
    fn prop_weight_in_group(&self, cpu: CpuId, task: TaskId) -> u64 {
        let mut weight = NICE_0_LOAD;
        let mut id = EntityId::from(task);
        loop {
            let above = self.cfs_rq_of(cpu, id);
            let divider = if above >= GROUP {
                self.cfs(above).load
            } else {
                NICE_0_LOAD
            };
            weight = (weight * self.se(id).load / divider.max(1)).max(MIN_SHARES);
            if above < GROUP {
                return weight;
            }
            id = above;
        }
    }

    /// Changes the weight with which a task competes. Its lag and the rest of its slice are scaled
    /// to the new weight (reweight_eevdf). `on_rq` says whether the task is in the timeline or
    /// running.
    pub(super) fn reweight_eevdf(&mut self, cpu: CpuId, task: TaskId, weight: u64, on_rq: bool) {
        let old = self.tasks[task].fair.h_load;
        if old == weight {
            return;
        }
        let is_curr = self.rqs[cpu].fair.eevdf.curr == task;
        let mut avg = 0;
        let mut rel_vprot = false;
        if on_rq {
            let lag = self.entity_lag(cpu, task);
            let rq = &mut self.rqs[cpu].fair.eevdf;
            avg = rq.zero_vruntime;
            if !is_curr {
                rq.remove(&self.tasks, task);
            }
            let e = &mut self.tasks[task].fair;
            e.vlag = lag;
            e.deadline -= avg;
            e.rel_deadline = true;
            rel_vprot = is_curr && e.protected();
            e.vprot -= if rel_vprot { avg } else { 0 };
        }
        let e = &mut self.tasks[task].fair;
        let scale = |v: i64| (product(v, old as i64) / i128::from(weight)) as i64;
        e.vlag = scale(e.vlag);
        if e.rel_deadline {
            e.deadline = scale(e.deadline);
        }
        if rel_vprot {
            e.vprot = scale(e.vprot) + avg;
        }
        e.h_load = weight;
        if on_rq {
            e.deadline += avg;
            e.rel_deadline = false;
            e.vruntime = avg - e.vlag;
            if !is_curr {
                self.rqs[cpu].fair.eevdf.insert(&mut self.tasks, task);
            }
        }
    }
}
