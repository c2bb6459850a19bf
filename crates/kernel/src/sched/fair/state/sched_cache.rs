// SPDX-License-Identifier: GPL-2.0-only
//! State of cache-aware scheduling, see `sched::fair::sched_cache`.

use crate::simulation::id::CpuId;
use crate::simulation::on_demand::{OnDemand, Unchanged};
use crate::simulation::table::Table;
use machine::MachineSpec;

/// State of cache-aware scheduling that belongs to the whole machine.
pub struct SchedCache {
    /// Whether cache-aware scheduling is on (sched_cache_enabled).
    pub(crate) active: bool,
    /// Length of an epoch in jiffies: 10 ms, at least one jiffy (llc_epoch_period).
    pub(crate) period: u64,
    /// Number of hardware threads of a core (cpu_smt_num_threads).
    pub(crate) smt_threads: u64,
    pub(crate) cpus: Table<CpuId, CacheRq>,
    /// Number of tasks that search before they return to user space.
    pub(crate) nr_works: u32,
    /// Load of each LLC (struct sched_domain_shared).
    pub(crate) llcs: Vec<LlcLoad>,
    /// Processes with live threads, and free entries. [`Task::cache_process`] is the index.
    ///
    /// [`Task::cache_process`]: crate::sched::state::task::Task::cache_process
    pub(crate) processes: Vec<CacheProcess>,
    pub(crate) free: Vec<u32>,
    /// For each tgid, the index of the process plus 1, or 0 if there is no such process.
    pub(crate) index: Vec<u32>,
}

/// State of a CPU.
#[derive(Default)]
pub(crate) struct CacheRq {
    /// Runtime of fair tasks in the current epoch, and of earlier epochs with decay (cpu_runtime).
    pub recent: RecentRuntime,
    /// Jiffy after which the next epoch begins (cpu_epoch_next).
    pub epoch_next: u64,
    /// Time at which that is, ns.
    pub epoch_ends: u64,
    /// Number of runnable fair tasks for which this CPU's LLC is preferred (nr_pref_llc_running).
    pub nr_preferred: u32,
    /// For each LLC, the number of queued fair tasks that prefer it (llc_counts).
    pub counts: Vec<u32>,
}

/// Runtime that is halved at the beginning of each epoch, ns.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecentRuntime {
    pub ns: u64,
    pub epoch: u64,
}

impl RecentRuntime {
    /// Advances to an epoch, which is not earlier than the present one.
    pub fn advance(&mut self, epoch: u64) {
        let epochs = epoch - self.epoch;
        self.epoch = epoch;
        self.ns = self.ns.checked_shr(epochs.min(64) as u32).unwrap_or(0);
    }
}

/// Average utilization and capacity of an LLC at its last periodic balancing.
#[derive(Clone, Copy, Default)]
pub(crate) struct LlcLoad {
    pub util: u64,
    pub capacity: u64,
}

/// State of a process (struct sched_cache_stat of an address space).
#[derive(Default)]
pub(crate) struct CacheProcess {
    /// Number of threads. A dead leader counts while other threads live (get_nr_threads).
    pub nr_threads: u32,
    pub leader_is_dead: bool,
    /// Epoch of the last search for the preferred LLC.
    pub epoch: u64,
    /// Jiffy before which there is no further search.
    pub next_scan: u64,
    pub usage: OnDemand<ProcessUsage>,
}

/// How the threads of a process use CPUs and memory. Empty until a thread runs in the fair class,
/// because policies schedule most tasks of large machines.
#[derive(Clone)]
pub(crate) struct ProcessUsage {
    /// Recent runtime of the threads on the CPUs that they have used.
    pub recent: Vec<(CpuId, RecentRuntime)>,
    /// A CPU of the preferred LLC. `None` if the process prefers none.
    pub cpu: Option<CpuId>,
    /// Average number of threads that run at the same time.
    pub nr_running_avg: u64,
    /// Size of the memory that the threads use, as NUMA balancing has measured it, in pages.
    pub footprint: u64,
}

impl Unchanged for ProcessUsage {
    const UNCHANGED: &'static ProcessUsage = &ProcessUsage {
        recent: Vec::new(),
        cpu: None,
        nr_running_avg: 0,
        footprint: 0,
    };
}

impl ProcessUsage {
    /// Returns the recent runtime on a CPU, which is 0 if the threads have not used the CPU.
    pub(crate) fn recent_on(&mut self, cpu: CpuId) -> &mut RecentRuntime {
        let at = self.recent.iter().position(|&(used, _)| used == cpu);
        let at = at.unwrap_or_else(|| {
            self.recent.push((cpu, RecentRuntime::default()));
            self.recent.len() - 1
        });
        // The next search most likely asks for the same CPU.
        self.recent.swap(0, at);
        &mut self.recent[0].1
    }
}

impl SchedCache {
    /// Returns the state at the beginning of a run. Cache-aware scheduling is on if the machine has
    /// several LLCs (sched_cache_present). The CPUs `isolated` are not balanced.
    pub(crate) fn new(spec: &MachineSpec, isolated: &[u32]) -> SchedCache {
        let topology = &spec.topology;
        let active = !spec.kernel.no_sched_cache && several_llcs(spec, isolated);
        let counts = if active { topology.llcs.len() } else { 0 };
        let cpu = |_| CacheRq {
            counts: vec![0; counts],
            ..CacheRq::default()
        };
        SchedCache {
            active,
            period: u64::from(spec.hz / 100).max(1),
            smt_threads: topology.cores.iter().map(Vec::len).max().unwrap_or(1) as u64,
            cpus: topology.cpus.iter().map(cpu).collect(),
            nr_works: 0,
            llcs: vec![LlcLoad::default(); counts],
            processes: Vec::new(),
            free: Vec::new(),
            index: Vec::new(),
        }
    }
}

/// Returns whether an LLC of several CPUs is part of a scheduling domain with other CPUs
/// (sd_in_multi_llcs). Isolated CPUs are in no domain.
///
/// Linux also counts the domains above the nodes. Here they count only without NUMA balancing, whose
/// decisions take precedence.
fn several_llcs(spec: &MachineSpec, isolated: &[u32]) -> bool {
    let topology = &spec.topology;
    let node_of = |cpu: &u32| topology.cpus[*cpu as usize].node;
    topology.llcs.iter().any(|llc| {
        let balanced = |cpus: &[u32]| cpus.iter().filter(|cpu| !isolated.contains(cpu)).count();
        let domain = match spec.kernel.no_numa_balancing {
            true => topology.nr_cpus() as usize - isolated.len(),
            false => balanced(&topology.nodes[node_of(&llc[0]) as usize]),
        };
        let weight = balanced(llc);
        weight > 1 && weight < domain
    })
}
