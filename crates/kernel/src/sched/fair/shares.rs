// SPDX-License-Identifier: GPL-2.0-only
//! What a group has on each CPU: its shares divided by load, and its load as the queues above see it.
//!
//! A group's entity on a CPU has that part of the group's shares which the CPU's queue has of the group's load
//! (calc_group_shares). What a queue contributes to that is told at most once a ms and when it changed by 1/64, and of an
//! idle CPU when somebody looks for its load to decay.
//!
//! Simpler than in Linux: load that leaves a queue does so at once, not when the queue is next updated, and a task's part
//! in its CPU's load (task_h_load) is not kept for a jiffy.

use super::entity::{CfsRqId, EntityId, GROUP, scale_load, scale_load_down};
use crate::machine::Machine;
use crate::sched::fair::task_group::shares;
use crate::sched::task::WEIGHT_IDLEPRIO;
use crate::simulation::id::{CpuId, TaskId};

/// Least load of a group's entity, scaled.
const MIN_SHARES: u64 = 2;
/// A queue tells its group of its load at most so often, ns.
const UPDATE_TG_NS: u64 = 1_000_000;
/// Load of idle CPUs decays so often, ns (LOAD_AVG_PERIOD).
const BLOCKED_NS: u64 = 32_000_000;

impl Machine {
    /// What a group's shares come to on the CPU of this queue (calc_group_shares).
    fn calc_group_shares(&self, id: CfsRqId) -> u32 {
        let group = self.task_groups.group(id);
        let rq = self.task_groups.rq(id);
        let load = scale_load_down(rq.cfs.load).max(rq.cfs.avg.load_avg);
        let total = group.load_avg - rq.tg_load_avg_contrib + load;
        let all = u64::from(group.shares);
        let part = (all * load).checked_div(total).unwrap_or(all);
        part.clamp(MIN_SHARES.min(all), all) as u32
    }

    /// The entity of a group with something queued has its present share (update_cfs_group).
    pub(super) fn update_cfs_group(&mut self, cpu: CpuId, id: EntityId) {
        if self.task_groups.rq(id).cfs.load == 0 {
            return;
        }
        let load = self.calc_group_shares(id);
        if load != self.se(id).load {
            let above = self.cfs_rq_of(cpu, id);
            self.reweight_entity(above, id, load);
        }
    }

    /// A group's entity and what follows from its queue, as of now.
    pub(super) fn update_group_entity(&mut self, cpu: CpuId, id: EntityId) {
        let above = self.cfs_rq_of(cpu, id);
        self.update_load_avg(above, id);
        let rq = self.task_groups.rq_mut(id);
        rq.runnable = rq.cfs.h_nr_runnable;
        self.update_cfs_group(cpu, id);
    }

    /// The group's load follows that of one of its queues.
    pub(super) fn update_tg_load_avg(&mut self, id: CfsRqId) {
        let now = self.now;
        let rq = self.task_groups.rq_mut(id);
        let (load, contrib) = (rq.cfs.avg.load_avg, rq.tg_load_avg_contrib);
        if now - rq.last_update_tg < UPDATE_TG_NS || load.abs_diff(contrib) <= contrib / 64 {
            return;
        }
        (rq.tg_load_avg_contrib, rq.last_update_tg) = (load, now);
        let group = self.task_groups.group_of(id);
        let sum = &mut self.task_groups.groups[group as usize].load_avg;
        *sum = *sum - contrib + load;
    }

    /// Load came to or left a group's queue.
    pub(super) fn add_tg_cfs_propagate(&mut self, id: CfsRqId, load_sum: i64) {
        let rq = self.task_groups.rq_mut(id);
        rq.propagate = Some(rq.propagate.unwrap_or(0) + load_sum);
    }

    /// A group's entity shows what came to or left its queue.
    pub(super) fn propagate_entity_load_avg(&mut self, above: CfsRqId, id: EntityId) {
        let rq = self.task_groups.rq_mut(id);
        let Some(runnable) = rq.propagate.take() else {
            return;
        };
        let (avg, weight) = (rq.cfs.avg, scale_load_down(rq.cfs.load));
        let (cfs, mut entities) = self.queue(above);
        let e = &mut entities[id];
        let weights = (e.weight(), weight);
        e.avg.follow(&mut cfs.avg, &avg, runnable, weights);
        if above >= GROUP {
            self.add_tg_cfs_propagate(above, runnable);
        }
    }

