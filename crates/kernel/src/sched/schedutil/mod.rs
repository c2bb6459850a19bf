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

pub mod state;

use crate::layout::{SCHED_CAPACITY_SCALE, SCHED_DEADLINE};
use crate::machine::Machine;
use crate::sched::schedutil::state::Schedutil;
use crate::sched::state::task::State;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};

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
        let mut util = self.rqs[cpu].rt.util_avg();
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
