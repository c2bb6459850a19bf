// SPDX-License-Identifier: GPL-2.0-only
//! The machine as Linux describes it in /sys: CPUs, caches, nodes and frequencies.

use crate::{Cpu, MachineSpec};
use input::cpu_list;

/// Full frequency of the fastest CPU, kHz. Machine files have no frequencies, only capacities. This
/// is the frequency of the cost table's reference.
const FULL_KHZ: u64 = 3_000_000;
/// Size of an instruction cache, bytes. Machine files have none.
const L1I_BYTES: u64 = 32 << 10;
/// The directory above all files that describe the machine.
pub const DIR: &str = "/sys/devices/system";

/// Returns the files of /sys that describe the machine while the CPUs `online` are online: their
/// absolute paths below [`DIR`] and their contents. An offline CPU has no topology, no caches and no
/// frequencies, and no other CPU shares anything with it.
pub fn files(spec: &MachineSpec, online: &[u32]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let all = range(spec.topology.cpus.len());
    for name in ["possible", "present"] {
        files.push((format!("{DIR}/cpu/{name}"), all.clone()));
    }
    files.push((format!("{DIR}/cpu/online"), list(online)));
    let mut is_online = vec![false; spec.topology.cpus.len()];
    online.iter().for_each(|&cpu| is_online[cpu as usize] = true);
    let offline = (0..).zip(&is_online).filter(|cpu| !cpu.1).map(|cpu| cpu.0);
    files.push((format!("{DIR}/cpu/offline"), list(&offline.collect::<Vec<u32>>())));
    let online = is_online.as_slice();
    let last = spec.topology.cpus.len().saturating_sub(1);
    files.push((format!("{DIR}/cpu/kernel_max"), format!("{last}\n")));
    let smt = spec.topology.cores.iter().any(|core| core.len() > 1);
    files.push((format!("{DIR}/cpu/smt/active"), format!("{}\n", u8::from(smt))));
    let control = if smt { "on" } else { "notsupported" };
    files.push((format!("{DIR}/cpu/smt/control"), format!("{control}\n")));
    for (cpu, known) in (0..).zip(&spec.topology.cpus) {
        let dir = format!("{DIR}/cpu/cpu{cpu}");
        let is_online = online[cpu as usize];
        files.push((format!("{dir}/online"), format!("{}\n", u8::from(is_online))));
        let node = list(&among(spec.topology.node_cpus(cpu), online));
        files.push((format!("{dir}/node{}/cpulist", known.node), node));
        if is_online {
            topology(spec, &dir, cpu, known, online, &mut files);
            caches(spec, &dir, cpu, known, online, &mut files);
            frequency(spec, &dir, cpu, known, &mut files);
        }
    }
    nodes(spec, online, &mut files);
    files
}

/// Returns those of the CPUs that are online.
fn among(cpus: &[u32], online: &[bool]) -> Vec<u32> {
    cpus.iter().copied().filter(|&cpu| online[cpu as usize]).collect()
}

fn range(count: usize) -> String {
    match count {
        0 | 1 => "0\n".into(),
        count => format!("0-{}\n", count - 1),
    }
}

fn list(cpus: &[u32]) -> String {
    format!("{}\n", cpu_list::format(cpus))
}

