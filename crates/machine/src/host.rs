// SPDX-License-Identifier: GPL-2.0-only
//! Description of the host, read from /sys and /proc.

use crate::bitmap::{Bitmap, MAX_INDEX};
use crate::parts::{CpuParts, Distances, ObjectKind, Parts};
use crate::speed::Speed;
use input::Error;
use input::cpu_list;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The host as its /sys and /proc describe it.
pub(crate) struct Host {
    pub cpus: Vec<HostCpu>,
    pub offline: Bitmap,
    /// CPUs and distances of each NUMA node, by the node's OS index.
    pub nodes: BTreeMap<u32, (Bitmap, Vec<u64>)>,
    pub model: Option<String>,
}

pub(crate) struct HostCpu {
    pub os_index: u32,
    /// The cores, caches and packages that contain the CPU, innermost first.
    pub parts: Vec<Part>,
    pub speed: Speed,
}

/// A core, cache or package, and its online CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub kind: ObjectKind,
    pub cpus: Bitmap,
    /// Size of a cache in bytes; 0 for other parts.
    pub bytes: u64,
}

/// Reads the host from the /sys and /proc below `root`.
///
/// # Errors
/// Fails if the online CPUs cannot be read.
pub(crate) fn read(root: &Path) -> Result<Host, Error> {
    let sys = SysDirectory(root.join("sys/devices/system"));
    let Some(online) = sys.cpus("cpu/online").filter(|online| !online.is_empty()) else {
        let path = sys.0.join("cpu/online").display().to_string();
        return Err(Error::at(path, "cannot read the list of online CPUs").hint("`host` needs /sys of Linux"));
    };
    let present = sys.cpus("cpu/present").unwrap_or_default();
    let cpus = online.iter().map(|cpu| host_cpu(&sys, cpu, &online)).collect();
    let mut nodes = BTreeMap::new();
    for node in sys.cpus("node/online").unwrap_or_default().iter() {
        let Some(cpus) = sys.cpus(&format!("node/node{node}/cpulist")) else {
            continue;
        };
        let distances = sys.text(&format!("node/node{node}/distance")).unwrap_or_default();
        let distances = distances
            .split_whitespace()
            .map_while(|text| text.parse().ok())
            .collect();
        nodes.insert(node, (cpus, distances));
    }
    if nodes.is_empty() {
        nodes.insert(0, (online.clone(), Vec::new()));
    }
    let cpuinfo = std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(Host {
        cpus,
        offline: present.iter().filter(|&cpu| !online.contains(cpu)).collect(),
        nodes,
        model: model.map(|(_, model)| model.trim().to_owned()),
    })
}

/// Devices below /sys/devices whose file `cpus` lists the CPUs of a core type, and hwloc's names of
/// these types. On a hybrid processor of Intel, each core type has its own performance counters.
const CORE_TYPES: [(&str, &str); 3] = [
    ("cpu_core", "IntelCore"),
    ("cpu_lowpower", "IntelLowPower"),
    ("cpu_atom", "IntelAtom"),
];

/// Largest number of caches that a CPU can use. The kernel numbers them without gaps on most
/// machines, but virtual machines can lack some.
const MAX_CACHES: u32 = 10;

/// A directory below /sys.
struct SysDirectory(PathBuf);

impl SysDirectory {
    fn text(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.parse().ok()
    }

    /// Reads a file with a list of CPUs. The list is empty for nodes that have only memory.
    fn cpus(&self, file: &str) -> Option<Bitmap> {
        let text = self.text(file)?;
        if text.is_empty() {
            return Some(Bitmap::default());
        }
        cpu_list::parse(&text, MAX_INDEX).ok().map(Bitmap::from_iter)
    }
}

