// SPDX-License-Identifier: GPL-2.0-only
//! Parser for hwloc's synthetic strings: `pack:2 [numa(memory=1GiB)] l3:1(size=24MiB) core:8
//! pu:2(indexes=2*16:16*1)`.
//!
//! The string consists of levels. A level `core:8` means that each object of the previous level
//! contains 8 cores. The last level is that of the CPUs. In a string of only numbers (`2 8 2`),
//! hwloc's rules determine the types of the levels. `[numa]` attaches a NUMA node to each object of
//! the previous level.
//!
//! Sizes, default sizes, types, abbreviations and index lists have the meaning that hwloc(7)
//! describes in "Synthetic topologies". hwloc ignores an index list that does not fit the number of
//! objects. This parser reports an error instead.

use crate::MAX_CPUS;
use crate::parts::{CpuParts, ObjectKind, Parts};
use input::Error;

mod levels;

use levels::{Level, indexes, levels, name_levels};

/// Maximum length of a string in bytes. An index list of the largest machine fits.
const MAX_BYTES: usize = 1 << 16;

pub(crate) const HINT: &str = "write a synthetic machine such as \"pack:2 l3:4 core:8 pu:2\": levels from the \
     outside in, `pu` last (hwloc(7), \"Synthetic topologies\"; try `lstopo -i \"...\"`)";

/// Parses a synthetic string. `place` is the position for errors.
///
/// # Errors
/// Fails if hwloc would refuse a level, or if an index list does not fit. The error names the level
/// or list.
pub(crate) fn parse(place: &str, text: &str) -> Result<Parts, Error> {
    let error = |error: Error| Error::at(place, error).hint(HINT);
    if text.len() > MAX_BYTES {
        return Err(error(
            format!("the synthetic string has more than {MAX_BYTES} bytes").into(),
        ));
    }
    let (mut levels, node_indexes) = levels(text).map_err(error)?;
    let unfit = |why: Error| error(format!("{text:?} is not an hwloc synthetic machine: {why}").into());
    name_levels(&mut levels).map_err(unfit)?;
    let nr_nodes: u64 = levels.iter().map(|l| u64::from(l.attached) * u64::from(l.width)).sum();
    let nr_nodes = u32::try_from(nr_nodes)
        .ok()
        .filter(|&nodes| nodes <= MAX_CPUS)
        .ok_or_else(|| error(format!("{text:?} has more than {MAX_CPUS} NUMA nodes").into()))?;
    let node_indexes = match node_indexes {
        Some(list) => {
            let indexes = indexes(list, nr_nodes);
            Some(indexes.map_err(|why| error(format!("indexes={list} of the NUMA nodes: {why}").into()))?)
        }
        None => None,
    };
    Ok(parts(&levels, node_indexes.as_deref()))
}

/// Determines the objects of all levels that contain each CPU.
fn parts(levels: &[Level], node_indexes: Option<&[u32]>) -> Parts {
    let nr_cpus = levels.last().map_or(0, |level| level.width);
    // Nested caches of the same level with the same CPUs count as one cache, with the size of the
    // innermost one.
    let is_first = |n: usize| {
        let same = |other: &Level| (other.kind, other.width) == (levels[n].kind, levels[n].width);
        !levels[n + 1..].iter().any(same)
    };
    let distinct: Vec<(u64, &Level)> = (0..levels.len())
        .rev()
        .filter(|&n| is_first(n))
        .map(|n| (n as u64, &levels[n]))
        .collect();
    let attached = attached_nodes(levels, nr_cpus, node_indexes);
    let mut cpus: Vec<CpuParts> = Vec::with_capacity(nr_cpus as usize);
    for cpu in 0..nr_cpus {
        let index = |level: &Level, position: u32| match &level.indexes {
            Some(indexes) => indexes[position as usize],
            None => position,
        };
        let mut parts = CpuParts::new(levels.last().map_or(cpu, |level| index(level, cpu)));
        parts.node = attached.get(cpu as usize).copied();
        for (n, level) in &distinct {
            let position = cpu / level.cpus(nr_cpus);
            match level.kind {
                Some(ObjectKind::Node) => parts.node = Some(index(level, position)),
                Some(kind) => parts.add(kind, n << 32 | u64::from(position), level.bytes()),
                None => {}
            }
        }
        // If there are no NUMA nodes, the whole machine is one node.
        parts.node.get_or_insert(0);
        cpus.push(parts);
    }
    cpus.sort_by_key(|cpu| cpu.os_index);
    Parts {
        cpus,
        ..Parts::default()
    }
}

