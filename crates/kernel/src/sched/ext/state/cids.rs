// SPDX-License-Identifier: GPL-2.0-only
//! The mapping between CPU numbers and cids. A cid is a topological CPU number: the CPUs of a core,
//! of an LLC and of a node have consecutive cids. A policy can use cids instead of CPU numbers.

use crate::layout::enums::SCX_CID_SHARD_MAX_CPUS;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;
use bpf::errno::EINVAL;
use machine::Topology;

/// Position of a cid in the topology (struct scx_cid_topo). The array has two values for each of
/// the units core, LLC and node, in this order: the first cid of the unit, and the index of the
/// unit. Unknown values are -1.
pub(crate) type TopoPosition = [i32; 6];

/// The mapping between CPU numbers and cids.
#[derive(Debug)]
pub(crate) struct Cids {
    pub(crate) to_cpu: Vec<CpuId>,
    pub(crate) to_cid: Table<CpuId, u32>,
    pub(crate) positions: Vec<TopoPosition>,
    /// Whether the policy uses cids instead of CPU numbers (struct sched_ext_ops_cid).
    pub(crate) uses_cids: bool,
    /// For each CPU, two addresses of the mask that ops.set_cmask() receives. The first is a
    /// pointer into the policy's arena, which is passed to the policy. The second is the address of
    /// the same memory in the region, which is all memory that BPF programs can access.
    pub(crate) scratch: Vec<(u64, u64)>,
    /// The two addresses of the mask of online CPUs in the policy's arena (Linux 7.3).
    pub(crate) online: Option<(u64, u64)>,
    /// Shards: ranges of cids that are changed together (Linux 7.3).
    pub(crate) shards: Vec<std::ops::Range<u32>>,
}

impl Cids {
    /// Creates the default mapping (scx_cid_init). Online CPUs are ordered by node, then by LLC,
    /// then by core. Units of the same kind are ordered by their first CPUs. Offline CPUs get the
    /// last cids and have no position in the topology.
    pub fn new(topology: &Topology, online: &CpuSet) -> Cids {
        let nr_cpus = topology.nr_cpus();
        let mut cids = Cids {
            to_cpu: Vec::with_capacity(nr_cpus as usize),
            to_cid: vec![0; nr_cpus as usize].into(),
            positions: Vec::with_capacity(nr_cpus as usize),
            uses_cids: false,
            scratch: Vec::new(),
            online: None,
            shards: Vec::new(),
        };
        // The first CPU of each node, LLC and core. If an LLC contains several nodes, each of these
        // nodes has no other LLC, so their order does not depend on the first CPU of the LLC.
        let units = |cpu: CpuId| {
            let info = &topology.cpus[cpu.index()];
            [info.node, info.llc, info.core].map(|unit| unit as usize)
        };
        let mut firsts = [&topology.nodes, &topology.llcs, &topology.cores].map(|units| vec![None; units.len()]);
        for cpu in online.iter() {
            for (firsts, unit) in firsts.iter_mut().zip(units(cpu)) {
                firsts[unit].get_or_insert(cpu);
            }
        }
        let first_cpus = |cpu: CpuId| {
            let [node, llc, core] = units(cpu);
            [firsts[0][node], firsts[1][llc], firsts[2][core]]
        };
        let mut walk: Vec<([Option<CpuId>; 3], CpuId)> = online.iter().map(|cpu| (first_cpus(cpu), cpu)).collect();
        walk.sort_unstable();
        // Index of the current core, LLC and node, and the first cid of each.
        let (mut indexes, mut first_cids) = ([-1; 3], [0; 3]);
        let mut before: Option<[Option<CpuId>; 3]> = None;
        for (firsts, cpu) in walk {
            // A new node begins with a new LLC, and a new LLC with a new core.
            let same = before.map_or(0, |before| {
                before.iter().zip(&firsts).take_while(|(a, b)| a == b).count()
            });
            for unit in 0..3 - same {
                indexes[unit] += 1;
                first_cids[unit] = cids.to_cpu.len() as i32;
            }
            before = Some(firsts);
            let [core, llc, node] = indexes;
            let [core_cid, llc_cid, node_cid] = first_cids;
            cids.push(cpu, [core_cid, core, llc_cid, llc, node_cid, node]);
        }
        for cpu in CpuSet::all(nr_cpus).iter().filter(|&cpu| !online.contains(cpu)) {
            cids.push(cpu, [-1; 6]);
        }
        cids
    }

