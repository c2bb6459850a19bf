// SPDX-License-Identifier: GPL-2.0-only
//! The masks of idle CPUs: one pair for the whole machine and one pair for each node. BPF programs
//! can read the memory that contains them.

use crate::layout::{MASK_BYTES, Mask, object};
use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use bpf::error::Error;
use bpf::memory::{Region, Slab};
use machine::Topology;

/// Idle CPUs of a node or of the machine. `cpu` contains all idle CPUs, `smt` only those whose
/// cores are fully idle.
#[derive(Clone, Copy)]
pub(crate) struct Masks {
    pub(crate) cpu: Mask,
    pub(crate) smt: Mask,
}

/// Idle tracking state of a machine.
pub struct Idle {
    /// Whether built-in idle tracking is on.
    pub(crate) enabled: bool,
    /// Whether each node has its own masks (SCX_OPS_BUILTIN_IDLE_PER_NODE).
    pub(crate) per_node: bool,
    /// Whether searches prefer CPUs in the same LLC (scx_selcpu_topo_llc).
    pub(crate) topo_llc: bool,
    /// Whether searches prefer CPUs in the same node (scx_selcpu_topo_numa).
    pub(crate) topo_numa: bool,
    /// Whether an online core has more than one thread (sched_smt_active).
    pub(crate) smt_active: bool,
    /// The global masks, followed by the masks of each node.
    pub(crate) masks: Vec<Masks>,
    /// Online CPUs of each core.
    pub(crate) cores: Vec<Mask>,
    /// Online CPUs of each LLC.
    pub(crate) llcs: Vec<Mask>,
    /// Online CPUs of each node.
    pub(crate) nodes: Vec<Mask>,
    /// For each node, all other nodes in order of increasing distance.
    pub(crate) near: Vec<Vec<u32>>,
}

/// The intersection of up to three masks.
#[derive(Clone, Copy)]
pub(crate) struct Domain {
    pub(crate) masks: [Mask; 3],
}

impl Domain {
    pub(crate) fn new(mask: Mask) -> Domain {
        Domain { masks: [mask; 3] }
    }

    pub(crate) fn and(self, mask: Mask) -> Domain {
        Domain {
            masks: [self.masks[0], self.masks[1], mask],
        }
    }

    #[inline]
    pub(crate) fn word(self, index: u32) -> u64 {
        let [a, b, c] = self.masks;
        a.word(index) & b.word(index) & c.word(index)
    }

    pub(crate) fn contains(self, cpu: CpuId) -> bool {
        self.masks.iter().all(|mask| mask.contains(cpu))
    }

    pub(crate) fn is_empty(self) -> bool {
        (0..self.masks[0].words()).all(|index| self.word(index) == 0)
    }

    /// Returns the first CPU that is in this domain and in `mask`. The search starts at `from` and
    /// wraps around.
    pub(crate) fn next_wrap(self, mask: Mask, from: u32) -> Option<CpuId> {
        let words = mask.words();
        let from = if from < words * 64 { from } else { 0 };
        let start = from / 64;
        // Idle masks have few bits set, so their words are tested before the words of the domain.
        let first = match mask.word(start) {
            0 => 0,
            word => word & self.word(start),
        };
        let above = first & (!0 << (from % 64));
        if above != 0 {
            return Some(lowest_cpu(start, above));
        }
        for index in (start + 1..words).chain(0..start) {
            let word = mask.word(index);
            if word == 0 {
                continue;
            }
            let word = word & self.word(index);
            if word != 0 {
                return Some(lowest_cpu(index, word));
            }
        }
        // Only CPUs below `from` in the first word are left.
        (first != 0).then(|| lowest_cpu(start, first))
    }
}

/// Returns the lowest CPU in a word of an idle mask. The CPU is known to exist, because only the
/// simulated kernel writes these masks.
fn lowest_cpu(index: u32, word: u64) -> CpuId {
    CpuId::new((index * 64 + word.trailing_zeros()) as usize)
}

impl Idle {
    /// Allocates the masks in `region`, the memory that BPF programs can access.
    ///
    /// # Errors
    /// A message if the region has no room for the masks.
    pub fn new(region: &Region, topology: &Topology) -> Result<Idle, Error> {
        let nr_cpus = topology.nr_cpus();
        let groups = topology.cores.len() + topology.llcs.len() + 3 * topology.nodes.len() + 2;
        let stride = (u64::from(nr_cpus.div_ceil(64)) * 8).max(64);
        let mut idle_slab = region.slab(&object::MASK, MASK_BYTES, 2 + 2 * topology.nodes.len() as u64)?;
        let mut slab = region.slab(&object::MASK, stride, groups as u64)?;
        let new_mask = |slab: &mut Slab| {
            let addr = slab.alloc(region).expect("the slab has room");
            // SAFETY: the object was just allocated, has a bit for each CPU, and is never freed. The
            // machine, which uses the mask, keeps the region alive.
            unsafe { Mask::at(region, addr, nr_cpus) }
        };
        let mut idle_mask = || new_mask(&mut idle_slab);
        let mut group_mask = || new_mask(&mut slab);
        let distance = |a: usize, b: usize| topology.node_distances[a][b];
        let near = (0..topology.nodes.len()).map(|node| {
            let mut others: Vec<u32> = (0..topology.nodes.len() as u32)
                .filter(|&other| other as usize != node)
                .collect();
            others.sort_by_key(|&other| (distance(node, other as usize), other));
            others
        });
        Ok(Idle {
            enabled: false,
            per_node: false,
            topo_llc: false,
            topo_numa: false,
            smt_active: false,
            masks: (0..=topology.nodes.len())
                .map(|_| Masks {
                    cpu: idle_mask(),
                    smt: idle_mask(),
                })
                .collect(),
            cores: topology.cores.iter().map(|_| group_mask()).collect(),
            llcs: topology.llcs.iter().map(|_| group_mask()).collect(),
            nodes: topology.nodes.iter().map(|_| group_mask()).collect(),
            near: near.collect(),
        })
    }

    pub fn enabled(&self) -> bool {
        self.enabled
    }

    pub fn per_node(&self) -> bool {
        self.per_node
    }

    /// Returns the idle masks of a node, or the global ones for `None`.
    pub(crate) fn node_masks(&self, node: Option<u32>) -> Masks {
        self.masks[node.map_or(0, |node| node as usize + 1)]
    }

    /// Returns the idle CPUs of a node, or of the machine for `None` (scx_bpf_get_idle_cpumask).
    pub(crate) fn cpumask(&self, node: Option<u32>) -> Mask {
        self.node_masks(node).cpu
    }

    /// Returns the CPUs on fully idle cores, or all idle CPUs if SMT is not active.
    pub(crate) fn smtmask(&self, node: Option<u32>) -> Mask {
        if self.smt_active {
            self.node_masks(node).smt
        } else {
            self.node_masks(node).cpu
        }
    }
}
