// SPDX-License-Identifier: GPL-2.0-only
//! The frequency governor schedutil (kernel/sched/cpufreq_schedutil.c), which requests frequencies
//! in proportion to the utilization of CPUs:
//!
//! ```text
//! frequency = highest frequency * 1.25 * utilization / capacity
//! ```
//!
//! The fair class, the real-time class and a policy's target report changes of the utilization
//! ([`Machine::cpufreq_update_util`]). A domain is a set of CPUs that always have the same
//! frequency. Its frequency changes at most once per rate limit, and `transition_ns` after the
//! request. If the request changes meanwhile, the domain changes to the latest one (sugov_work).
//!
//! Not modelled: utilization clamping, the list of frequencies that hardware supports (here every
//! frequency is possible), and CPUs that may not request frequencies for other CPUs.

use crate::hardware::cpufreq::SCHED_CAPACITY_SCALE;
use crate::machine::Machine;
use crate::policy::layout::SCHED_DEADLINE;
use crate::sched::task::State;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::{Id, Table};
use machine::{FrequencyDomain, FrequencyGovernor, MachineSpec};

/// Smallest boost of a CPU whose tasks wake up after I/O (IOWAIT_BOOST_MIN).
const IOWAIT_BOOST_MIN: u64 = SCHED_CAPACITY_SCALE / 8;

/// State of the governor.
pub(crate) struct Schedutil {
    rate_limit_ns: u64,
    transition_ns: u64,
    tick_ns: u64,
    domains: Vec<Domain>,
    domain_of: Vec<u32>,
    cpus: Table<CpuId, SugovCpu>,
    /// Tasks with SCHED_DEADLINE that have been queued.
    deadline_tasks: Vec<TaskId>,
}

/// CPUs with the same frequency (struct sugov_policy).
struct Domain {
    cpus: Vec<CpuId>,
    /// Frequency that was requested last.
    next_freq: u64,
    last_update: u64,
    /// Whether the next update ignores the rate limit.
    need_update: bool,
    /// Whether a change to `next_freq` is pending.
    in_progress: bool,
}

