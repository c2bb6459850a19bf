// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling algorithm EEVDF (earliest eligible virtual deadline first): virtual time,
//! placement of entities, and the choice of the next entity.
//!
//! An entity is a task or a group of tasks. V is the average of the vruntimes of all entities on a
//! queue, weighted by their weights.
//!
//! - lag = weight * (V - vruntime). This is the CPU time that the entity is owed. An entity keeps
//!   its lag while it is not queued.
//! - An entity is eligible if its lag is not negative.
//! - deadline = (vruntime at the start of the slice) + (length of the slice in virtual time).
//!
//! The eligible entity with the earliest deadline runs next.

use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::state::entity::{CfsRq, CfsRqId, EntityId, GROUP, NONE, scale_load_down};
use crate::sched::fair::state::task_group::Entities;

impl CfsRq {
    /// Returns the key (vruntime - `zero_vruntime`) and the weight of the current entity. Returns
    /// `None` if no entity runs or if the current entity is not queued.
    fn curr_part(&self, entities: &Entities) -> Option<(i64, i64)> {
        if self.curr == NONE {
            return None;
        }
        let e = &entities[self.curr];
        e.on_rq.then(|| (e.vruntime - self.zero_vruntime, e.weight() as i64))
    }

    /// Increases `zero_vruntime` by `delta`, and adapts `sum_w_vruntime`, which is relative to
    /// `zero_vruntime`.
    fn move_zero(&mut self, delta: i64) {
        self.sum_w_vruntime -= self.sum_weight * delta;
        self.zero_vruntime += delta;
    }

    /// Returns V, rounded down. Also sets `zero_vruntime` to V.
    pub(super) fn avg_vruntime(&mut self, entities: &Entities) -> i64 {
        let delta = match (self.sum_weight, self.curr_part(entities)) {
            (0, None) => 0,
            (0, Some((key, _))) => key,
            (weight, None) => self.sum_w_vruntime.div_euclid(weight),
            (weight, Some((key, w))) => (self.sum_w_vruntime + key * w).div_euclid(weight + w),
        };
        self.move_zero(delta);
        self.zero_vruntime
    }

    /// Returns V of all entities except the current one, rounded down.
    pub(super) fn avg_without_curr(&self) -> i64 {
        match self.sum_weight {
            0 => self.zero_vruntime,
            weight => self.zero_vruntime + self.sum_w_vruntime.div_euclid(weight),
        }
    }

    /// Forgets that `id` should be picked next (clear_buddies).
    #[inline]
    pub(super) fn clear_buddy(&mut self, id: EntityId) {
        if self.next == id {
            self.next = NONE;
        }
    }

    /// Returns a function that tests whether a vruntime is at most V (vruntime_eligible). It
    /// compares with the exact V, which is not rounded.
    pub(super) fn eligibility(&self, entities: &Entities) -> impl Fn(i64) -> bool + use<> {
        let (key, w) = self.curr_part(entities).unwrap_or((0, 0));
        let (sum, load, zero) = (self.sum_w_vruntime + key * w, self.sum_weight + w, self.zero_vruntime);
        move |vruntime| i128::from(sum) >= i128::from(vruntime - zero) * i128::from(load)
    }

    pub(super) fn eligible(&self, entities: &Entities, id: EntityId) -> bool {
        self.eligibility(entities)(entities[id].vruntime)
    }

    /// Inserts an entity into the timeline, the list of queued entities (__enqueue_entity).
    pub(super) fn insert(&mut self, entities: &mut Entities, id: EntityId) {
        let e = &mut entities[id];
        let weight = e.weight() as i64;
        self.sum_w_vruntime += (e.vruntime - self.zero_vruntime) * weight;
        self.sum_weight += weight;
        e.position = self.timeline.insert(id, e.deadline, e.vruntime);
        self.slices.insert(e.slice);
    }

    /// Removes an entity from the timeline, the list of queued entities (__dequeue_entity).
    pub(super) fn remove(&mut self, entities: &Entities, id: EntityId) {
        let e = &entities[id];
        let weight = e.weight() as i64;
        self.timeline.remove(e.position);
        self.slices.remove(e.slice);
        self.sum_w_vruntime -= (e.vruntime - self.zero_vruntime) * weight;
        self.sum_weight -= weight;
    }

