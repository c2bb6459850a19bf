// SPDX-License-Identifier: GPL-2.0-only
//! The values of the names in profiles (files that replace the user-space part of a policy). A name
//! is a property of the machine or of its CPUs, or an enumerator of the kernel.

use crate::error::{ExpressionError, ProfileError};
use crate::expression::{Expression, Names};
use crate::group::{Group, Instance};
use bpf::btf::{Btf, EXTERN, TypeKind};
use machine::{MachineSpec, Topology};

/// Properties of a CPU. If a value is for a pair of CPUs, a name with the prefix `other_` is a
/// property of the second CPU. `rank`, `spread` and `packed` are positions of the CPU in three
/// orders of all CPUs. `rank` orders CPUs by capacity. `spread` begins with one thread of each
/// core. `packed` goes core by core.
const CPU_NAMES: &[&str] = &[
    "cpu", "core", "thread", "llc", "node", "package", "capacity", "rank", "spread", "packed", "sibling",
];
/// Properties of the groups (core, LLC, node) to which a CPU belongs: how many members a group has,
/// and which CPU is the first.
const GROUP_NAMES: &[&str] = &[
    "nr_cpus_of_core",
    "nr_cpus_of_llc",
    "nr_cpus_of_node",
    "nr_cores_of_llc",
    "nr_cores_of_node",
    "nr_llcs_of_node",
    "first_of_core",
    "first_of_llc",
    "first_of_node",
];
/// Names of masks of CPUs. A mask consists of 64-bit words. A name stands for one word of its mask:
/// the word that is selected with [`Properties::at`], or else the first one.
const MASKS: &[&str] = &["cpus", "cpus_of_core", "cpus_of_llc", "cpus_of_node"];
/// Properties of a pair of CPUs.
const PAIR_NAMES: &[&str] = &["near", "near_llc", "near_node", "distance"];

/// Returns whether a name is a property of a CPU, or of the first CPU of a pair.
pub(crate) fn is_cpu_property(name: &str) -> bool {
    CPU_NAMES.contains(&name) || GROUP_NAMES.contains(&name)
}

/// Returns whether a name is a property of a pair of CPUs, or of the second CPU of a pair.
pub(crate) fn is_pair_property(name: &str) -> bool {
    PAIR_NAMES.contains(&name) || name.strip_prefix("other_").is_some_and(is_cpu_property)
}

/// The enumerators of the kernel into which a policy is loaded.
pub trait Enumerators {
    /// Returns the value of an enumerator. If only other kernels have the enumerator, the value is
    /// 0. If no kernel has it, returns `None`.
    fn enumerator(&self, name: &str) -> Option<i64>;
}

/// The names that can be used in expressions, with their values.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    pub(crate) spec: &'a MachineSpec,
    pub(crate) at: Instance,
    enumerators: &'a dyn Enumerators,
    /// Types of the policy's object, which `sizeof` and `has` use.
    types: Option<&'a Btf>,
    /// The named results of the programs that the profile has run, the latest at the end.
    results: &'a [(String, i64)],
}

