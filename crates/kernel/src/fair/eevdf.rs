// SPDX-License-Identifier: GPL-2.0-only
//! Earliest eligible virtual deadline first: virtual time, placement and the pick.
//!
//! An entity's lag is what it is owed: its weight times (V - vruntime), V being the weighted mean of all vruntimes. It
//! may be picked while its lag is not negative, and of those the one with the earliest deadline (vruntime at the start
//! of its request plus a slice at its weight) runs. An entity leaves with its lag and comes back with it.

use super::entity::CfsRq;
use crate::class::flags;
use crate::machine::Machine;
use crate::task::{IDLE, Task, TaskId};

/// sysctl_sched_base_slice before scaling, ns.
const BASE_SLICE_NS: u64 = 700_000;

/// The slice: 0.7 ms by 1 + log2 of the CPUs, at most 8 counted.
pub(super) fn base_slice(nr_cpus: u32) -> u64 {
    BASE_SLICE_NS * u64::from(1 + nr_cpus.clamp(1, 8).ilog2())
}

impl CfsRq {
    /// curr's key and weight, if it competes.
    fn curr_part(&self, tasks: &[Task]) -> Option<(i64, i64)> {
        if self.curr == IDLE {
            return None;
        }
        let e = &tasks[self.curr as usize].fair;
        e.on_rq.then(|| (e.vruntime - self.zero_vruntime, i64::from(e.weight)))
    }

    fn move_zero(&mut self, delta: i64) {
        self.sum_w_vruntime -= self.sum_weight * delta;
        self.zero_vruntime += delta;
    }

    /// V, rounded down; `zero_vruntime` moves there.
    pub(super) fn avg_vruntime(&mut self, tasks: &[Task]) -> i64 {
        let delta = match (self.sum_weight, self.curr_part(tasks)) {
            (0, None) => 0,
            (0, Some((key, _))) => key,
            (weight, None) => self.sum_w_vruntime.div_euclid(weight),
            (weight, Some((key, w))) => (self.sum_w_vruntime + key * w).div_euclid(weight + w),
        };
        self.move_zero(delta);
        self.zero_vruntime
    }

    /// A test of vruntimes: not above V, exactly (vruntime_eligible).
    pub(super) fn eligibility(&self, tasks: &[Task]) -> impl Fn(i64) -> bool + use<> {
        let (key, w) = self.curr_part(tasks).unwrap_or((0, 0));
        let (sum, load, zero) = (self.sum_w_vruntime + key * w, self.sum_weight + w, self.zero_vruntime);
        move |vruntime| i128::from(sum) >= i128::from(vruntime - zero) * i128::from(load)
    }

    pub(super) fn eligible(&self, tasks: &[Task], task: TaskId) -> bool {
        self.eligibility(tasks)(tasks[task as usize].fair.vruntime)
    }

    /// __enqueue_entity: into the timeline.
    pub(super) fn insert(&mut self, tasks: &mut [Task], task: TaskId) {
        let e = &mut tasks[task as usize].fair;
        let weight = i64::from(e.weight);
        self.sum_w_vruntime += (e.vruntime - self.zero_vruntime) * weight;
        self.sum_weight += weight;
        e.place = self.timeline.insert(task, e.deadline, e.vruntime);
    }

    /// __dequeue_entity: out of the timeline.
    pub(super) fn remove(&mut self, tasks: &[Task], task: TaskId) {
        let e = &tasks[task as usize].fair;
        let weight = i64::from(e.weight);
        self.timeline.remove(e.place);
        self.sum_w_vruntime -= (e.vruntime - self.zero_vruntime) * weight;
        self.sum_weight -= weight;
    }
}

impl Machine {
    /// V - vruntime, bounded to what a slice and a tick can cause (entity_lag).
    pub(super) fn entity_lag(&mut self, cpu: u32, task: TaskId) -> i64 {
        let max_ns = self.domains.base_slice + self.tick_ns();
        let avg = self.rqs[cpu as usize].fair.avg_vruntime(&self.tasks);
        let e = &self.tasks[task as usize].fair;
        let limit = e.delta_fair(max_ns);
        (avg - e.vruntime).clamp(-limit, limit)
    }

    /// Notes the lag of a queued entity; true if vruntime does not agree with it (update_entity_lag).
    pub(super) fn update_entity_lag(&mut self, cpu: u32, task: TaskId) -> bool {
        let mut lag = self.entity_lag(cpu, task);
        let avg = self.rqs[cpu as usize].fair.zero_vruntime;
        let e = &mut self.tasks[task as usize].fair;
        if e.delayed {
            // A sleeper neither gets deeper into debt nor earns anything (DELAY_ZERO).
            lag = lag.max(e.vlag).min(0);
        }
        e.vlag = lag;
        avg - lag != e.vruntime
    }

