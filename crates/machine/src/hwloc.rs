// SPDX-License-Identifier: GPL-2.0-only
//! hwloc's view of a machine turned into ours: from an XML file, a synthetic string or the host.
//!
//! CPU ids are dense, in the order of hwloc's OS indexes; CPUs that are offline in an XML file do
//! not exist here. The last-level cache of a CPU is the highest cache above it; a CPU without
//! one beyond its L1 shares its package (within its node). I/O devices and memory-only nodes
//! have no effect on scheduling and are left out.

use crate::MAX_CPUS;
use crate::error::Error;
use crate::topology::{Cpu, Topology};
use crate::{synthetic, xml};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use hwlocality::topology::export::xml::XMLExportFlags;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A topology and what was left out of it or assumed, a sentence each.
pub(crate) struct Found {
    pub topology: Topology,
    pub notes: Vec<String>,
    /// The processor's name, where hwloc knows it.
    pub model: Option<String>,
}

/// Reads hwloc XML; `place` is the file's name in messages.
pub(crate) fn from_xml(place: &str, text: &str) -> Result<Found, Error> {
    // A carriage return ends a line of XML, but hwloc's reader stops at one and loses the attributes behind it.
    let text = &text.replace("\r\n", "\n").replace('\r', "\n");
    xml::check(place, text)?;
    let unfit = || {
        Error::new(place, "hwloc does not accept this as a topology").hint(format!("see what `lstopo -i {place}` says"))
    };
    read(place, unfit, |builder| builder.from_xml(text).ok())
}

/// Reads an hwloc synthetic string.
pub(crate) fn from_synthetic(place: &str, text: &str) -> Result<Found, Error> {
    synthetic::check(place, text)?;
    let unfit = || Error::new(place, format!("{text:?} is not an hwloc synthetic machine")).hint(synthetic::HINT);
    read(place, unfit, |builder| builder.from_synthetic(text).ok())
}

/// The machine this process runs on.
pub(crate) fn from_host() -> Result<Found, Error> {
    let unfit = || Error::new("host", "hwloc cannot find out this machine's topology");
    read("host", unfit, Some)
}

/// This machine's topology as hwloc XML, without what names it (host, kernel) rather than describes it.
pub(crate) fn host_xml() -> Result<String, Error> {
    let unfit = || Error::new("host", "hwloc cannot write this machine's topology");
    let hwloc = Hwloc::builder()
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|_| unfit())?
        .build()
        .map_err(|_| unfit())?;
    let xml = hwloc.export_xml(XMLExportFlags::empty()).map_err(|_| unfit())?;
    let about_the_machine = |line: &&str| !line.trim_start().starts_with("<info ") || line.contains("\"CPU");
    let lines: Vec<&str> = xml.lines().filter(about_the_machine).collect();
    Ok(lines.join("\n") + "\n")
}

fn read(
    place: &str,
    unfit: impl Fn() -> Error,
    source: impl FnOnce(TopologyBuilder) -> Option<TopologyBuilder>,
) -> Result<Found, Error> {
    // The binding asserts what it expects hwloc to guarantee; input can break that promise.
    catch_unwind(AssertUnwindSafe(|| {
        let builder = Hwloc::builder()
            .with_flags(BuildFlags::INCLUDE_DISALLOWED)
            .map_err(|_| unfit())?;
        let hwloc = source(builder).ok_or_else(&unfit)?.build().map_err(|_| unfit())?;
        convert(place, &hwloc)
    }))
    .unwrap_or_else(|_| Err(unfit()))
}