fn host_cpu(sys: &SysDirectory, cpu: u32, online: &Bitmap) -> HostCpu {
    let own = format!("cpu/cpu{cpu}");
    let shared = |file: String| {
        let cpus = sys.cpus(&file)?;
        let cpus: Bitmap = cpus.iter().filter(|&cpu| online.contains(cpu)).collect();
        Some(cpus).filter(|cpus| cpus.contains(cpu))
    };
    // Linux renamed these files in 5.3: `old` is the name before, `new` the name since then.
    let topology = |old: &str, new: &str| {
        let list = |name: &str| shared(format!("{own}/topology/{name}_list"));
        list(new).or_else(|| list(old))
    };
    let mut parts = Vec::new();
    let mut part = |kind, cpus: Option<Bitmap>, bytes| {
        parts.extend(cpus.map(|cpus| Part { kind, cpus, bytes }));
    };
    part(ObjectKind::Core, topology("thread_siblings", "core_cpus"), 0);
    for n in 0..MAX_CACHES {
        let cache = format!("{own}/cache/index{n}");
        let (Some(level), Some(kind)) = (
            sys.number(&format!("{cache}/level")),
            sys.text(&format!("{cache}/type")),
        ) else {
            continue;
        };
        let level = u8::try_from(level).unwrap_or(u8::MAX);
        if kind != "Instruction" && (1..=5).contains(&level) {
            let size = sys.text(&format!("{cache}/size")).unwrap_or_default();
            let kibibytes = size.trim_end_matches('K').parse::<u64>().unwrap_or(0);
            let cpus = shared(format!("{cache}/shared_cpu_list"));
            part(ObjectKind::Cache(level), cpus, kibibytes.saturating_mul(1024));
        }
    }
    part(ObjectKind::Package, topology("core_siblings", "package_cpus"), 0);
    let belongs_to = |device: &str| {
        let cpus = SysDirectory(sys.0.join("..")).cpus(&format!("{device}/cpus"));
        cpus.is_some_and(|cpus| cpus.contains(cpu))
    };
    let core_type = CORE_TYPES.into_iter().find(|(device, _)| belongs_to(device));
    HostCpu {
        os_index: cpu,
        parts,
        speed: Speed {
            capacity: sys.number(&format!("{own}/cpu_capacity")),
            core_type: core_type.map(|(_, name)| name.to_owned()),
            max_mhz: sys
                .number(&format!("{own}/cpufreq/cpuinfo_max_freq"))
                .map(|khz| khz / 1000),
            efficiency: None,
        },
    }
}

impl Host {
    /// Converts the host into the common description of machines.
    pub(crate) fn parts(&self) -> Parts {
        let cpus: Vec<CpuParts> = self
            .cpus
            .iter()
            .map(|cpu| {
                let mut parts = CpuParts::new(cpu.os_index);
                for part in &cpu.parts {
                    parts.add(part.kind, u64::from(part.cpus.first().unwrap_or(0)), part.bytes);
                }
                let local = self.nodes.iter().filter(|(_, (cpus, _))| cpus.contains(cpu.os_index));
                parts.node = local
                    .map(|(&node, (cpus, _))| (cpus.len(), node))
                    .min()
                    .map(|(_, node)| node);
                parts.speed = cpu.speed.clone();
                parts
            })
            .collect();
        let used: BTreeSet<u32> = cpus.iter().filter_map(|cpu| cpu.node).collect();
        Parts {
            offline: self.offline.len(),
            memory_nodes: self.nodes.keys().copied().filter(|node| !used.contains(node)).collect(),
            cpus,
            distances: vec![self.distances()],
            model: self.model.clone(),
        }
    }