    /// Returns the lengths of the slices on the queue: the shortest custom slice of a waiting
    /// entity, the longest one, the base slice if a waiting entity has it, and the slice of the
    /// current entity.
    fn queued_slices(&self, entities: &Entities, base_slice: u64) -> [Option<u64>; 4] {
        let has_base = self.timeline.count() > self.slices.total();
        let curr = (self.curr != NONE && entities[self.curr].on_rq).then(|| entities[self.curr].slice(base_slice));
        [
            self.slices.shortest(),
            self.slices.longest(),
            has_base.then_some(base_slice),
            curr,
        ]
    }

    /// Returns the longest slice on the queue, which must not be empty (cfs_rq_max_slice).
    fn max_slice(&self, entities: &Entities, base_slice: u64) -> u64 {
        let slices = self.queued_slices(entities, base_slice);
        slices.into_iter().flatten().max().unwrap_or(base_slice)
    }
}

impl Machine {
    pub(super) fn avg_vruntime(&mut self, cfs_rq: CfsRqId) -> i64 {
        let (cfs, entities) = self.queue(cfs_rq);
        cfs.avg_vruntime(&entities)
    }

    /// Returns whether an entity is eligible. Only eligible entities may be picked from their
    /// queue.
    pub(super) fn eligible(&mut self, cfs_rq: CfsRqId, id: EntityId) -> bool {
        let (cfs, entities) = self.queue(cfs_rq);
        cfs.eligible(&entities, id)
    }

    /// Returns V - vruntime of an entity (entity_lag). The absolute value of the result is limited
    /// to the virtual time of the longest slice on the queue plus one tick.
    pub(super) fn entity_lag(&mut self, cfs_rq: CfsRqId, id: EntityId) -> i64 {
        let max_ns = self.longest_slice(cfs_rq) + self.tick_ns();
        let (cfs, entities) = self.queue(cfs_rq);
        let avg = cfs.avg_vruntime(&entities);
        let e = &entities[id];
        let limit = e.delta_fair(max_ns);
        (avg - e.vruntime).clamp(-limit, limit)
    }

    /// Returns the longest slice on a queue, which must not be empty.
    #[inline]
    fn longest_slice(&mut self, cfs_rq: CfsRqId) -> u64 {
        let base_slice = self.domains.base_slice;
        if !self.task_groups.custom_slices {
            return base_slice;
        }
        let (cfs, entities) = self.queue(cfs_rq);
        cfs.max_slice(&entities, base_slice)
    }

    /// Returns the shortest slice on a queue, or `None` if the queue is empty (cfs_rq_min_slice).
    pub(super) fn shortest_slice(&mut self, cfs_rq: CfsRqId) -> Option<u64> {
        let base_slice = self.domains.base_slice;
        let (cfs, entities) = self.queue(cfs_rq);
        let slices = cfs.queued_slices(&entities, base_slice);
        slices.into_iter().flatten().min()
    }

    /// Stores the lag of a queued entity (update_entity_lag). Returns true if the lag was limited.
    /// The stored lag then differs from V - vruntime.
    pub(super) fn update_entity_lag(&mut self, cfs_rq: CfsRqId, id: EntityId) -> bool {
        let mut lag = self.entity_lag(cfs_rq, id);
        let avg = self.cfs(cfs_rq).zero_vruntime;
        let e = self.se_mut(id);
        if e.delayed {
            // A delayed sleeper is an entity that sleeps but is still queued. Its negative lag only
            // moves towards 0, and it does not become positive (DELAY_ZERO).
            lag = lag.max(e.vlag).min(0);
        }
        e.vlag = lag;
        avg - lag != e.vruntime
    }