    pub(crate) fn push(&mut self, cpu: CpuId, position: TopoPosition) {
        self.to_cid[cpu] = self.to_cpu.len() as u32;
        self.to_cpu.push(cpu);
        self.positions.push(position);
    }

    pub(crate) fn to_cpu(&self, cid: u32) -> CpuId {
        self.to_cpu[cid as usize]
    }

    pub(crate) fn to_cid(&self, cpu: CpuId) -> u32 {
        self.to_cid[cpu]
    }

    pub fn place(&self, cid: u32) -> TopoPosition {
        self.positions[cid as usize]
    }

    /// Replaces the mapping (scx_bpf_cid_override). `cid_of` contains the cid of each CPU and must
    /// be a permutation. The positions in the topology are unknown afterwards.
    pub fn replace(&mut self, cid_of: &[u32]) {
        self.to_cid.copy_from_slice(cid_of);
        for (cpu, &cid) in self.to_cid.numbered() {
            self.to_cpu[cid as usize] = cpu;
        }
        self.positions.fill([-1; 6]);
    }

    /// Divides the cids into shards of at most about `size` cids (scx_cid_init of Linux 7.3). A shard
    /// contains whole cores of one LLC. The cores of an LLC are spread evenly.
    pub(crate) fn divide_into_shards(&mut self, size: u32) {
        let max = size.min(SCX_CID_SHARD_MAX_CPUS as u32);
        let llc_of = |position: &TopoPosition| position[3];
        let mut shards = Vec::new();
        let mut first = 0;
        for unit in self.positions.chunk_by(|a, b| llc_of(a) == llc_of(b)) {
            let nr_cpus = unit.len() as u32;
            let cores = unit.chunk_by(|a, b| a[1] == b[1]);
            if llc_of(&unit[0]) < 0 {
                // CPUs without a position fill shards one by one.
                let ends = first + nr_cpus;
                shards.extend((first..ends).step_by(max as usize).map(|at| at..(at + max).min(ends)));
                first = ends;
                continue;
            }
            let nr_shards = nr_cpus
                .div_ceil(size)
                .max(nr_cpus.div_ceil(SCX_CID_SHARD_MAX_CPUS as u32))
                .max(1);
            let nr_cores = cores.clone().count() as u32;
            let (per_shard, nr_large) = (nr_cores / nr_shards, nr_cores % nr_shards);
            let (mut number, mut in_shard, mut at) = (0, 0, first);
            for core in cores {
                let threads = core.len() as u32;
                let most = per_shard + u32::from(number < nr_large);
                if in_shard > 0 && (in_shard >= most || at - first + threads > max) {
                    shards.push(first..at);
                    (number, in_shard, first) = (number + 1, 0, at);
                }
                in_shard += 1;
                at += threads;
            }
            shards.push(first..at);
            first = at;
        }
        self.shards = shards;
    }

    /// Sets the shards by the first cid of each.
    pub(crate) fn set_shards(&mut self, starts: &[i32]) {
        let ends = starts[1..]
            .iter()
            .map(|&start| start as u32)
            .chain([self.to_cpu.len() as u32]);
        self.shards = starts.iter().zip(ends).map(|(&start, end)| start as u32..end).collect();
    }

    /// Returns the index of the shard that contains a cid.
    pub(crate) fn shard_of(&self, cid: u32) -> usize {
        self.shards.partition_point(|shard| shard.end <= cid)
    }

    /// Returns the first cid and the index of a cid's shard.
    pub(crate) fn shard_position(&self, cid: u32) -> [i32; 2] {
        let index = self.shard_of(cid);
        [self.shards[index].start as i32, index as i32]
    }

    /// Returns whether the policy uses cids instead of CPU numbers.
    pub fn uses_cids(&self) -> bool {
        self.uses_cids
    }

