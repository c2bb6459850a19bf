// SPDX-License-Identifier: GPL-2.0-only
//! What a machine is: its topology, tick rate and cost table. Nothing here simulates.
//!
//! A [`MachineSpec`] comes from a name in `machines/`, an hwloc XML file, an hwloc synthetic
//! string or the host. The kernel crate reads it and never changes it.
//!
//! [`load`] is all a simulation needs. [`define`] also tells where each constant of the cost
//! table comes from, which [`show`](show::show) prints; [`list`](catalog::list) lists the named
//! machines.

mod bitmap;
pub mod catalog;
pub mod costs;
pub mod definition;
mod file;
mod host;
mod host_xml;
mod parts;
mod regular;
pub mod show;
mod synthetic;
pub mod topology;
mod xml;

pub use catalog::{define, from_synthetic, from_toml, from_xml, list, load};
pub use costs::{ByDistance, Costs};
pub use definition::Definition;
pub use input::Error;
pub use show::{list_rows, show};
pub use topology::{Cpu, Distance, TaskSets, Topology};

/// This machine's topology as hwloc XML, as machine files take it (`topology = { inline = "..." }`).
///
/// # Errors
/// /sys does not describe it.
pub fn host_xml() -> Result<String, Error> {
    Ok(host::read(std::path::Path::new("/"))?.xml())
}

/// The most CPUs a machine may have: NR_CPUS of the largest x86 kernel configuration.
pub const MAX_CPUS: u32 = 8192;

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// The name it is listed under, or the hwloc source it was read from.
    pub name: String,
    /// One line for `machine list`.
    pub description: String,
    pub topology: Topology,
    /// Scheduler ticks per second (CONFIG_HZ).
    pub hz: u32,
    /// The lowest performance level, 1..=1024, to which cpufreq takes a CPU that a policy wants slow; 1024: none does.
    pub cpuperf_min: u32,
    pub costs: Costs,
}
