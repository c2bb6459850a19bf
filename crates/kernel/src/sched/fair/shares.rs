// SPDX-License-Identifier: GPL-2.0-only
//! Distribution of a group's weight to the CPUs, and propagation of the group's load to the queues
//! above it, which are the queues of its ancestors.
//!
//! The weight of a group (its shares) counts once for each CPU that the group's tasks can use: it is
//! multiplied by the estimated number of runnable tasks, but at most by the number of CPUs. The
//! result is divided among the CPUs in proportion to the load of the group's queue on each CPU
//! (calc_concur_shares). To save time, a queue's contribution to the group's load is updated at most
//! once per ms, and only if it has changed by more than 1/64. The contributions of idle CPUs are
//! updated every 32 ms, when the load of these CPUs decays.

use crate::machine::Machine;
use crate::sched::fair::load::Update;
use crate::sched::fair::state::entity::{
    CfsRqId, EntityId, GROUP, MIN_SHARES, NICE_0_LOAD, scale_load, scale_load_down,
};
use crate::sched::fair::state::task_group::shares;
use crate::sched::rt;
use crate::sched::state::task::WEIGHT_IDLEPRIO;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Minimum time between updates of a queue's contribution to its group's load, ns.
const UPDATE_TG_NS: u64 = 1_000_000;

impl Machine {
    /// Returns the part of the group's shares that the CPU of the group's queue `id` gets
    /// (calc_concur_shares).
    fn calc_concur_shares(&self, id: CfsRqId) -> u64 {
        let number = self.task_groups.group_number(id);
        let group = &self.task_groups.groups[number as usize];
        let rq = self.task_groups.rq(id);
        let tasks = (group.runnable_avg >> 10).max(1);
        let all = tasks.min(self.tg_cpus(number)) * group.shares;
        let load = scale_load_down(rq.cfs.load).max(rq.cfs.avg.load_avg);
        let total = group.load_avg - rq.tg_load_avg_contrib + load;
        let part = (all * load).checked_div(total).unwrap_or(all * load);
        part.max(MIN_SHARES).min(all)
    }

    /// Returns the number of CPUs that the tasks of a group can use (tg_cpus).
    fn tg_cpus(&self, group: u32) -> u64 {
        let mut at = Some(group);
        while let Some(number) = at {
            if let Some(cpus) = self.cgroups.get(number).cpus.as_ref() {
                let online = cpus.iter().filter(|&cpu| self.online_cpus.contains(cpu));
                return (online.count() as u64).max(1);
            }
            at = self.parent_cgroup(number);
        }
        u64::from(self.online_cpus.weight())
    }

    /// Sets the load of a group's entity on `cpu` to the group's current share there
    /// (update_cfs_group). An empty group keeps its load.
    pub(super) fn update_cfs_group(&mut self, cpu: CpuId, id: EntityId) {
        if id < GROUP || self.task_groups.rq(id).cfs.load == 0 {
            return;
        }
        let load = self.calc_concur_shares(id);
        let above = self.cfs_rq_of(cpu, id);
        self.reweight_entity(above, id, load, false);
    }

    /// Updates the number of runnable tasks of a group's entity (se_update_runnable).
    pub(super) fn update_runnable(&mut self, id: EntityId) {
        if id >= GROUP {
            let rq = self.task_groups.rq_mut(id);
            rq.runnable = rq.cfs.h_nr_runnable;
        }
    }

    /// Updates the contribution of a queue to its group's load (update_tg_load_avg).
    pub(super) fn update_tg_load_avg(&mut self, id: CfsRqId) {
        let now = self.now;
        if !self.online_cpus.contains(self.queue_cpu(id)) {
            return;
        }
        let rq = self.task_groups.rq_mut(id);
        if rq.last_update_tg.is_some_and(|last| now - last < UPDATE_TG_NS) {
            return;
        }
        let (load, runnable) = (rq.cfs.avg.load_avg, rq.cfs.avg.runnable_avg);
        let (old_load, old_runnable) = (rq.tg_load_avg_contrib, rq.tg_runnable_avg_contrib);
        let changed = |new: u64, old: u64| new.abs_diff(old) > old / 64;
        if !changed(load, old_load) && !changed(runnable, old_runnable) {
            return;
        }
        (rq.tg_load_avg_contrib, rq.tg_runnable_avg_contrib) = (load, runnable);
        rq.last_update_tg = Some(now);
        self.change_tg_load_avg(id, (old_load, old_runnable), (load, runnable));
    }