impl<'a> Properties<'a> {
    /// Creates the names for a machine and the enumerators of a kernel.
    pub fn new(spec: &'a MachineSpec, enumerators: &'a dyn Enumerators) -> Properties<'a> {
        Properties {
            spec,
            at: Instance::default(),
            enumerators,
            types: None,
            results: &[],
        }
    }

    /// Adds the types of a policy's object, which `sizeof` and `has` use.
    pub fn with_types(self, types: &'a Btf) -> Properties<'a> {
        Properties {
            types: Some(types),
            ..self
        }
    }

    pub(crate) fn results(&self) -> &'a [(String, i64)] {
        self.results
    }

    /// Adds the named results of programs that the profile has run.
    pub fn with_results(self, results: &'a [(String, i64)]) -> Properties<'a> {
        Properties { results, ..self }
    }

    /// Selects the CPU, the pair of CPUs or the word of a mask for which names are evaluated.
    pub fn at(self, at: Instance) -> Properties<'a> {
        Properties { at, ..self }
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The text is not an expression, or it uses an unknown name.
    pub fn value(&self, text: &str) -> Result<i64, ProfileError> {
        let value = Expression::parse(text)?;
        value.value(self).map_err(|error| error.of(text))
    }

    /// Returns whether a condition is true. An empty condition is always true.
    ///
    /// # Errors
    /// The same as those of [`Properties::value`].
    pub fn holds(&self, when: &str) -> Result<bool, ProfileError> {
        Ok(when.is_empty() || self.value(when)? != 0)
    }

    fn machine_property(&self, name: &str) -> Option<i64> {
        let topology = &self.spec.topology;
        let capacities = || topology.cpus.iter().map(|cpu| i64::from(cpu.capacity));
        let largest = |name| {
            (0..topology.nr_cpus())
                .map(|cpu| group_property(topology, cpu, name))
                .max()
        };
        Some(match name {
            "nr_cpus" => i64::from(topology.nr_cpus()),
            "nr_cores" => populated(&topology.cores),
            "nr_llcs" => populated(&topology.llcs),
            "nr_nodes" => populated(&topology.nodes),
            "nr_packages" => populated(&topology.packages),
            "smt" => i64::from(topology.cores.iter().any(|core| core.len() > 1)),
            "numa" => i64::from(populated(&topology.nodes) > 1),
            "hz" => i64::from(self.spec.hz),
            "max_capacity" => capacities().max()?,
            "min_capacity" => capacities().min()?,
            "sum_capacity" => capacities().sum(),
            _ => largest(name.strip_prefix("max_").filter(|name| GROUP_NAMES.contains(name))?)?,
        })
    }
}

impl Names for Properties<'_> {
    fn name(&self, name: &str) -> Result<i64, ExpressionError> {
        if let Some((_, value)) = self.results.iter().rev().find(|(known, _)| known == name) {
            return Ok(*value);
        }
        if let Some(fact) = self.machine_property(name) {
            return Ok(fact);
        }
        let topology = &self.spec.topology;
        let missing = |object, example| ExpressionError::NeedsIndex {
            name: name.into(),
            object,
            example,
        };
        let cpu = || self.at.cpu.ok_or_else(|| missing("a CPU", "[cpu]"));
        let other = || self.at.other.ok_or_else(|| missing("a pair", "[other_cpu]"));
        if is_cpu_property(name) {
            return Ok(cpu_property(topology, cpu()?, name));
        }
        if let Some(fact) = name.strip_prefix("other_").filter(|fact| is_cpu_property(fact)) {
            return Ok(cpu_property(topology, other()?, fact));
        }
        if PAIR_NAMES.contains(&name) {
            return Ok(pair_property(topology, cpu()?, other()?, name));
        }
        if MASKS.contains(&name) {
            let word = self.at.word.unwrap_or(0);
            let all: Vec<u32> = (0..topology.nr_cpus()).collect();
            let set = match name {
                "cpus" => &all,
                _ => group(topology, cpu()?, name),
            };
            let bits = set.iter().filter(|&&cpu| cpu / 64 == word).map(|&cpu| 1 << (cpu % 64));
            return Ok(bits.fold(0, |bits: i64, bit: i64| bits | bit));
        }
        match name {
            "word" => self.at.word.map(i64::from).ok_or_else(|| missing("a mask", "[word]")),
            _ => {
                let value = self.enumerators.enumerator(name);
                value.ok_or_else(|| ExpressionError::UnknownName(name.into()))
            }
        }
    }

    fn size_of(&self, ty: &str) -> Result<i64, ExpressionError> {
        let types = self.types.ok_or(ExpressionError::NoTypes)?;
        let size = types.find_struct(ty).and_then(|id| types.size_of(id));
        size.map(i64::from)
            .ok_or_else(|| ExpressionError::UnknownStruct(ty.into()))
    }

    fn has(&self, variable: &str) -> Result<i64, ExpressionError> {
        let types = self.types.ok_or(ExpressionError::NoTypes)?;
        let is_own = |kind: &TypeKind| matches!(kind, TypeKind::Var { linkage, .. } if *linkage != EXTERN);
        Ok(types.find(variable, is_own).is_some().into())
    }
}

