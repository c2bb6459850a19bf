// SPDX-License-Identifier: GPL-2.0-only
//! Distribution of a group's weight to the CPUs, and propagation of the group's load to the queues
//! above it, which are the queues of its ancestors.
//!
//! The weight of a group (its shares) is divided among its CPUs in proportion to the load of its
//! queue on each CPU (calc_group_shares). To save time, a queue's contribution to the group's load
//! is updated at most once per ms, and only if it has changed by more than 1/64. The contributions
//! of idle CPUs are updated every 32 ms, when the load of these CPUs decays.
//!
//! Differences from Linux:
//! - Load leaves a queue immediately instead of at the queue's next update.
//! - The part that a task contributes to its CPU's load (task_h_load) is not cached for a jiffy.

use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRqId, EntityId, GROUP, scale_load, scale_load_down};
use crate::sched::fair::state::task_group::shares;
use crate::sched::state::task::WEIGHT_IDLEPRIO;
use crate::simulation::id::{CpuId, TaskId};

/// Minimum load of a group's entity, in scaled units.
const MIN_SHARES: u64 = 2;
/// Minimum time between updates of a queue's contribution to its group's load, ns.
const UPDATE_TG_NS: u64 = 1_000_000;

impl Machine {
    /// Returns the part of the group's shares that the CPU of the group's queue `id` gets
    /// (calc_group_shares).
    fn calc_group_shares(&self, id: CfsRqId) -> u32 {
        let group = self.task_groups.group(id);
        let rq = self.task_groups.rq(id);
        let load = scale_load_down(rq.cfs.load).max(rq.cfs.avg.load_avg);
        let total = group.load_avg - rq.tg_load_avg_contrib + load;
        let all = u64::from(group.shares);
        let part = (all * load).checked_div(total).unwrap_or(all);
        part.clamp(MIN_SHARES.min(all), all) as u32
    }

    /// Sets the load of a group's entity on `cpu` to the group's current share there
    /// (update_cfs_group).
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

    /// Updates the averages, the number of runnable tasks and the load of a group's entity.
    pub(super) fn update_group_entity(&mut self, cpu: CpuId, id: EntityId) {
        let above = self.cfs_rq_of(cpu, id);
        self.update_load_avg(above, id);
        let rq = self.task_groups.rq_mut(id);
        rq.runnable = rq.cfs.h_nr_runnable;
        self.update_cfs_group(cpu, id);
    }

    /// Updates the contribution of a queue to its group's load (update_tg_load_avg).
    pub(super) fn update_tg_load_avg(&mut self, id: CfsRqId) {
        let now = self.now;
        let rq = self.task_groups.rq_mut(id);
        let (load, contrib) = (rq.cfs.avg.load_avg, rq.tg_load_avg_contrib);
        if now - rq.last_update_tg < UPDATE_TG_NS || load.abs_diff(contrib) <= contrib / 64 {
            return;
        }
        (rq.tg_load_avg_contrib, rq.last_update_tg) = (load, now);
        let group = self.task_groups.group_number(id);
        let sum = &mut self.task_groups.groups[group as usize].load_avg;
        *sum = *sum - contrib + load;
    }

    /// Records the amount of load that has joined or left a group's queue (add_tg_cfs_propagate).
    pub(super) fn add_tg_cfs_propagate(&mut self, id: CfsRqId, load_sum: i64) {
        let rq = self.task_groups.rq_mut(id);
        rq.propagate = Some(rq.propagate.unwrap_or(0) + load_sum);
    }

    /// Updates the averages of a group's entity after load has joined or left the group's queue
    /// (propagate_entity_load_avg).
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

    /// Updates the entities of all groups above a queue after load has joined or left the queue
    /// (propagate_entity_cfs_rq).
    pub(super) fn propagate_entity_cfs_rq(&mut self, id: CfsRqId) {
        let cpu = self.queue_cpu(id);
        let mut se = id;
        while se >= GROUP {
            let above = self.cfs_rq_of(cpu, se);
            self.update_load_avg(above, se);
            se = above;
        }
    }

    /// Updates the load of the groups on a CPU. The load of a group decays even if none of its
    /// tasks runs there (sched_balance_update_blocked_averages).
    pub(super) fn update_blocked_averages(&mut self, cpu: CpuId) {
        let jiffies = self.jiffies();
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
        if self.update_cfs_avg(cpu.nr()) {
            self.cpufreq_update_util(cpu, false);
        }
        let avg = &self.rqs[cpu].fair.cfs.avg;
        let blocked = avg.load_avg > 0 || avg.util_avg > 0 || self.rqs[cpu].rt.util_avg(self.clock_pelt(cpu)) > 0;
        let rq = &mut self.rqs[cpu].fair;
        rq.last_blocked_update = jiffies;
        rq.has_blocked_load &= blocked;
    }

    /// Returns the part that a queue contributes to its CPU's load (update_cfs_rq_h_load).
    fn h_load(&self, cpu: CpuId, cfs_rq: CfsRqId) -> u64 {
        if cfs_rq < GROUP {
            return self.cfs(cfs_rq).avg.load_avg;
        }
        let above = self.cfs_rq_of(cpu, cfs_rq);
        self.h_load(cpu, above) * self.se(cfs_rq).avg.load_avg / (self.cfs(above).avg.load_avg + 1)
    }

    /// Returns the part that a task contributes to its CPU's load (task_h_load).
    pub(super) fn task_h_load(&self, task: TaskId) -> u64 {
        let load = self.se(task).avg.load_avg;
        if self.se(task).group == 0 {
            return load;
        }
        let cpu = self.tasks[task].cpu();
        let cfs_rq = self.cfs_rq_of(cpu, task);
        load * self.h_load(cpu, cfs_rq) / (self.cfs(cfs_rq).avg.load_avg + 1)
    }

    /// Sets the shares of a group (sched_group_set_shares). They are scaled like the load of an
    /// entity.
    fn set_shares(&mut self, group: u32, shares: u32) {
        self.task_groups.groups[group as usize].shares = shares;
        for cpu in self.cpus() {
            self.update_curr(cpu);
            let mut se = self.task_groups.id(group, cpu);
            while se >= GROUP {
                self.update_group_entity(cpu, se);
                se = self.cfs_rq_of(cpu, se);
            }
        }
    }
}

/// Sets cpu.weight of a cgroup. It has no effect on the root.
pub(crate) fn set_weight(m: &mut Machine, cgroup: u32, weight: u32) {
    if cgroup != 0 {
        m.set_shares(cgroup, shares(weight));
    }
}

/// Sets cpu.idle of a cgroup (sched_group_set_idle). While it is set, the cgroup's tasks count as
/// SCHED_IDLE.
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
        m.domains.update_idle_policy(cpu, &m.rqs[cpu].fair.cfs);
    }
    let shares = if idle { scale_load(WEIGHT_IDLEPRIO) } else { shares(100) };
    m.set_shares(cgroup, shares);
}