    /// The same for all above.
    pub(super) fn propagate_entity_cfs_rq(&mut self, id: CfsRqId) {
        let cpu = self.cpu_of_cfs(id);
        let mut se = id;
        while se >= GROUP {
            let above = self.cfs_rq_of(cpu, se);
            self.update_load_avg(above, se);
            se = above;
        }
    }

    /// Brings the load of the groups on a CPU up to date where nothing runs (sched_balance_update_blocked_averages).
    pub(super) fn update_blocked_averages(&mut self, cpu: CpuId) {
        for at in 0..self.task_groups.bottom_up.len() {
            let id = self.task_groups.id(self.task_groups.bottom_up[at], cpu);
            let rq = self.task_groups.rq(id);
            if rq.cfs.avg.decays() || rq.tg_load_avg_contrib > 0 {
                self.update_cfs_avg(id);
                self.update_tg_load_avg(id);
                let above = self.cfs_rq_of(cpu, id);
                self.update_load_avg(above, id);
            }
        }
    }

    /// The same of CPUs that idle, which nobody else does (nohz.next_blocked).
    pub(super) fn update_blocked_of_idle(&mut self) {
        if self.task_groups.is_empty() || self.now < self.task_groups.next_blocked {
            return;
        }
        self.task_groups.next_blocked = self.now + BLOCKED_NS;
        let mut idle = self.idle_cpus.first();
        while let Some(cpu) = idle {
            self.update_blocked_averages(cpu);
            idle = self.idle_cpus.next(cpu.nr() + 1);
        }
    }

    /// The load that a queue is of its CPU's (update_cfs_rq_h_load).
    fn h_load(&self, cpu: CpuId, cfs_rq: CfsRqId) -> u64 {
        if cfs_rq < GROUP {
            return self.cfs(cfs_rq).avg.load_avg;
        }
        let above = self.cfs_rq_of(cpu, cfs_rq);
        self.h_load(cpu, above) * self.se(cfs_rq).avg.load_avg / (self.cfs(above).avg.load_avg + 1)
    }

    /// The load that a task is of its CPU's.
    pub(super) fn task_h_load(&self, task: TaskId) -> u64 {
        let load = self.se(task).avg.load_avg;
        if self.se(task).group == 0 {
            return load;
        }
        let cpu = self.tasks[task].cpu;
        let cfs_rq = self.cfs_rq_of(cpu, task);
        load * self.h_load(cpu, cfs_rq) / (self.cfs(cfs_rq).avg.load_avg + 1)
    }

    /// sched_group_set_shares, with shares scaled as an entity's load.
    fn set_shares(&mut self, group: u32, shares: u32) {
        self.task_groups.groups[group as usize].shares = shares;
        for cpu in self.cpus() {
            self.account(cpu);
            let mut se = self.task_groups.id(group, cpu);
            while se >= GROUP {
                self.update_group_entity(cpu, se);
                se = self.cfs_rq_of(cpu, se);
            }
        }
    }
}

/// cpu.weight of a cgroup was set. The root's does not count.
pub(crate) fn set_weight(m: &mut Machine, cgroup: u32, weight: u32) {
    if cgroup != 0 {
        m.set_shares(cgroup, shares(weight));
    }
}

/// cpu.idle of a cgroup was set: all in it is as SCHED_IDLE (sched_group_set_idle).
pub(crate) fn set_idle(m: &mut Machine, cgroup: u32, idle: bool) {
    if cgroup == 0 || m.task_groups.groups[cgroup as usize].idle == idle {
        return;
    }
    m.task_groups.groups[cgroup as usize].idle = idle;
    for cpu in m.cpus() {
        let mut se = m.task_groups.id(cgroup, cpu);
        let own = m.cfs(se);
        let others = own.h_nr_queued - own.h_nr_idle;
        while se >= GROUP && m.se(se).on_rq {
            let above = m.cfs_rq_of(cpu, se);
            let cfs = m.cfs_mut(above);
            if idle {
                cfs.h_nr_idle += others;
            } else {
                cfs.h_nr_idle -= others;
            }
            if above >= GROUP && m.task_groups.group(above).idle {
                break;
            }
            se = above;
        }
        m.domains.note_idle_policy(cpu, &m.rqs[cpu].fair.cfs);
    }
    let shares = if idle { scale_load(WEIGHT_IDLEPRIO) } else { shares(100) };
    m.set_shares(cgroup, shares);
}