    /// Returns the identifier of a CPU in calls of the policy's callbacks: its cid or its CPU
    /// number (scx_cpu_arg).
    #[inline]
    pub(crate) fn arg(&self, cpu: CpuId) -> u64 {
        u64::from(if self.uses_cids { self.to_cid(cpu) } else { cpu.nr() })
    }
}

/// Returns the number of 64-bit words that a mask of `nr_cids` cids needs if its first cid may be
/// at any bit of the first word (SCX_CMASK_NR_WORDS).
pub(crate) fn words(nr_cids: u32) -> u32 {
    nr_cids.div_ceil(64) + 1
}

/// Checks that a policy that uses cids has exactly one arena. Returns an error message otherwise.
pub(crate) fn check_arenas(arenas: usize) -> Option<String> {
    match arenas {
        1 => None,
        0 => Some(format!("cid-form scheduler must use a BPF arena map ({})", -EINVAL)),
        _ => Some(format!("cid-form scheduler uses multiple arena maps ({})", -EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::ext::state::cids::*;
    use crate::testbed::cpu_id;
    use machine::MachineSpec;

    #[test]
    fn cids_of_a_core_or_cache_are_adjacent() {
        // The machine has two nodes with two LLCs each, two cores in each LLC and two threads in
        // each core.
        let mut spec = MachineSpec::regular(2, 2, 2, 2);
        let cpus = &mut spec.topology.cpus;
        // As in the numbering by most firmware, the first threads of all cores precede all second
        // threads.
        for (number, cpu) in cpus.iter_mut().enumerate() {
            let core = number as u32 % 8;
            (cpu.core, cpu.thread, cpu.llc, cpu.node) = (core, number as u32 / 8, core / 2, core / 4);
        }
        let topology = Topology::new(cpus.clone(), Vec::new());
        let cids = Cids::new(&topology, &CpuSet::all(16));
        assert_eq!(cids.to_cpu, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
        assert_eq!((cids.to_cid(cpu_id(9)), cids.to_cid(cpu_id(12))), (3, 9));
        assert_eq!(cids.place(3), [2, 1, 0, 0, 0, 0]);
        assert_eq!(cids.place(14), [14, 7, 12, 3, 8, 1]);
        let mut online = CpuSet::all(16);
        online.remove(cpu_id(0));
        let cids = Cids::new(&topology, &online);
        assert_eq!((cids.to_cpu(0), cids.to_cpu(15)), (cpu_id(1), cpu_id(0)));
        assert_eq!(cids.place(15), [-1; 6]);
    }

    #[test]
    fn shards_contain_whole_cores_of_one_llc() {
        let shards = |spec: &MachineSpec, size| {
            let mut cids = Cids::new(&spec.topology, &CpuSet::all(spec.topology.nr_cpus()));
            cids.divide_into_shards(size);
            cids.shards
        };
        // Two LLCs with 3 cores of 2 threads.
        let spec = MachineSpec::regular(1, 2, 3, 2);
        assert_eq!(shards(&spec, 24), [0..6, 6..12]);
        assert_eq!(shards(&spec, 4), [0..4, 4..6, 6..10, 10..12]);
        assert_eq!(shards(&spec, 1), [0..2, 2..4, 4..6, 6..8, 8..10, 10..12]);
        let mut cids = Cids::new(&spec.topology, &CpuSet::all(12));
        cids.set_shards(&[0, 5]);
        assert_eq!((cids.shard_of(4), cids.shard_position(5)), (0, [5, 1]));
    }

    #[test]
    fn a_replaced_mapping_has_no_topology() {
        let spec = MachineSpec::regular(1, 1, 4, 1);
        let mut cids = Cids::new(&spec.topology, &CpuSet::all(4));
        cids.replace(&[3, 2, 1, 0]);
        assert_eq!((cids.to_cpu(0), cids.to_cid(cpu_id(0))), (cpu_id(3), 3));
        assert_eq!(cids.place(1), [-1; 6]);
        assert_eq!(
            cids.arg(cpu_id(0)),
            0,
            "a policy that does not use cids must get CPU numbers"
        );
        cids.uses_cids = true;
        assert_eq!(cids.arg(cpu_id(0)), 3);
    }
}
