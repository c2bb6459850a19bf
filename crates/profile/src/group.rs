// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of groups of CPUs. A profile (a file that replaces the user-space part of a policy)
//! can repeat a setting or a program for each CPU, core, LLC, node or package.

use machine::Topology;
use serde::{Deserialize, Serialize};

/// A kind of group of CPUs, from the smallest to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Cpu,
    Core,
    Llc,
    Node,
    Package,
}

impl Group {
    pub fn by_name(name: &str) -> Option<Group> {
        Some(match name {
            "cpu" => Group::Cpu,
            "core" => Group::Core,
            "llc" => Group::Llc,
            "node" => Group::Node,
            "package" => Group::Package,
            _ => return None,
        })
    }

    /// Returns the first CPU of the group to which a CPU belongs.
    pub(crate) fn first(self, topology: &Topology, cpu: u32) -> u32 {
        match self {
            Group::Cpu => cpu,
            Group::Core => topology.siblings(cpu)[0],
            Group::Llc => topology.llc_cpus(cpu)[0],
            Group::Node => topology.node_cpus(cpu)[0],
            Group::Package => topology.package_cpus(cpu)[0],
        }
    }

    /// Returns the first CPU of each group of this kind, in ascending order.
    pub(crate) fn all(self, topology: &Topology) -> Vec<u32> {
        let all = 0..topology.nr_cpus();
        all.filter(|&cpu| self.first(topology, cpu) == cpu).collect()
    }
}

/// One repetition of a setting or program: the CPU, the pair of CPUs or the word of a mask to which
/// the repetition applies. A group is represented by its first CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    pub cpu: Option<u32>,
    /// The second CPU, if the repetition is for a pair of CPUs.
    pub other: Option<u32>,
    /// Index of a word in a mask of CPUs.
    pub word: Option<u32>,
}

/// Returns one instance for each group of the kind `group`. If `group` is `None`, returns a single
/// instance.
pub fn instances(topology: &Topology, group: Option<Group>) -> Vec<Instance> {
    let Some(group) = group else {
        return vec![Instance::default()];
    };
    let at = |cpu| Instance {
        cpu: Some(cpu),
        ..Instance::default()
    };
    group.all(topology).into_iter().map(at).collect()
}
