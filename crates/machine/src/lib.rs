// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of machines: topology, tick rate and cost table. This crate only reads descriptions
//! and simulates nothing.
//!
//! A [`MachineSpec`] is loaded from a name in `machines/`, an hwloc XML file, an hwloc synthetic
//! string, or the host. The kernel crate reads it and never changes it.
//!
//! [`load`] returns everything that a simulation needs. [`define`] also returns the source of each
//! constant (the measurement, document or assumption from which it comes), which
//! [`show`](show::show) prints. [`list`](catalog::list) returns the named machines.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod bitmap;
pub mod catalog;
pub mod costs;
pub mod definition;
pub mod features;
mod file;
mod file_costs;
pub mod frequency;
mod host;
mod host_xml;
pub mod idle;
pub mod message;
pub mod noise;
mod parts;
mod regular;
pub mod scale;
pub mod show;
pub mod smt;
mod speed;
mod synthetic;
pub mod sysfs;
pub mod topology;
mod xml;

pub use catalog::{define, from_synthetic, from_toml, from_xml, list, load};
pub use costs::{ByDistance, Costs};
pub use definition::Definition;
pub use features::{Feature, Features};
pub use frequency::{Frequency, FrequencyDomain, FrequencyGovernor};
pub use idle::{CpuIdle, Governor, IdleState};
pub use input::Error;
pub use message::{Channels, MessageCosts};
pub use noise::Noise;
pub use show::{list_rows, show};
pub use topology::{Cpu, Distance, TaskSets, Topology};

use serde::Serialize;

/// Returns the host's topology as hwloc XML, for machine files (`topology = { inline = "..." }`).
///
/// # Errors
/// Fails if /sys does not describe the topology.
pub fn host_xml() -> Result<String, Error> {
    Ok(host::read(std::path::Path::new("/"))?.xml())
}

/// Maximum number of CPUs of a machine: NR_CPUS in the largest x86 kernel configuration.
pub const MAX_CPUS: u32 = 8192;

/// Configuration of the kernel of a machine. The default is that of Debian's Linux 7.2 for amd64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelConfig {
    /// Whether a task that becomes runnable in the fair class preempts at once (PREEMPT). By
    /// default, the running fair task continues until its CPU next returns to user space
    /// (PREEMPT_LAZY).
    pub preempt_full: bool,
    /// Whether the ticks of the CPUs are at different times within the tick period (the kernel's
    /// parameter `skew_tick`). By default, the ticks of all CPUs are at the same times.
    pub skew_tick: bool,
    /// Whether the time of interrupts is not charged to the running task (IRQ_TIME_ACCOUNTING).
    pub irq_time_accounting: bool,
    /// Whether NUMA balancing is switched off (`numa_balancing=disable` on the kernel's command
    /// line).
    pub no_numa_balancing: bool,
    /// Whether cache-aware scheduling is switched off (llc_balancing/enabled in debugfs).
    pub no_sched_cache: bool,
    /// Whether a failed attempt of new-idle balancing raises the recorded cost of the domain, as in
    /// Linux 6.17.
    pub newidle_raises: bool,
    /// Scheduler features that are on (sched/features in debugfs).
    pub features: Features,
    /// Whether the record of a switch has the time before the switch, as the tracepoint
    /// sched_switch of Linux. Otherwise it has the time at which the switch is complete, so wake-up
    /// latencies contain the switch. Machine files cannot set this.
    pub trace_before_switch: bool,
}

/// Description of a machine to simulate.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSpec {
    /// Name in the list of machines, or else the hwloc string or the name of the file that
    /// describes the machine.
    pub name: String,
    /// Description in one line, for `machine list`.
    pub description: String,
    pub topology: Topology,
    /// Scheduler ticks per second (CONFIG_HZ).
    pub hz: u32,
    /// Lowest speed to which a policy can set a CPU, from 1 to 1024 (full speed). With 1024, all
    /// CPUs have a fixed speed.
    pub cpuperf_min: u32,
    pub frequency: Frequency,
    /// Priority of each CPU for ITMT (Intel Turbo Boost Max Technology 3.0): the scheduler prefers
    /// CPUs with a higher number. Empty if CPUs have no priorities.
    pub priorities: Vec<u32>,
    /// CPUs without a tick while they run a single task (NO_HZ_FULL), in ascending order.
    pub nohz_full: Vec<u32>,
    /// Speed of each CPU; the fastest has 1024. Empty if the speeds are the capacities of the
    /// topology, so that the kernel knows them.
    pub speeds: Vec<u32>,
    /// Speeds of a hardware thread in 1/1024 of its full speed. The first entry applies while the
    /// thread is the only busy one of its core, the second while two threads are busy, and so on.
    /// There are as many entries as the largest core has threads.
    pub smt_throughput: Vec<u32>,
    /// Longest time in ns for which a CPU of an emulated machine runs before the next CPU runs, if
    /// one thread of the host executes all CPUs in turn. 0 if all CPUs run at the same time.
    pub turn_ns: u64,
    pub kernel: KernelConfig,
    /// Background work of the kernel, or `None` if there is none.
    pub noise: Option<Noise>,
    pub cpuidle: CpuIdle,
    pub costs: Costs,
}

/// Name of the key for machines whose CPUs run in turn, and of its source in
/// [`Definition::cost_sources`].
pub const TURNS: &str = "turns";

impl MachineSpec {
    /// Returns the speed of a CPU at its full frequency. The fastest CPU has 1024.
    pub fn speed(&self, cpu: u32) -> u32 {
        let cpu = cpu as usize;
        self.speeds
            .get(cpu)
            .copied()
            .unwrap_or(self.topology.cpus[cpu].capacity)
    }
}
