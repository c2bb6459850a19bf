// SPDX-License-Identifier: GPL-2.0-only
//! State of NUMA balancing, see `sched::fair::numa`.

use crate::hardware::footprint::state::NOWHERE;
use machine::{MachineSpec, Topology};
use workload::Workload;

/// Delay between the creation of a task and its first scan, ms
/// (sysctl_numa_balancing_scan_delay).
pub(crate) const SCAN_DELAY_MS: u64 = 1000;
pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// How the nodes are connected (sched_numa_topology_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// All nodes have the same distance to each other.
    Direct,
    /// Memory accesses between distant nodes go through other nodes with CPUs.
    GluelessMesh,
    /// Groups of nodes are connected by a backplane.
    Backplane,
}

/// State of NUMA balancing that belongs to the whole machine.
pub struct Numa {
    /// Whether NUMA balancing is on.
    pub(crate) active: bool,
    pub(crate) connection: Connection,
    /// Greatest distance between two nodes (sched_max_numa_distance).
    pub(crate) max_distance: u32,
    /// Number of hinting faults so far.
    pub faults: u64,
    /// Number of hinting faults so far whose page was on the node of the CPU.
    pub local_faults: u64,
    /// Number of pages that moved to another node.
    pub migrated: u64,
}

impl Numa {
    /// Returns the state at the beginning of a run. NUMA balancing is on if the machine has several
    /// nodes and the kernel places memory by node, and if the placement has an effect on tasks of
    /// the workload.
    pub(crate) fn new(spec: &MachineSpec, workload: &Workload) -> Numa {
        let touch = |task: &workload::TaskSpec| task.touch_mbps.unwrap_or(spec.costs.touch_mbps);
        let matters = |task: &workload::TaskSpec| task.footprint_bytes > 0 && touch(task) > 0;
        let distances = spec.topology.node_distances.iter().flatten();
        Numa {
            active: spec.topology.nodes.len() > 1
                && !spec.costs.flat_memory
                && !spec.kernel.no_numa_balancing
                && workload.tasks.iter().any(matters),
            connection: connection(&spec.topology),
            max_distance: distances.copied().max().unwrap_or(10),
            faults: 0,
            local_faults: 0,
            migrated: 0,
        }
    }

    #[inline]
    pub(crate) fn active(&self) -> bool {
        self.active
    }
}

/// Returns how the nodes are connected (init_numa_topology_type).
pub(crate) fn connection(topology: &Topology) -> Connection {
    let rows = &topology.node_distances;
    let mut distances: Vec<u32> = rows.iter().flatten().copied().collect();
    distances.sort_unstable();
    distances.dedup();
    if distances.len() <= 2 {
        return Connection::Direct;
    }
    let max = distances[distances.len() - 1];
    for (a, row) in rows.iter().enumerate() {
        for (b, &distance) in row.iter().enumerate() {
            if distance == max {
                let between = (0..rows.len()).any(|c| rows[a][c] < max && rows[b][c] < max);
                return match between {
                    true => Connection::GluelessMesh,
                    false => Connection::Backplane,
                };
            }
        }
    }
    Connection::Direct
}

/// A task's state of NUMA balancing. It exists for tasks with a footprint.
#[derive(Clone, Debug)]
pub struct NumaTask {
    /// Node on which the task should run (numa_preferred_nid), or NOWHERE.
    pub(crate) preferred: u32,
    /// Decaying average of the faults on each node's memory. Empty before the first fault.
    pub(crate) faults: Vec<u64>,
    /// Faults on each node's memory since the last update of `faults`.
    pub(crate) recent: Vec<u64>,
    /// Sum of `faults`.
    pub(crate) total: u64,
    /// Faults since the last change of the scan period whose page was on another node than the CPU.
    pub(crate) remote: u64,
    /// Faults since the last change of the scan period whose page was on the node of the CPU.
    pub(crate) local: u64,
    /// CPU time between two scans, ms.
    pub(crate) scan_period: u64,
    /// Upper limit of `scan_period`, ms.
    pub(crate) scan_period_max: u64,
    /// Number of scans of the whole footprint (mm->numa_scan_seq).
    pub(crate) scans: u64,
    /// Value of `scans` at the last update of the averages (p->numa_scan_seq).
    pub(crate) placed_scans: u64,
    /// Number of the page at which the next scan begins.
    pub(crate) scan_offset: u64,
    /// Earliest time of the next scan, ns. 0 after exec.
    pub(crate) next_scan: u64,
    /// CPU time of the task at which the current scan period began, ns (node_stamp).
    pub(crate) period_began: u64,
    /// Time of the next attempt to move the task to its preferred node, ns.
    pub(crate) migrate_retry: u64,
    /// CPU time of the task up to which its memory accesses have been counted, ns.
    pub(crate) counted: u64,
    /// Time of handled faults that has not passed yet, ns. The task accesses no memory meanwhile.
    pub(crate) handling: u64,
    /// Number of bytes that the task has touched since the last fault.
    pub(crate) touched: u64,
}

impl NumaTask {
    /// Returns the state of a task that is created at `now` (init_numa_balancing).
    pub(crate) fn new(now: u64) -> NumaTask {
        NumaTask {
            preferred: NOWHERE,
            faults: Vec::new(),
            recent: Vec::new(),
            total: 0,
            remote: 0,
            local: 0,
            scan_period: SCAN_DELAY_MS,
            scan_period_max: 0,
            scans: 0,
            placed_scans: 0,
            scan_offset: 0,
            next_scan: now + SCAN_DELAY_MS * NS_PER_MS,
            period_began: 0,
            migrate_retry: 0,
            counted: 0,
            handling: 0,
            touched: 0,
        }
    }
}
