// SPDX-License-Identifier: GPL-2.0-only
//! State of the frequency governor schedutil, see `sched::schedutil`.

use crate::layout::SCHED_CAPACITY_SCALE;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::{Id, Table};
use machine::{FrequencyDomain, FrequencyGovernor, MachineSpec};

/// Smallest boost of a CPU whose tasks wake up after I/O (IOWAIT_BOOST_MIN).
const IOWAIT_BOOST_MIN: u64 = SCHED_CAPACITY_SCALE / 8;

/// State of the governor.
pub(crate) struct Schedutil {
    pub(crate) rate_limit_ns: u64,
    pub(crate) transition_ns: u64,
    pub(crate) tick_ns: u64,
    pub(crate) domains: Vec<Domain>,
    pub(crate) domain_of: Vec<u32>,
    pub(crate) cpus: Table<CpuId, SugovCpu>,
    /// Tasks with SCHED_DEADLINE that have been queued.
    pub(crate) deadline_tasks: Vec<TaskId>,
}

/// CPUs with the same frequency (struct sugov_policy).
pub(crate) struct Domain {
    pub(crate) cpus: Vec<CpuId>,
    /// Frequency that was requested last.
    pub(crate) next_freq: u64,
    pub(crate) last_update: u64,
    /// Whether the next update ignores the rate limit.
    pub(crate) need_update: bool,
    /// Whether a change to `next_freq` is pending.
    pub(crate) in_progress: bool,
}

/// State of a CPU (struct sugov_cpu).
#[derive(Default)]
pub(crate) struct SugovCpu {
    /// Boost for tasks that wake up after I/O, as a share of the CPU's capacity in 1/1024.
    iowait_boost: u64,
    iowait_boost_pending: bool,
    pub(crate) last_update: u64,
    /// Lower limit of the utilization at the last update.
    pub(crate) bw_min: u64,
    pub(crate) saved_idle_calls: u64,
}

impl SugovCpu {
    /// Ends the boost if there was no update for more than a tick (sugov_iowait_reset).
    fn reset_boost(&mut self, now: u64, tick_ns: u64, wanted: bool) -> bool {
        if now - self.last_update <= tick_ns {
            return false;
        }
        self.iowait_boost = if wanted { IOWAIT_BOOST_MIN } else { 0 };
        self.iowait_boost_pending = wanted;
        true
    }

    /// Doubles the boost if a task wakes up after I/O (sugov_iowait_boost).
    pub(crate) fn boost(&mut self, now: u64, tick_ns: u64, wanted: bool) {
        if self.iowait_boost > 0 && self.reset_boost(now, tick_ns, wanted) {
            return;
        }
        if !wanted || std::mem::replace(&mut self.iowait_boost_pending, true) {
            return;
        }
        self.iowait_boost = match self.iowait_boost {
            0 => IOWAIT_BOOST_MIN,
            boost => (boost * 2).min(SCHED_CAPACITY_SCALE),
        };
    }

    /// Returns the utilization that the boost asks for. Halves the boost if no task woke up after
    /// I/O since the last update (sugov_iowait_apply).
    pub(crate) fn apply_boost(&mut self, now: u64, tick_ns: u64, capacity: u64) -> u64 {
        if self.iowait_boost == 0 || self.reset_boost(now, tick_ns, false) {
            return 0;
        }
        if !self.iowait_boost_pending {
            self.iowait_boost /= 2;
            if self.iowait_boost < IOWAIT_BOOST_MIN {
                self.iowait_boost = 0;
                return 0;
            }
        }
        self.iowait_boost_pending = false;
        self.iowait_boost * capacity / SCHED_CAPACITY_SCALE
    }
}

impl Schedutil {
    /// Returns the initial state, or `None` if the machine has another governor.
    pub(crate) fn new(spec: &MachineSpec) -> Option<Box<Schedutil>> {
        let frequency = &spec.frequency;
        if frequency.governor != FrequencyGovernor::Schedutil {
            return None;
        }
        let topology = &spec.topology;
        let groups = match frequency.domain {
            FrequencyDomain::Core => &topology.cores,
            FrequencyDomain::Llc => &topology.llcs,
            FrequencyDomain::Package => &topology.packages,
        };
        let domain = |cpus: &Vec<u32>| Domain {
            cpus: cpus.iter().map(|&cpu| CpuId::new(cpu as usize)).collect(),
            next_freq: SCHED_CAPACITY_SCALE,
            last_update: 0,
            need_update: true,
            in_progress: false,
        };
        let mut domain_of = vec![0; topology.cpus.len()];
        for (number, cpus) in groups.iter().enumerate() {
            cpus.iter().for_each(|&cpu| domain_of[cpu as usize] = number as u32);
        }
        Some(Box::new(Schedutil {
            rate_limit_ns: frequency.rate_limit_ns,
            transition_ns: frequency.transition_ns,
            tick_ns: 1_000_000_000 / u64::from(spec.hz),
            domains: groups.iter().map(domain).collect(),
            domain_of,
            cpus: topology.cpus.iter().map(|_| SugovCpu::default()).collect(),
            deadline_tasks: Vec::new(),
        }))
    }
}