/// State of a CPU (struct sugov_cpu).
#[derive(Default)]
struct SugovCpu {
    /// Boost for tasks that wake up after I/O, as a share of the CPU's capacity in 1/1024.
    iowait_boost: u64,
    iowait_boost_pending: bool,
    last_update: u64,
    /// Lower limit of the utilization at the last update.
    bw_min: u64,
    saved_idle_calls: u64,
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
    fn boost(&mut self, now: u64, tick_ns: u64, wanted: bool) {
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
    fn apply_boost(&mut self, now: u64, tick_ns: u64, capacity: u64) -> u64 {
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

impl Machine {
    /// Informs the governor that the utilization of a CPU may have changed. `iowait` says that a
    /// task wakes up after I/O (SCHED_CPUFREQ_IOWAIT).
    #[inline]
    pub(crate) fn cpufreq_update_util(&mut self, cpu: CpuId, iowait: bool) {
        if self.schedutil.is_some() {
            self.sugov_update(cpu, iowait);
        }
    }

    /// Performs [`Machine::cpufreq_update_util`] (sugov_update_single_freq, sugov_update_shared).
    #[inline(never)]
    fn sugov_update(&mut self, cpu: CpuId, iowait: bool) {
        let Some(mut governor) = self.schedutil.take() else {
            return;
        };
        if let Some(domain) = self.next_frequency(&mut governor, cpu, iowait) {
            self.events
                .push(self.now + governor.transition_ns, Event::Frequency { domain });
        }
        self.schedutil = Some(governor);
    }

    /// Computes the frequency of a CPU's domain. Returns the domain if it has to change its
    /// frequency and no change is pending.
    fn next_frequency(&mut self, governor: &mut Schedutil, cpu: CpuId, iowait: bool) -> Option<u32> {
        let (now, tick_ns) = (self.now, governor.tick_ns);
        let number = governor.domain_of[cpu.index()];
        let bw_dl = self.deadline_bandwidth(governor, cpu);
        let sg_cpu = &mut governor.cpus[cpu];
        sg_cpu.boost(now, tick_ns, iowait);
        sg_cpu.last_update = now;
        let domain = &mut governor.domains[number as usize];
        // A greater bandwidth of deadline tasks takes effect at once (ignore_dl_rate_limit).
        domain.need_update |= bw_dl > sg_cpu.bw_min;
        if !domain.need_update && now - domain.last_update < governor.rate_limit_ns {
            return None;
        }
        let forced = std::mem::take(&mut domain.need_update);
        let mut next = 0;
        for index in 0..governor.domains[number as usize].cpus.len() {
            let cpu = governor.domains[number as usize].cpus[index];
            let capacity = self.arch_capacity(cpu);
            let boost = governor.cpus[cpu].apply_boost(now, tick_ns, capacity);
            let bw_dl = self.deadline_bandwidth(governor, cpu);
            let least = self.least_util(cpu, bw_dl);
            governor.cpus[cpu].bw_min = least;
            let util = self.frequency_util(cpu).max(boost);
            let perf = sugov_effective_cpu_perf(util, least, capacity);
            next = next.max(SCHED_CAPACITY_SCALE * perf / capacity);
        }
        let domain = &mut governor.domains[number as usize];
        if let [only] = domain.cpus[..] {
            // If the CPU was not idle since the last update, a lower frequency would be premature
            // (sugov_hold_freq). The target of a policy that schedules all tasks is not held.
            let idle_calls = self.cpufreq.idle_calls(only);
            let hold = if self.ext.switching_all {
                false
            } else {
                let saved = &mut governor.cpus[only].saved_idle_calls;
                std::mem::replace(saved, idle_calls) == idle_calls
            };
            if hold && !forced && next < domain.next_freq {
                next = domain.next_freq;
            }
        }
        let next = next.clamp(u64::from(self.spec.cpuperf_min), SCHED_CAPACITY_SCALE);
        if next == domain.next_freq {
            return None;
        }
        domain.next_freq = next;
        domain.last_update = now;
        let change = !std::mem::replace(&mut domain.in_progress, true);
        change.then_some(number)
    }

    /// Handles the event at which a domain changes to the frequency that was requested last.
    pub(crate) fn frequency_changes(&mut self, domain: u32) {
        let Some(governor) = &mut self.schedutil else { return };
        let state = &mut governor.domains[domain as usize];
        state.in_progress = false;
        let (level, cpus) = (state.next_freq, state.cpus.clone());
        for cpu in cpus {
            self.request_frequency(cpu, level);
        }
    }

    /// Returns the utilization of a CPU by all classes, at most its capacity (sugov_get_util,
    /// effective_cpu_util).
    fn frequency_util(&self, cpu: CpuId) -> u64 {
        let mut util = self.rqs[cpu].rt.util_avg(self.clock_pelt(cpu));
        if self.ext.enabled {
            util += u64::from(self.layout.rq_struct(cpu).scx.cpuperf_target);
        }
        if !self.ext.switching_all {
            util += self.cpu_util_boost(cpu);
        }
        util.min(self.arch_capacity(cpu))
    }

    /// Returns the lower limit of the utilization (effective_cpu_util): the bandwidth of deadline
    /// tasks, or the CPU's capacity if real-time tasks are runnable.
    fn least_util(&self, cpu: CpuId, bw_dl: u64) -> u64 {
        match self.rqs[cpu].rt.has_realtime() {
            true => bw_dl.max(self.arch_capacity(cpu)),
            false => bw_dl,
        }
    }

    /// Records a deadline task that was queued on a CPU.
    pub(crate) fn track_deadline_task(&mut self, task: TaskId) {
        if let Some(governor) = &mut self.schedutil
            && self.tasks[task].policy() == SCHED_DEADLINE
            && !governor.deadline_tasks.contains(&task)
        {
            governor.deadline_tasks.push(task);
        }
    }

    /// Returns the bandwidth of a CPU's deadline tasks in 1/1024 of its time (cpu_bw_dl). A task
    /// counts until it exits. In Linux, the bandwidth of a sleeping task counts until its deadline.
    fn deadline_bandwidth(&self, governor: &mut Schedutil, cpu: CpuId) -> u64 {
        let tasks = &self.tasks;
        let counts = |task: &TaskId| tasks[*task].policy() == SCHED_DEADLINE && tasks[*task].state() != State::Dead;
        governor.deadline_tasks.retain(counts);
        let here = governor.deadline_tasks.iter().filter(|&&task| tasks[task].cpu() == cpu);
        here.map(|&task| u64::from(tasks[task].rt.bandwidth)).sum()
    }
}

/// Returns the utilization plus a quarter as reserve, limited to `least` and `capacity`
/// (sugov_effective_cpu_perf).
fn sugov_effective_cpu_perf(util: u64, least: u64, capacity: u64) -> u64 {
    (util + util / 4).min(capacity).max(least.min(capacity))
}

#[cfg(test)]
mod tests;