fn populated(groups: &[Vec<u32>]) -> i64 {
    i64::from(input::index(groups.iter().filter(|group| !group.is_empty()).count()))
}

fn cpu_property(topology: &Topology, cpu: u32, name: &str) -> i64 {
    let info = &topology.cpus[cpu as usize];
    // Returns the position of the CPU if all CPUs are sorted by `key`: the number of CPUs before
    // it.
    let position = |key: &dyn Fn(u32) -> [u32; 6]| {
        let own = key(cpu);
        input::index((0..topology.nr_cpus()).filter(|&other| key(other) < own).count())
    };
    let cpu_info = |cpu: u32| &topology.cpus[cpu as usize];
    i64::from(match name {
        "cpu" => cpu,
        "core" => info.core,
        "thread" => info.thread,
        "llc" => info.llc,
        "node" => info.node,
        "package" => info.package,
        "capacity" => info.capacity,
        "rank" => position(&|cpu| [u32::MAX - cpu_info(cpu).capacity, 0, 0, 0, 0, cpu]),
        "spread" => position(&|cpu| {
            let info = cpu_info(cpu);
            [
                info.thread,
                info.node,
                info.llc,
                u32::MAX - info.capacity,
                info.core,
                cpu,
            ]
        }),
        "packed" => position(&|cpu| {
            let info = cpu_info(cpu);
            [
                info.node,
                info.llc,
                u32::MAX - info.capacity,
                info.core,
                info.thread,
                cpu,
            ]
        }),
        "sibling" => match topology.siblings(cpu).iter().find(|&&sibling| sibling != cpu) {
            Some(&sibling) => sibling,
            None => return -1,
        },
        _ => return group_property(topology, cpu, name),
    })
}

/// Returns the CPUs of the core, LLC or node to which a CPU belongs. The last word of `name`
/// selects the kind of group.
fn group<'t>(topology: &'t Topology, cpu: u32, name: &str) -> &'t [u32] {
    match name.rsplit('_').next() {
        Some("core") => topology.siblings(cpu),
        Some("llc") => topology.llc_cpus(cpu),
        _ => topology.node_cpus(cpu),
    }
}

fn group_property(topology: &Topology, cpu: u32, name: &str) -> i64 {
    let cpus = group(topology, cpu, name);
    // Each group has one first CPU, so the number of groups is the number of such CPUs.
    let firsts = |group: Group| cpus.iter().filter(|&&cpu| group.first(topology, cpu) == cpu).count();
    let number = match name {
        "nr_cores_of_llc" | "nr_cores_of_node" => firsts(Group::Core),
        "nr_llcs_of_node" => firsts(Group::Llc),
        "first_of_core" | "first_of_llc" | "first_of_node" => return i64::from(cpus[0]),
        _ => cpus.len(),
    };
    input::index(number).into()
}

fn pair_property(topology: &Topology, cpu: u32, other: u32, name: &str) -> i64 {
    let group = match name {
        "near" => Group::Cpu,
        "near_llc" => Group::Llc,
        "near_node" => Group::Node,
        _ => return i64::from(topology.node_distance(cpu, other)),
    };
    let firsts = group.all(topology);
    let (cpu, other) = (group.first(topology, cpu), group.first(topology, other));
    let number = |cpu| firsts.partition_point(|&first| first < cpu);
    let here = number(cpu);
    // Groups are sorted by their distance. Of two groups at the same distance, the group with the
    // nearer number comes first. The numbers form a ring, so the distance of two numbers is the
    // shorter way around the ring.
    let nearness = |to: u32| {
        let ahead = (number(to) + firsts.len() - here) % firsts.len();
        let behind = firsts.len() - ahead;
        (
            topology.distance(cpu, to),
            topology.node_distance(cpu, to),
            ahead.min(behind),
            ahead > behind,
        )
    };
    let own = nearness(other);
    input::index(firsts.iter().filter(|&&to| nearness(to) < own).count()).into()
}