/// Returns the attached NUMA node of each CPU. A node is attached to an object that contains the
/// CPU. If there are several such nodes, the node of the smallest object is used. If this object
/// has several nodes, the node with the lowest index is used. Returns an empty list if no nodes are
/// attached.
fn attached_nodes(levels: &[Level], nr_cpus: u32, node_indexes: Option<&[u32]>) -> Vec<u32> {
    if levels.iter().all(|level| level.attached == 0) {
        return Vec::new();
    }
    // For each CPU: of the objects visited so far that contain the CPU and have a node, the size of
    // the smallest one, and the OS index of its node.
    let mut best = vec![(u32::MAX, 0); nr_cpus as usize];
    let mut next = 0;
    // As in hwloc, objects are visited in the order of their last CPU, and inner objects before
    // those that contain them. Nodes are numbered in this order.
    for end in 1..=nr_cpus {
        for level in levels.iter().rev().filter(|level| end % level.cpus(nr_cpus) == 0) {
            let size = level.cpus(nr_cpus);
            for _ in 0..level.attached {
                let node = node_indexes.map_or(next, |indexes| indexes[next as usize]);
                next += 1;
                for best in &mut best[(end - size) as usize..end as usize] {
                    *best = (*best).min((size, node));
                }
            }
        }
    }
    best.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse("m", text).map_or_else(|e| e.message, |_| "fine".into())
    }

    /// Returns the OS index, core and NUMA node of each CPU.
    fn cpus(text: &str) -> Vec<(u32, u32, u32)> {
        let parts = parse("m", text).unwrap();
        let os: Vec<u32> = parts.cpus.iter().map(|cpu| cpu.os_index).collect();
        let topology = parts.number("m").unwrap().topology;
        os.iter()
            .zip(topology.cpus)
            .map(|(&os, cpu)| (os, cpu.core, cpu.node))
            .collect()
    }

    #[test]
    fn types_may_be_abbreviated() {
        for text in [
            "node:2 core:8 pu:2",
            "NUMANode:2 Core:8 PU:2",
            "so:2 l3cache:1 L2u:2 l1dcache:1 l1i:1 co:2 pu:2",
            "gr:2 group3:2 tile:1 die:2 pa:1 pu:2",
            "8",
            "2 2 2 2 2 2 2 2 2",
            "(memory=1GiB) pack:2 [numa(memory=1GiB)] l3:2(size=32MiB indexes=3,2,1,0) core:1 pu:2",
            "pack:2 [numa(indexes=1,0)] core:2 pu:2(indexes=2*4:4*1)",
        ] {
            assert_eq!(message(text), "fine", "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let unfit = |text: &str, reason: &str| {
            assert_eq!(
                message(text),
                format!("{text:?} is not an hwloc synthetic machine: {reason}")
            );
        };
        unfit("", "it has no level");
        unfit("node:2", "its last level is Node, expected pu");
        unfit("garbage:4", "\"garbage\" is not a type of object");
        unfit("core:2 2 pu:2", "some levels have a type and others have none");
        unfit("core:2 core:2 pu:1", "it has 2 levels of Core, expected one");
        unfit("node:2 [numa] pu:1", "it has NUMA nodes both as a level and attached");
        assert_eq!(message("core:0 pu:1"), "the number of objects in \"core:0\" is 0");
        assert_eq!(message("core: pu:1"), "\"core:\" has no number of objects");
        assert_eq!(message("core:010 pu:1"), "\"core:010\" has no number of objects");
        assert_eq!(
            message("pu:2(size=3"),
            "the parentheses of \"pu:2(size=3\" do not match"
        );
        assert!(message("pu:2((size=3))").ends_with("do not match"));
        assert!(message("nod)e:2 core:2147483647 pu:56").ends_with("do not match"));
        assert!(message("node:4294967296 core:4294967296").contains("has more than 8192 CPUs, the maximum"));
        assert_eq!(
            message("core:2 [pack] pu:1"),
            "\"[pack]\" attaches \"pack\", expected numa"
        );
        assert_eq!(
            message("core:2 pu:1(size=3)"),
            "\"size=3\" of \"pu:1\": expected memory= or indexes="
        );
        assert!(message("l2:2(size=3XB) pu:1").contains("\"3XB\" has the unit \"xb\""));
        assert!(message("l2:2(size=99999999999TiB) pu:1").contains("is not a number of bytes"));
        assert!(message(&format!("{}pu:1", "group:1 ".repeat(126))).ends_with("levels"));
        assert!(message(&format!("core:8192 {}pu:1", "[numa] ".repeat(2))).ends_with("has more than 8192 NUMA nodes"));
        for (list, expected) in [
            ("0,1", "found 2 indexes for 4 objects"),
            ("0,1,2,2", "an index occurs twice"),
            ("0,1,2,9999", "\"9999\" is not a number up to 8192"),
            ("2*2:2*2", "an index occurs twice"),
            ("2*1:3*2", "an index occurs twice"),
            ("2*1", "the loops do not produce 4 indexes"),
            ("core*2", "\"core\" is not a number up to 8192"),
        ] {
            assert_eq!(
                message(&format!("core:2 pu:2(indexes={list})")),
                format!("indexes={list} of \"pu:2\": {expected}")
            );
        }
    }

    #[test]
    fn indexes_are_interleaved() {
        assert_eq!(indexes("2*4:4*1", 8), Ok(vec![0, 4, 1, 5, 2, 6, 3, 7]));
        assert_eq!(indexes("4*2:2*2:1*2", 8), Ok(vec![0, 4, 2, 6, 1, 5, 3, 7]));
        assert_eq!(indexes("0,2,1,3", 4), Ok(vec![0, 2, 1, 3]));
        let by_cpu = cpus("core:2 pu:2(indexes=2*2)");
        assert_eq!(by_cpu, [(0, 0, 0), (1, 1, 0), (2, 0, 0), (3, 1, 0)]);
    }

    #[test]
    fn a_cpu_belongs_to_its_most_local_node() {
        let nodes = |text: &str| cpus(text).into_iter().map(|(_, _, node)| node).collect::<Vec<_>>();
        assert_eq!(nodes("[numa] pack:2 [numa] pu:2"), [0, 0, 1, 1]);
        assert_eq!(nodes("pack:2 [numa(indexes=1,0)] pu:2"), [1, 1, 0, 0]);
        assert_eq!(nodes("pack:2 [numa] [numa] pu:2"), [0, 0, 1, 1]);
        assert_eq!(nodes("node:2(indexes=5,3) pu:1"), [1, 0]);
    }
}