    /// Replaces a queue's contribution (load, runnable) to its group.
    fn change_tg_load_avg(&mut self, id: CfsRqId, old: (u64, u64), new: (u64, u64)) {
        let number = self.task_groups.group_number(id);
        let group = &mut self.task_groups.groups[number as usize];
        group.load_avg = group.load_avg - old.0 + new.0;
        group.runnable_avg = group.runnable_avg - old.1 + new.1;
    }

    /// Removes the contributions of a CPU that goes offline to the loads of all groups
    /// (clear_tg_offline_cfs_rqs).
    pub(super) fn clear_tg_load_avg(&mut self, cpu: CpuId) {
        for at in 0..self.task_groups.bottom_up.len() {
            let id = self.task_groups.id(self.task_groups.bottom_up[at], cpu);
            let now = self.now;
            let rq = self.task_groups.rq_mut(id);
            let old = (
                std::mem::take(&mut rq.tg_load_avg_contrib),
                std::mem::take(&mut rq.tg_runnable_avg_contrib),
            );
            rq.last_update_tg = Some(now);
            self.change_tg_load_avg(id, old, (0, 0));
        }
    }

    /// Records the amount of load that has joined or left a group's queue (add_tg_cfs_propagate).
    pub(super) fn add_tg_cfs_propagate(&mut self, id: CfsRqId, load_sum: i64) {
        let rq = self.task_groups.rq_mut(id);
        rq.propagate = Some(rq.propagate.unwrap_or(0) + load_sum);
    }

    /// Updates the averages of a group's entity after load has joined or left the group's queue
    /// (propagate_entity_load_avg). Returns whether it has.
    pub(super) fn propagate_entity_load_avg(&mut self, above: CfsRqId, id: EntityId) -> bool {
        let rq = self.task_groups.rq_mut(id);
        let Some(runnable) = rq.propagate.take() else {
            return false;
        };
        let (avg, weight) = (rq.cfs.avg, scale_load_down(rq.cfs.load));
        let (cfs, mut entities) = self.queue(above);
        let e = &mut entities[id];
        let weights = (e.weight(), weight);
        e.avg.follow(&mut cfs.avg, &avg, runnable, weights);
        if above >= GROUP {
            self.add_tg_cfs_propagate(above, runnable);
        }
        true
    }

    /// Updates the entities of all groups above a queue after load has joined or left the queue
    /// (propagate_entity_cfs_rq).
    pub(super) fn propagate_entity_cfs_rq(&mut self, id: CfsRqId) {
        let cpu = self.queue_cpu(id);
        let mut se = id;
        while se >= GROUP {
            if !self.task_groups.rq(se).runtime.pelt_clock_stopped {
                self.task_groups.add_leaf(se);
            }
            let above = self.cfs_rq_of(cpu, se);
            self.update_load_avg(above, se, Update::Group);
            se = above;
        }
    }