fn convert(place: &str, hwloc: &Hwloc) -> Result<Found, Error> {
    let mut pus: Vec<(u32, &TopologyObject)> = hwloc
        .objects_with_type(ObjectType::PU)
        .filter_map(|pu| Some((u32::try_from(pu.os_index()?).ok()?, pu)))
        .collect();
    pus.sort_by_key(|&(os_index, _)| os_index);
    pus.dedup_by_key(|&mut (os_index, _)| os_index);
    if pus.is_empty() {
        return Err(Error::new(place, "this topology has no CPU").hint(synthetic::HINT));
    }
    if pus.len() > MAX_CPUS as usize {
        return Err(Error::new(
            place,
            format!("{} CPUs are more than the {MAX_CPUS} supported", pus.len()),
        ));
    }
    let mut notes = Vec::new();
    let cpu_of: BTreeMap<u32, usize> = pus
        .iter()
        .enumerate()
        .map(|(cpu, &(os_index, _))| (os_index, cpu))
        .collect();
    let missing = hwloc.complete_cpuset().weight().unwrap_or(0).saturating_sub(pus.len());
    if missing > 0 {
        notes.push(format!("{missing} offline CPUs left out; CPU ids are dense"));
    }

    let node_os = nodes_of_cpus(hwloc, &cpu_of);
    let capacities = capacities(hwloc, &cpu_of, &mut notes);

    // Identify what contains each CPU by hwloc's persistent index, then number densely.
    let mut raw: Vec<Containers> = Vec::with_capacity(pus.len());
    for (cpu, &(os_index, pu)) in pus.iter().enumerate() {
        let mut found = Containers {
            capacity: capacities[cpu],
            ..Containers::default()
        };
        let mut llc_level = 1;
        for ancestor in pu.ancestors() {
            let id = ancestor.global_persistent_index();
            let bytes = cache_bytes(ancestor);
            match ancestor.object_type() {
                ObjectType::Core => found.core = Some(id),
                ObjectType::Package => found.package = Some(id),
                ObjectType::L1Cache => found.l1d_bytes = bytes,
                t => {
                    let level = match t {
                        ObjectType::L2Cache => 2,
                        ObjectType::L3Cache => 3,
                        ObjectType::L4Cache => 4,
                        ObjectType::L5Cache => 5,
                        _ => continue,
                    };
                    if level == 2 {
                        found.l2_bytes = bytes;
                    }
                    if level > llc_level {
                        llc_level = level;
                        found.llc = Some(id);
                        found.llc_bytes = bytes;
                    }
                }
            }
        }
        found.os_index = os_index;
        found.node = node_os[cpu];
        raw.push(found);
    }
    let topology = number(&raw, hwloc, &mut notes);
    if let Some(problem) = topology.not_nested() {
        return Err(
            Error::new(place, problem).hint("the CPU sets of cores, caches and NUMA nodes lie inside each other")
        );
    }
    let model = hwloc
        .objects_with_type(ObjectType::Package)
        .find_map(|p| p.info("CPUModel"))
        .map(|m| m.to_string_lossy().split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(Found { topology, notes, model })
}

/// What one CPU is in, before dense numbering.
#[derive(Default)]
struct Containers {
    os_index: u32,
    core: Option<u64>,
    llc: Option<u64>,
    /// OS index of its NUMA node.
    node: Option<u32>,
    package: Option<u64>,
    capacity: u32,
    l1d_bytes: u64,
    l2_bytes: u64,
    llc_bytes: u64,
}

fn cache_bytes(object: &TopologyObject) -> u64 {
    match object.attributes() {
        Some(hwlocality::object::attributes::ObjectAttributes::Cache(cache)) => cache.size().map_or(0, u64::from),
        _ => 0,
    }
}

/// Dense ids in the order of each thing's first CPU; nodes in the order of their OS indexes.
fn number(raw: &[Containers], hwloc: &Hwloc, notes: &mut Vec<String>) -> Topology {
    fn dense<K: Ord>(ids: &mut BTreeMap<K, u32>, key: K) -> u32 {
        let next = ids.len() as u32;
        *ids.entry(key).or_insert(next)
    }
    // A CPU whose node has no memory shows no node: its package then stands for its node.
    let node_key = |c: &Containers| match c.node {
        Some(os_index) => (0, u64::from(os_index)),
        None => (1, c.package.unwrap_or(0)),
    };
    let mut node_ids: BTreeMap<(u8, u64), u32> = raw.iter().map(|c| (node_key(c), 0)).collect();
    for (dense_id, id) in node_ids.values_mut().enumerate() {
        *id = dense_id as u32;
    }
    if node_ids.keys().any(|&(kind, _)| kind == 1) {
        notes.push("CPUs without a NUMA node of their own: their package stands for it".into());
    }
    let (mut cores, mut llcs, mut packages) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut cpus = Vec::with_capacity(raw.len());
    for c in raw {
        let node = node_ids[&node_key(c)];
        // Without packages in the description, nodes are the sockets.
        let package_key = c.package.map_or((1, u64::from(node)), |id| (0, id));
        let package = dense(&mut packages, package_key);
        let core = dense(&mut cores, c.core.map_or((1, u64::from(c.os_index)), |id| (0, id)));
        let llc_key = match c.llc {
            Some(id) => (0, id, 0),
            None => (1, u64::from(package), node),
        };
        let thread = threads.entry(core).or_insert(0);
        cpus.push(Cpu {
            core,
            thread: *thread,
            llc: dense(&mut llcs, llc_key),
            node,
            package,
            capacity: c.capacity,
            l1d_bytes: c.l1d_bytes,
            l2_bytes: c.l2_bytes,
            llc_bytes: c.llc_bytes,
        });
        *thread += 1;
    }
    Topology::new(cpus, node_distances(hwloc, &node_ids))
}

/// The NUMA node (OS index) of each CPU: the most local one that covers it, the lowest of equals
/// (beside a socket's DRAM there may be high-bandwidth memory, which Linux gives no CPUs).
fn nodes_of_cpus(hwloc: &Hwloc, cpu_of: &BTreeMap<u32, usize>) -> Vec<Option<u32>> {
    let mut best: Vec<Option<(usize, u32)>> = vec![None; cpu_of.len()];
    for node in hwloc.objects_with_type(ObjectType::NUMANode) {
        let Some(os_index) = node.os_index().and_then(|i| u32::try_from(i).ok()) else {
            continue;
        };
        let Some(cpuset) = node.cpuset() else {
            continue;
        };
        let Some(weight) = cpuset.weight() else {
            continue;
        };
        for index in cpuset.iter_set() {
            if let Some(&cpu) = cpu_of.get(&(usize::from(index) as u32)) {
                let candidate = (weight, os_index);
                best[cpu] = Some(best[cpu].map_or(candidate, |b| b.min(candidate)));
            }
        }
    }
    best.into_iter().map(|b| b.map(|(_, os_index)| os_index)).collect()
}

/// Distances between the kept nodes; empty where hwloc has none or not for all of them.
fn node_distances(hwloc: &Hwloc, node_ids: &BTreeMap<(u8, u64), u32>) -> Vec<Vec<u32>> {
    let n = node_ids.len();
    let Ok(matrices) = hwloc.distances_with_type(None, ObjectType::NUMANode) else {
        return Vec::new();
    };
    for matrix in matrices {
        // "NUMALatency" is the SLIT; bandwidth matrices grow the other way.
        if matrix.name().is_some_and(|name| name.to_bytes() != b"NUMALatency") {
            continue;
        }
        let objects: Vec<Option<u32>> = matrix
            .objects()
            .map(|o| {
                o.and_then(|o| o.os_index())
                    .and_then(|i| node_ids.get(&(0, i as u64)))
                    .copied()
            })
            .collect();
        let values = matrix.distances();
        let mut out = vec![vec![0u32; n]; n];
        for (i, from) in objects.iter().enumerate() {
            for (j, to) in objects.iter().enumerate() {
                if let (Some(from), Some(to)) = (from, to) {
                    out[*from as usize][*to as usize] =
                        u32::try_from(values[i * objects.len() + j]).unwrap_or(u32::MAX);
                }
            }
        }
        // As Linux does with an ACPI SLIT: 10 is the distance to itself, and no other is as near.
        let valid = |i: usize, j: usize| (out[i][j] == 10) == (i == j) && out[i][j] >= 10;
        if (0..n).all(|i| (0..n).all(|j| valid(i, j))) {
            return out;
        }
    }
    Vec::new()
}

/// Capacity of each CPU, 1024 = the fastest kind, from hwloc's CPU kinds.
///
/// ARM kernels export the capacity. Intel's hybrid parts have a core type and frequencies only;
/// their E cores do about 3/4 of a P core's work per cycle. Kinds that merely differ in turbo
/// frequency are equal to Linux and to us.
fn capacities(hwloc: &Hwloc, cpu_of: &BTreeMap<u32, usize>, notes: &mut Vec<String>) -> Vec<u32> {
    let mut weight: Vec<u64> = vec![0; cpu_of.len()];
    let (mut exported, mut hybrid) = (false, false);
    if let Ok(kinds) = hwloc.cpu_kinds() {
        for kind in kinds {
            let info = |name: &str| {
                kind.infos
                    .iter()
                    .find(|i| i.name().to_bytes() == name.as_bytes())
                    .map(|i| i.value().to_string_lossy().into_owned())
            };
            let number = |name: &str| info(name).and_then(|v| v.parse::<u64>().ok());
            let w = if let Some(capacity) = number("LinuxCapacity") {
                exported = true;
                capacity.clamp(1, 1 << 20)
            } else if let Some(core_type) = info("CoreType") {
                hybrid = true;
                let mhz = number("FrequencyMaxMHz").unwrap_or(1_000).clamp(1, 1 << 20);
                if core_type == "IntelAtom" { mhz * 3 / 4 } else { mhz }
            } else {
                continue;
            };
            if kind.cpuset.weight().is_none() {
                continue;
            }
            for index in kind.cpuset.iter_set() {
                if let Some(&cpu) = cpu_of.get(&(usize::from(index) as u32)) {
                    weight[cpu] = w;
                }
            }
        }
    }
    let max = weight.iter().copied().max().unwrap_or(0);
    if max == 0 || exported && hybrid || weight.contains(&0) {
        return vec![1024; cpu_of.len()];
    }
    let capacities: Vec<u32> = weight
        .iter()
        .map(|&w| ((w * 1024 / max) as u32).clamp(1, 1024))
        .collect();
    if hybrid && capacities.iter().any(|&c| c < 1024) {
        notes.push(
            "capacities estimated from core type and top frequency (an E core does 3/4 of a P \
             core's work per cycle)"
                .into(),
        );
    }
    capacities
}
