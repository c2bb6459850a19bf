// SPDX-License-Identifier: GPL-2.0-only
//! Consistency checks of the fair class: the counters of each queue must match the entities on it.
//! The checks do not change any state.

use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRqId, EntityId, GROUP};
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Sums over the entities of a queue.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    nr_queued: u32,
    load: u64,
    h_nr_queued: u32,
    h_nr_runnable: u32,
    h_nr_idle: u32,
}

/// Sums over the tasks of a CPU that wait, in all groups.
#[derive(Debug, Default, PartialEq)]
struct Waiting {
    tasks: u32,
    weight: i64,
    custom_slices: u32,
}

impl Machine {
    /// Checks the counters of all fair queues.
    ///
    /// # Panics
    /// If the counters of a queue do not match its entities.
    pub(crate) fn verify_fair(&self) {
        let nr_groups = self.task_groups.groups.len().max(1);
        let mut all: Vec<Sums> = (0..self.rqs.len() * nr_groups).map(|_| Sums::default()).collect();
        let mut waiting: Vec<Waiting> = (0..self.rqs.len()).map(|_| Waiting::default()).collect();
        for (task, t) in self.tasks.iter().enumerate() {
            if t.fair.on_rq {
                assert_eq!(
                    self.layout.css_set_addr(t.fair.group),
                    t.task_struct.cgroups as u64,
                    "{} is queued in a group that is not its cgroup",
                    t.comm()
                );
                let sums = &mut all[t.cpu().index() * nr_groups + t.fair.group as usize];
                self.add(sums, task as EntityId);
                sums.h_nr_queued += 1;
                sums.h_nr_runnable += u32::from(!t.fair.delayed);
                sums.h_nr_idle += u32::from(t.fair.counted_idle);
                if self.rqs[t.cpu()].fair.eevdf.curr != TaskId::from_entity(task as EntityId) {
                    let waiting = &mut waiting[t.cpu().index()];
                    waiting.tasks += 1;
                    waiting.weight += t.fair.h_load as i64;
                    waiting.custom_slices += u32::from(t.fair.slice != 0);
                }
            }
        }
        for ((cpu, sums), waiting) in self.cpus().zip(all.chunks_mut(nr_groups)).zip(waiting) {
            for &group in &self.task_groups.bottom_up {
                self.verify_group(cpu, self.task_groups.id(group, cpu), sums);
            }
            self.verify_queue(cpu.nr(), &sums[0]);
            let rq = &self.rqs[cpu].fair.eevdf;
            let counted = Waiting {
                tasks: rq.timeline.count(),
                weight: rq.sum_weight,
                custom_slices: rq.slices.total(),
            };
            assert_eq!(
                counted, waiting,
                "the sums (left) of CPU {cpu} do not match its waiting tasks (right)"
            );
        }
        if self.sched_cache.active {
            self.verify_preferences();
        }
    }

    /// Checks the numbers of queued tasks that prefer an LLC.
    fn verify_preferences(&self) {
        let llcs = self.spec.topology.llcs.len();
        let mut all: Vec<(u32, Vec<u32>)> = vec![(0, vec![0; llcs]); self.rqs.len()];
        for t in &self.tasks {
            if let Some(llc) = t.preferred_llc.filter(|_| t.fair.on_rq) {
                let (nr_preferred, counts) = &mut all[t.cpu().index()];
                *nr_preferred += u32::from(t.on_preferred_llc && !t.fair.delayed);
                counts[usize::from(llc)] += 1;
            }
        }
        for (cpu, counted) in self.cpus().zip(all) {
            let rq = &self.sched_cache.cpus[cpu];
            assert_eq!(
                (rq.nr_preferred, rq.counts.clone()),
                counted,
                "CPU {cpu}: the numbers of tasks that prefer an LLC (left) do not match the queued tasks (right)"
            );
        }
    }

    fn add(&self, sums: &mut Sums, id: EntityId) {
        sums.nr_queued += 1;
        sums.load += self.se(id).load;
    }

    /// Checks a group's queue and entity on a CPU. Adds the entity to the sums of the parent
    /// group's queue.
    fn verify_group(&self, cpu: CpuId, id: EntityId, sums: &mut [Sums]) {
        let number = self.task_groups.group_number(id);
        let own = std::mem::take(&mut sums[number as usize]);
        self.verify_queue(id, &own);
        let e = self.se(id);
        let (group, rq) = (self.task_groups.group(id), self.task_groups.rq(id));
        assert_eq!(
            e.on_rq,
            own.nr_queued > 0,
            "CPU {cpu}: the entity of group {number} must be queued (left) exactly while the group's \
             queue has entities (right)"
        );
        for &task in rq.runtime.limbo() {
            let t = &self.tasks[task];
            assert!(
                t.fair.throttled && !t.fair.on_rq && t.on_rq() && t.cpu() == cpu && t.fair.group == number,
                "{} is in the list of throttled tasks of a wrong queue, or is not throttled",
                t.comm()
            );
        }
        let above = &mut sums[e.group as usize];
        if e.on_rq {
            self.add(above, id);
        }
        above.h_nr_queued += own.h_nr_queued;
        above.h_nr_runnable += own.h_nr_runnable;
        above.h_nr_idle += if group.idle { own.h_nr_queued } else { own.h_nr_idle };
    }

    /// Compares the counters of a queue with the sums over its entities.
    fn verify_queue(&self, id: CfsRqId, sums: &Sums) {
        let cfs = self.cfs(id);
        let counted = Sums {
            nr_queued: cfs.nr_queued,
            load: cfs.load,
            h_nr_queued: cfs.h_nr_queued,
            h_nr_runnable: cfs.h_nr_runnable,
            h_nr_idle: cfs.h_nr_idle,
        };
        let name = if id < GROUP { "CPU" } else { "a group on CPU" };
        assert_eq!(
            counted,
            *sums,
            "the counters (left) in the queue of {name} {} do not match its entities (right)",
            self.queue_cpu(id)
        );
    }

    /// Returns whether a task is throttled and is in its queue's list of throttled tasks exactly
    /// once.
    pub(crate) fn is_throttled_once(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        if !t.fair.throttled || t.fair.group == 0 {
            return false;
        }
        let queue = self.task_groups.id(t.fair.group, t.cpu());
        let limbo = self.task_groups.rq(queue).runtime.limbo();
        debug_assert_ne!(task, IDLE);
        limbo.iter().filter(|&&other| other == task).count() == 1
    }
}