    /// Updates the load of the groups on a CPU. The load of a group decays even if none of its
    /// tasks runs there (sched_balance_update_blocked_averages).
    pub(super) fn update_blocked_averages(&mut self, cpu: CpuId) {
        let jiffies = self.jiffies();
        self.rqs[cpu].clock_updated = self.now;
        rt::update_other_load_avgs(self, cpu);
        let mut blocked = false;
        let mut at = 0;
        while let Some(id) = self
            .task_groups
            .leaves
            .get(cpu.index())
            .and_then(|leaves| leaves.get(at))
        {
            if self.update_cfs_avg(id) {
                self.update_tg_load_avg(id);
                if self.cfs(id).nr_queued == 0 {
                    self.update_idle_cfs_rq_clock_pelt(id);
                }
            }
            let avg = &self.cfs(id).avg;
            blocked |= avg.load_avg > 0 || avg.util_avg > 0;
            let avg = &self.se(id).avg;
            if avg.load_avg > 0 || avg.util_avg > 0 || self.task_groups.rq(id).propagate.is_some() {
                let above = self.cfs_rq_of(cpu, id);
                self.update_load_avg(above, id, Update::Group);
            }
            if self.task_groups.is_decayed(id) {
                self.task_groups.remove_leaf(id);
            } else {
                at += 1;
            }
        }
        if self.update_cfs_avg(cpu.nr()) {
            self.cpufreq_update_util(cpu, false);
        }
        let avg = &self.rqs[cpu].fair.cfs.avg;
        blocked |= avg.load_avg > 0 || avg.util_avg > 0 || self.rqs[cpu].rt.util_avg() > 0;
        let rq = &mut self.rqs[cpu].fair;
        rq.last_blocked_update = jiffies;
        rq.has_blocked_load &= blocked;
    }

    /// Calculates the part that a queue contributes to its CPU's load, once a jiffy
    /// (update_cfs_rq_h_load).
    fn update_h_load(&mut self, cpu: CpuId, cfs_rq: CfsRqId) -> u64 {
        let now = Some(self.jiffies());
        let cfs = self.cfs(cfs_rq);
        if cfs.last_h_load_update == now {
            return cfs.h_load;
        }
        let load = if cfs_rq < GROUP {
            cfs.avg.load_avg
        } else {
            let above = self.cfs_rq_of(cpu, cfs_rq);
            self.update_h_load(cpu, above) * self.se(cfs_rq).avg.load_avg / (self.cfs(above).avg.load_avg + 1)
        };
        let cfs = self.cfs_mut(cfs_rq);
        (cfs.h_load, cfs.last_h_load_update) = (load, now);
        load
    }

    /// Returns the part that a task contributes to its CPU's load (task_h_load).
    pub(super) fn task_h_load(&mut self, task: TaskId) -> u64 {
        let cpu = self.tasks[task].cpu();
        let cfs_rq = self.task_cfs_rq(cpu, task);
        let load = self.update_h_load(cpu, cfs_rq);
        self.se(task).avg.load_avg * load / (self.cfs(cfs_rq).avg.load_avg + 1)
    }

    /// Returns the part that the task on `cpu` contributes to the load of the CPU (task_h_load). The idle
    /// task has the load of a new task, except on the CPU that boots the machine.
    pub(super) fn current_h_load(&mut self, cpu: CpuId) -> u64 {
        let curr = self.rqs[cpu].curr;
        if curr != IDLE {
            return self.task_h_load(curr);
        }
        let idle = if cpu == CpuId::BOOT {
            0
        } else {
            scale_load_down(NICE_0_LOAD)
        };
        let load = self.update_h_load(cpu, cpu.nr());
        idle * load / (self.rqs[cpu].fair.cfs.avg.load_avg + 1)
    }

    /// Sets the shares of a group (sched_group_set_shares). They are scaled like the load of an
    /// entity.
    fn set_shares(&mut self, group: u32, shares: u64) {
        if self.task_groups.groups[group as usize].shares == shares {
            return;
        }
        self.task_groups.groups[group as usize].shares = shares;
        for cpu in self.cpus() {
            self.note_clock_update(cpu);
            let mut se = self.task_groups.id(group, cpu);
            while se >= GROUP {
                let above = self.cfs_rq_of(cpu, se);
                self.update_load_avg(above, se, Update::Group);
                self.update_cfs_group(cpu, se);
                se = above;
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
    let shares = if idle { scale_load(WEIGHT_IDLEPRIO) } else { NICE_0_LOAD };
    m.set_shares(cgroup, shares);
}