    /// Returns the distances between all NUMA nodes.
    pub(crate) fn distances(&self) -> Distances {
        let rows = self.nodes.values().flat_map(|(_, row)| row);
        Distances {
            nodes: self.nodes.keys().copied().collect(),
            values: rows.copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Creates a /sys with these files in the directories cpu/ and node/, and reads it.
    fn host(files: &[(&str, &str)]) -> Host {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("windtunnel-host-{}-{number}", std::process::id()));
        for (file, text) in files {
            let path = root.join("sys/devices").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let host = read(&root);
        std::fs::remove_dir_all(&root).unwrap();
        host.unwrap()
    }

    /// Returns a host with two nodes. Each has one core with two threads, and the CPU numbers
    /// interleave. CPU 4 is offline.
    fn two_nodes() -> Host {
        let mut files = vec![
            ("system/cpu/online".to_owned(), "0-3"),
            ("system/cpu/present".to_owned(), "0-4"),
            ("system/node/online".to_owned(), "0-2"),
            ("system/node/node0/cpulist".to_owned(), "0,2"),
            ("system/node/node0/distance".to_owned(), "10 17 28"),
            ("system/node/node1/cpulist".to_owned(), "1,3"),
            ("system/node/node1/distance".to_owned(), "17 10 28"),
            ("system/node/node2/cpulist".to_owned(), ""),
            ("system/node/node2/distance".to_owned(), "28 28 10"),
        ];
        for cpu in 0..4 {
            let siblings = if cpu % 2 == 0 { "0,2,4" } else { "1,3" };
            for (file, text) in [
                ("topology/core_cpus_list", siblings),
                ("topology/core_siblings_list", siblings),
                ("cache/index0/level", "1"),
                ("cache/index0/type", "Data"),
                ("cache/index0/size", "48K"),
                ("cache/index0/shared_cpu_list", siblings),
                ("cache/index1/level", "1"),
                ("cache/index1/type", "Instruction"),
                ("cache/index1/size", "64K"),
                ("cache/index1/shared_cpu_list", siblings),
                ("cache/index2/level", "3"),
                ("cache/index2/type", "Unified"),
                ("cache/index2/size", "8192K"),
                ("cache/index2/shared_cpu_list", siblings),
            ] {
                files.push((format!("system/cpu/cpu{cpu}/{file}"), text));
            }
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        host(&files)
    }

    fn topology(host: &Host) -> Topology {
        host.parts().number("host").unwrap().topology
    }

    #[test]
    fn parts_are_read_from_sys() {
        let host = two_nodes();
        let found = host.parts().number("host").unwrap();
        let t = found.topology;
        assert_eq!(
            found.notes,
            [
                "1 CPU is ignored, because it is offline or disallowed; the others are renumbered",
                "no CPU belongs to NUMA node 2, so its memory is not modelled",
            ]
        );
        assert_eq!(t.cores, [[0, 2], [1, 3]]);
        assert_eq!((&t.llcs, &t.nodes, &t.packages), (&t.cores, &t.cores, &t.cores));
        assert_eq!(t.node_distances, [[10, 17], [17, 10]]);
        assert_eq!(
            (t.cpus[0].l1d_bytes, t.cpus[0].l2_bytes, t.cpus[0].llc_bytes),
            (48 << 10, 0, 8 << 20)
        );
    }

    #[test]
    fn the_xml_of_a_host_describes_the_same_topology() {
        let hybrid = hybrid();
        for host in [two_nodes(), hybrid] {
            let xml = host.xml();
            let again = crate::xml::parse("host", &xml).and_then(|parts| parts.number("host"));
            let again = again.unwrap_or_else(|error| panic!("{error}\n{xml}")).topology;
            let own = topology(&host);
            assert_eq!(
                (again.cpus, again.node_distances),
                (own.cpus, own.node_distances),
                "{xml}"
            );
        }
    }

    /// Returns a host with two performance cores, an efficiency core, a low-power core and no caches.
    /// The performance cores have different frequencies. The kernel exports a capacity of 1024 for
    /// all CPUs, as if the machine had SMT.
    fn hybrid() -> Host {
        host(&[
            ("system/cpu/online", "0-3"),
            ("cpu_core/cpus", "0-1"),
            ("cpu_atom/cpus", "2"),
            ("cpu_lowpower/cpus", "3"),
            ("system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "5000000"),
            ("system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "5200000"),
            ("system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "3900000"),
            ("system/cpu/cpu3/cpufreq/cpuinfo_max_freq", "2600000"),
            ("system/cpu/cpu0/cpu_capacity", "1024"),
            ("system/cpu/cpu1/cpu_capacity", "1024"),
            ("system/cpu/cpu2/cpu_capacity", "1024"),
            ("system/cpu/cpu3/cpu_capacity", "1024"),
        ])
    }

    #[test]
    fn hybrid_parts_have_capacities() {
        let t = topology(&hybrid());
        assert_eq!(
            t.cpus.iter().map(|cpu| cpu.capacity).collect::<Vec<_>>(),
            [1024, 1024, 576, 384]
        );
        assert_eq!((t.cores.len(), t.llcs.len(), t.nodes.len()), (4, 1, 1));
    }

    #[test]
    fn a_directory_without_sys_is_an_error() {
        let error = read(Path::new("/nowhere")).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.starts_with("/nowhere/sys/devices/system/cpu/online: cannot read"),
            "{error}"
        );
    }
}
