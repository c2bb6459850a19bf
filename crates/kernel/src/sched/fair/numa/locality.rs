// SPDX-License-Identifier: GPL-2.0-only
//! Preferred nodes in load balancing (migrate_degrades_locality, fbq_classify_group,
//! fbq_classify_rq), and how much of its memory a task has on and near a node (task_weight).

use super::super::lb_env::{Env, IdleType, Preference};
use super::node_of;
use crate::hardware::footprint::state::NOWHERE;
use crate::machine::Machine;
use crate::sched::fair::state::numa::Connection;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::cmp::Ordering;

/// Returns the preference of `nr` tasks, of which `nr_numa` have a preferred node and
/// `nr_preferred` are on it.
pub(in super::super) fn classify(nr: u32, (nr_numa, nr_preferred): (u32, u32)) -> Preference {
    if nr > nr_numa {
        Preference::Regular
    } else if nr > nr_preferred {
        Preference::Remote
    } else {
        Preference::All
    }
}

/// Returns how many fair tasks on a CPU have a preferred node, and how many of them are on it
/// (nr_numa_running, nr_preferred_running).
pub(in super::super) fn count_preferences(m: &Machine, cpu: CpuId) -> (u32, u32) {
    let node = node_of(m, cpu);
    let (mut nr_numa, mut nr_preferred) = (0, 0);
    let mut task = m.rqs[cpu].fair.oldest;
    while task != IDLE {
        let preferred = m.numa_preferred(task);
        nr_numa += u32::from(preferred != NOWHERE);
        nr_preferred += u32::from(preferred == node);
        task = m.tasks[task].fair.newer;
    }
    (nr_numa, nr_preferred)
}

/// Returns whether load balancing would move a task away from its memory (`Greater`) or towards it
/// (`Less`) (migrate_degrades_locality). `nr_queued` is the number of tasks on the source CPU.
pub(in super::super) fn degrades_locality(m: &Machine, env: &Env, task: TaskId, nr_queued: u32) -> Ordering {
    let Some(numa) = m.tasks[task].numa.as_ref().filter(|numa| !numa.faults.is_empty()) else {
        return Ordering::Equal;
    };
    let (src, dst) = (node_of(m, env.src_cpu), node_of(m, env.dst_cpu));
    if src == dst || !env.span(m).numa {
        return Ordering::Equal;
    }
    if src == numa.preferred {
        // If all tasks of the CPU are on their preferred node, one of them has to leave.
        let others = nr_queued > count_preferences(m, env.src_cpu).1;
        return if others { Ordering::Greater } else { Ordering::Equal };
    }
    if dst == numa.preferred {
        return Ordering::Less;
    }
    // An idle CPU is often worse than remote memory.
    if env.idle == IdleType::Idle {
        return Ordering::Equal;
    }
    let distance = m.spec.topology.node_distances[src as usize][dst as usize];
    m.task_weight(task, src, distance)
        .cmp(&m.task_weight(task, dst, distance))
}

impl Machine {
    /// Returns the preferred node of a task, or NOWHERE.
    pub(in super::super) fn numa_preferred(&self, task: TaskId) -> u32 {
        self.tasks[task].numa.as_ref().map_or(NOWHERE, |numa| numa.preferred)
    }

    /// Returns the share of a task's faults on the memory of a node, in 1/1000. If some nodes are
    /// farther away than others, faults on nodes nearby count as well. `distance` is the distance
    /// between the two nodes that the caller compares (task_weight).
    pub(super) fn task_weight(&self, task: TaskId, node: u32, distance: u32) -> i64 {
        let Some(numa) = self.tasks[task].numa.as_ref().filter(|numa| numa.total > 0) else {
            return 0;
        };
        let faults = numa.faults[node as usize] + self.faults_nearby(&numa.faults, node, distance);
        (u128::from(faults) * 1000 / u128::from(numa.total)) as i64
    }

    /// Returns the weighted number of faults on the memory of nodes near `node`
    /// (score_nearby_nodes).
    fn faults_nearby(&self, faults: &[u64], node: u32, limit: u32) -> u64 {
        let (connection, max) = (self.numa.connection, self.numa.max_distance);
        if connection == Connection::Direct {
            return 0;
        }
        let distances = &self.spec.topology.node_distances[node as usize];
        let mut score = 0;
        for (other, (&distance, &faults)) in distances.iter().zip(faults).enumerate() {
            let far = connection == Connection::Backplane && distance >= limit;
            if other == node as usize || distance >= max || far {
                continue;
            }
            score += match connection {
                Connection::GluelessMesh => faults * u64::from(max - distance) / u64::from(max - 10),
                _ => faults,
            };
        }
        score
    }
}
