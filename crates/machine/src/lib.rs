// SPDX-License-Identifier: GPL-2.0-only
//! What a machine is: its topology, tick rate and cost table. Nothing here simulates.
//!
//! A [`MachineSpec`] comes from a name in `machines/`, an hwloc XML file, an hwloc synthetic
//! string or the host. The kernel crate reads it and never changes it.

pub mod costs;
pub mod topology;

pub use costs::{ByDistance, Costs};
pub use topology::{Cpu, Distance, Topology};

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
    pub costs: Costs,
}