    /// Gives an entity that joins its vruntime and deadline (place_entity).
    pub(super) fn place_entity(&mut self, cpu: u32, task: TaskId, enqueue_flags: u32) {
        let slice = self.domains.base_slice;
        let cfs = &mut self.rqs[cpu as usize].fair;
        let avg = cfs.avg_vruntime(&self.tasks);
        let curr_weight = cfs.curr_part(&self.tasks).map_or(0, |(_, w)| w);
        let e = &mut self.tasks[task as usize].fair;
        let mut lag = 0;
        if cfs.nr_queued > 0 && e.vlag != 0 {
            // Joining moves V by the entity's own share, so the lag is inflated to be right afterwards.
            let load = (cfs.sum_weight + curr_weight).max(1);
            let weight = i64::from(e.weight);
            lag = (i128::from(e.vlag) * i128::from(load + weight) / i128::from(load)) as i64;
            if weight > load {
                cfs.move_zero(-lag);
            }
        }
        e.vruntime = avg - lag;
        if e.rel_deadline {
            e.deadline += e.vruntime;
            e.rel_deadline = false;
            return;
        }
        let mut vslice = e.delta_fair(slice);
        if enqueue_flags & flags::INITIAL != 0 {
            // The others are half through their slices on average.
            vslice /= 2;
        }
        e.deadline = e.vruntime + vslice;
    }

    /// A new request when the last one is used up; true if so.
    pub(super) fn update_deadline(&mut self, cpu: u32, task: TaskId) -> bool {
        let slice = self.domains.base_slice;
        let e = &mut self.tasks[task as usize].fair;
        if e.vruntime < e.deadline {
            return false;
        }
        e.deadline = e.vruntime + e.delta_fair(slice);
        self.rqs[cpu as usize].fair.avg_vruntime(&self.tasks);
        true
    }

    /// The entity that should run on `cpu`. With `protect`, curr keeps its turn up to its `vprot`.
    pub(super) fn pick_eevdf(&self, cpu: u32, protect: bool) -> Option<TaskId> {
        let cfs = &self.rqs[cpu as usize].fair;
        let curr = (cfs.curr != IDLE && self.tasks[cfs.curr as usize].fair.on_rq).then_some(cfs.curr);
        if cfs.nr_queued == 1 {
            return curr.or_else(|| cfs.timeline.any());
        }
        let eligible = cfs.eligibility(&self.tasks);
        let curr = curr.filter(|&curr| eligible(self.tasks[curr as usize].fair.vruntime));
        if let Some(curr) = curr
            && protect
            && self.tasks[curr as usize].fair.protected()
        {
            return Some(curr);
        }
        match (cfs.timeline.first_eligible(eligible), curr) {
            (None, curr) => curr,
            (Some((_, deadline)), Some(curr)) if self.tasks[curr as usize].fair.deadline < deadline => Some(curr),
            (Some((best, _)), _) => Some(best),
        }
    }

    /// Changes the weight of an entity and keeps its lag and the rest of its request (reweight_entity).
    pub(super) fn reweight_entity(&mut self, cpu: u32, task: TaskId, weight: u32) {
        let old = i64::from(self.tasks[task as usize].fair.weight);
        let new = i64::from(weight);
        if old == new {
            return;
        }
        let on_rq = self.tasks[task as usize].fair.on_rq;
        let is_curr = self.rqs[cpu as usize].fair.curr == task;
        let mut avg = 0;
        let mut rel_vprot = false;
        if on_rq {
            let lag = self.entity_lag(cpu, task);
            let cfs = &mut self.rqs[cpu as usize].fair;
            avg = cfs.zero_vruntime;
            if !is_curr {
                cfs.remove(&self.tasks, task);
            }
            cfs.load_weight -= old as u64;
            let e = &mut self.tasks[task as usize].fair;
            e.vlag = lag;
            e.deadline -= avg;
            e.rel_deadline = true;
            rel_vprot = is_curr && e.protected();
            e.vprot -= if rel_vprot { avg } else { 0 };
        }
        self.update_load_avg(cpu, task);
        let cfs = &mut self.rqs[cpu as usize].fair;
        let e = &mut self.tasks[task as usize].fair;
        let attached = !e.avg.detached();
        if attached {
            cfs.avg.sub(&e.avg, old as u64);
        }
        let scale = |v: i64| (i128::from(v) * i128::from(old) / i128::from(new)) as i64;
        e.vlag = scale(e.vlag);
        if e.rel_deadline {
            e.deadline = scale(e.deadline);
        }
        if rel_vprot {
            e.vprot = scale(e.vprot) + avg;
        }
        e.weight = weight;
        e.avg.reweight(u64::from(weight));
        if attached {
            cfs.avg.add(&e.avg, u64::from(weight));
        }
        if on_rq {
            e.deadline += avg;
            e.rel_deadline = false;
            e.vruntime = avg - e.vlag;
            cfs.load_weight += u64::from(weight);
            if !is_curr {
                cfs.insert(&mut self.tasks, task);
            }
        }
    }
}