/// Returns a set of CPUs as a hexadecimal mask of 32-bit words, the highest first.
fn mask(cpus: &[u32], nr_cpus: usize) -> String {
    let mut words = vec![0u32; nr_cpus.div_ceil(32)];
    for &cpu in cpus {
        words[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    format!("{}\n", words.join(","))
}

fn topology(spec: &MachineSpec, dir: &str, cpu: u32, known: &Cpu, online: &[bool], files: &mut Vec<(String, String)>) {
    let topology = &spec.topology;
    let nr_cpus = topology.cpus.len();
    let core = &among(topology.siblings(cpu), online);
    let package = &among(topology.package_cpus(cpu), online);
    let values = [
        ("core_id", format!("{}\n", known.core)),
        ("physical_package_id", format!("{}\n", known.package)),
        ("cluster_id", format!("{}\n", known.core)),
        ("die_id", "0\n".into()),
        ("thread_siblings_list", list(core)),
        ("thread_siblings", mask(core, nr_cpus)),
        ("core_cpus_list", list(core)),
        ("core_siblings_list", list(package)),
        ("core_siblings", mask(package, nr_cpus)),
        ("package_cpus_list", list(package)),
    ];
    files.extend(values.map(|(name, value)| (format!("{dir}/topology/{name}"), value)));
}

fn caches(spec: &MachineSpec, dir: &str, cpu: u32, known: &Cpu, online: &[bool], files: &mut Vec<(String, String)>) {
    let topology = &spec.topology;
    let core = topology.siblings(cpu);
    let rows = [
        ("1", "Data", known.l1d_bytes, known.core, core),
        ("1", "Instruction", L1I_BYTES, known.core, core),
        ("2", "Unified", known.l2_bytes, known.core, core),
        ("3", "Unified", known.llc_bytes, known.llc, topology.llc_cpus(cpu)),
    ];
    // Programs read the caches of level 2 and 3 as index2 and index3.
    for (index, (level, kind, bytes, id, cpus)) in rows.into_iter().enumerate() {
        if bytes == 0 {
            continue;
        }
        let cpus = &among(cpus, online);
        let values = [
            ("level", format!("{level}\n")),
            ("type", format!("{kind}\n")),
            ("size", format!("{}K\n", bytes >> 10)),
            ("id", format!("{id}\n")),
            ("coherency_line_size", "64\n".into()),
            ("shared_cpu_list", list(cpus)),
            ("shared_cpu_map", mask(cpus, topology.cpus.len())),
        ];
        files.extend(values.map(|(name, value)| (format!("{dir}/cache/index{index}/{name}"), value)));
    }
}

fn frequency(spec: &MachineSpec, dir: &str, cpu: u32, known: &Cpu, files: &mut Vec<(String, String)>) {
    let highest = FULL_KHZ * u64::from(spec.speed(cpu)) / 1024;
    let lowest = highest * u64::from(spec.cpuperf_min) / 1024;
    let values = [
        ("cpuinfo_max_freq", highest),
        ("cpuinfo_min_freq", lowest),
        ("scaling_max_freq", highest),
        ("scaling_min_freq", lowest),
        ("scaling_cur_freq", highest),
        ("base_frequency", highest),
        ("cpuinfo_transition_latency", spec.frequency.transition_ns),
    ];
    files.extend(values.map(|(name, value)| (format!("{dir}/cpufreq/{name}"), format!("{value}\n"))));
    let governor = match spec.frequency.governor {
        crate::FrequencyGovernor::Performance => "performance",
        _ => "schedutil",
    };
    files.push((format!("{dir}/cpufreq/scaling_governor"), format!("{governor}\n")));
    // Linux has this file only if capacities differ.
    if spec.topology.cpus.iter().any(|cpu| cpu.capacity != 1024) {
        files.push((format!("{dir}/cpu_capacity"), format!("{}\n", known.capacity)));
    }
}

fn nodes(spec: &MachineSpec, online: &[bool], files: &mut Vec<(String, String)>) {
    let topology = &spec.topology;
    let all = range(topology.nodes.len());
    for name in ["online", "possible", "has_cpu", "has_memory"] {
        files.push((format!("{DIR}/node/{name}"), all.clone()));
    }
    for (node, cpus) in topology.nodes.iter().enumerate() {
        let dir = format!("{DIR}/node/node{node}");
        let cpus = &among(cpus, online);
        files.push((format!("{dir}/cpulist"), list(cpus)));
        files.push((format!("{dir}/cpumap"), mask(cpus, topology.cpus.len())));
        let distances: Vec<String> = topology.node_distances[node].iter().map(u32::to_string).collect();
        files.push((format!("{dir}/distance"), format!("{}\n", distances.join(" "))));
        for cpu in cpus {
            files.push((format!("{dir}/cpu{cpu}/online"), "1\n".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of a file while the CPUs `offline` are offline.
    fn file_without(offline: &[u32], machine: &str, path: &str) -> Option<String> {
        let spec = crate::load(machine, &[]).expect("the machine exists");
        let all = 0..spec.topology.cpus.len() as u32;
        let online: Vec<u32> = all.filter(|cpu| !offline.contains(cpu)).collect();
        let found = files(&spec, &online).into_iter().find(|(name, _)| name == path);
        found.map(|(_, text)| text)
    }

    fn file(machine: &str, path: &str) -> Option<String> {
        file_without(&[], machine, path)
    }

    #[test]
    fn offline_cpus_share_nothing() {
        let read = |path: &str| file_without(&[1, 6], "pack:2 [numa] core:2 pu:2", &format!("{DIR}/{path}"));
        assert_eq!(read("cpu/online").as_deref(), Some("0,2-5,7\n"));
        assert_eq!(read("cpu/offline").as_deref(), Some("1,6\n"));
        assert_eq!(read("cpu/possible").as_deref(), Some("0-7\n"));
        assert_eq!(read("cpu/cpu6/online").as_deref(), Some("0\n"));
        assert_eq!(read("cpu/cpu6/topology/core_id"), None);
        assert_eq!(read("cpu/cpu7/topology/core_cpus_list").as_deref(), Some("7\n"));
        assert_eq!(read("node/node1/cpulist").as_deref(), Some("4-5,7\n"));
    }

    #[test]
    fn the_files_describe_the_topology() {
        let machine = "pack:2 core:2 pu:2";
        let read = |path: &str| file(machine, &format!("/sys/devices/system/{path}")).unwrap_or_default();
        assert_eq!(read("cpu/online"), "0-7\n");
        assert_eq!(read("cpu/smt/active"), "1\n");
        assert_eq!(read("cpu/cpu5/topology/physical_package_id"), "1\n");
        let spec = crate::load(machine, &[]).expect("the machine exists");
        let siblings = format!("{}\n", cpu_list::format(spec.topology.siblings(5)));
        assert_eq!(read("cpu/cpu5/topology/thread_siblings_list"), siblings);
        assert_eq!(
            file(machine, "/sys/devices/system/cpu/cpu5/cpu_capacity"),
            None,
            "all CPUs are equal"
        );
    }

    #[test]
    fn a_mask_has_the_highest_word_first() {
        assert_eq!(mask(&[0, 33], 64), "00000002,00000001\n");
    }
}