    /// Sets the vruntime and the deadline of an entity that is being queued (place_entity).
    pub(super) fn place_entity(&mut self, cfs_rq: CfsRqId, id: EntityId, enqueue_flags: u32) {
        let base_slice = self.domains.base_slice;
        let (cfs, mut entities) = self.queue(cfs_rq);
        let avg = cfs.avg_vruntime(&entities);
        let curr_weight = cfs.curr_part(&entities).map_or(0, |(_, w)| w);
        let e = &mut entities[id];
        let mut lag = 0;
        if cfs.nr_queued > 0 && e.vlag != 0 {
            // The entity changes V when it is queued. The lag is scaled up so that the entity has
            // the intended lag relative to the new V.
            let load = (cfs.sum_weight + curr_weight).max(1);
            let weight = e.weight() as i64;
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
        let mut vslice = e.delta_fair(e.slice(base_slice));
        if enqueue_flags & flags::INITIAL != 0 {
            // A new task starts with half of a slice, because on average the other entities have
            // used half of their slices.
            vslice /= 2;
        }
        e.deadline = e.vruntime + vslice;
    }

    /// Starts a new slice if the entity's current slice is used up. Returns whether a new slice has
    /// started.
    pub(super) fn update_deadline(&mut self, cfs_rq: CfsRqId, id: EntityId) -> bool {
        let base_slice = self.domains.base_slice;
        let e = self.se_mut(id);
        if e.vruntime < e.deadline {
            return false;
        }
        e.deadline = e.vruntime + e.delta_fair(e.slice(base_slice));
        self.avg_vruntime(cfs_rq);
        true
    }

    /// Returns the entity of a queue that should run. With `protect`, the current entity continues
    /// to run until its vruntime reaches `vprot`.
    pub(super) fn pick_eevdf(&mut self, cfs_rq: CfsRqId, protect: bool) -> Option<EntityId> {
        let (cfs, entities) = self.queue(cfs_rq);
        let curr = (cfs.curr != NONE && entities[cfs.curr].on_rq).then_some(cfs.curr);
        if cfs.nr_queued == 1 {
            return curr.or_else(|| cfs.timeline.any());
        }
        let eligible = cfs.eligibility(&entities);
        if protect && cfs.next != NONE && eligible(entities[cfs.next].vruntime) {
            return Some(cfs.next);
        }
        let curr = curr.filter(|&curr| eligible(entities[curr].vruntime));
        if let Some(curr) = curr
            && protect
            && entities[curr].protected()
        {
            return Some(curr);
        }
        match (cfs.timeline.first_eligible(eligible), curr) {
            (None, curr) => curr,
            (Some((_, deadline)), Some(curr)) if entities[curr].deadline < deadline => Some(curr),
            (Some((best, _)), _) => Some(best),
        }
    }

    /// Changes the load of an entity. Its lag and the rest of its slice are scaled to the new
    /// weight (reweight_entity).
    pub(super) fn reweight_entity(&mut self, cfs_rq: CfsRqId, id: EntityId, load: u32) {
        let (old, new) = (self.se(id).load, load);
        if old == new {
            return;
        }
        let on_rq = self.se(id).on_rq;
        let is_curr = self.cfs(cfs_rq).curr == id;
        let mut avg = 0;
        let mut rel_vprot = false;
        if on_rq {
            let lag = self.entity_lag(cfs_rq, id);
            let (cfs, mut entities) = self.queue(cfs_rq);
            avg = cfs.zero_vruntime;
            if !is_curr {
                cfs.remove(&entities, id);
            }
            cfs.load -= u64::from(old);
            let e = &mut entities[id];
            e.vlag = lag;
            e.deadline -= avg;
            e.rel_deadline = true;
            rel_vprot = is_curr && e.protected();
            e.vprot -= if rel_vprot { avg } else { 0 };
        }
        if on_rq || id >= GROUP {
            self.update_load_avg(cfs_rq, id);
        }
        let (cfs, mut entities) = self.queue(cfs_rq);
        let e = &mut entities[id];
        let attached = !e.avg.detached();
        if attached {
            cfs.avg.sub(&e.avg, e.weight());
        }
        let scale = |v: i64| (i128::from(v) * i128::from(old) / i128::from(new)) as i64;
        e.vlag = scale(e.vlag);
        if e.rel_deadline {
            e.deadline = scale(e.deadline);
        }
        if rel_vprot {
            e.vprot = scale(e.vprot) + avg;
        }
        e.load = load;
        let weight = scale_load_down(load.into());
        e.avg.reweight(weight);
        if attached {
            cfs.avg.add(&e.avg, weight);
        }
        if on_rq {
            e.deadline += avg;
            e.rel_deadline = false;
            e.vruntime = avg - e.vlag;
            cfs.load += u64::from(load);
            if !is_curr {
                cfs.insert(&mut entities, id);
            }
        }
    }
}
