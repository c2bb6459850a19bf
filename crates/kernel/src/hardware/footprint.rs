// SPDX-License-Identifier: GPL-2.0-only
//! Tasks' footprints in the caches, and the machine's caches for kernel and policy data.
//!
//! A task has a working set of some bytes. While it runs, as much of that as fits is in its core's private cache and in the
//! last-level cache. For each cache there is a count of bytes brought in so far; replacement is LRU, so what a task left in a
//! cache of `size` bytes is still there as far as `size - brought in since` reaches. The rest comes from the last-level
//! cache or from memory before the task's own work goes on: task time without progress, told of as reload time.
//!
//! Memory is where it was touched first: the node where the task first ran (or ran first after exec), unless the kernel of that
//! machine does not place memory at all. Touching it first, and missing all the time where it is larger than a cache, are part
//! of the work itself.
//! Left out: that a task loses lines while it runs, and memory that tasks share.

use crate::machine::Machine;
use crate::simulation::id::{IDLE, TaskId};
use bpf::cache::{self, Sets};
use machine::{Costs, MachineSpec, Topology};

const NOWHERE: u32 = u32::MAX;
/// Caches of a machine that does not say what it has: those of a current server core.
const PRIVATE_BYTES: u64 = 1 << 20;
const LLC_BYTES: u64 = 32 << 20;

/// What one cache has of a task that left it.
#[derive(Clone, Copy, Debug)]
struct Left {
    cache: u32,
    bytes: u64,
    /// The cache's count of bytes brought in when the task left.
    at: u64,
}

impl Left {
    const NOTHING: Left = Left {
        cache: NOWHERE,
        bytes: 0,
        at: 0,
    };
}

/// A task's working set.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub bytes: u64,
    /// The node of its memory; NOWHERE before it has run.
    home: u32,
    /// When it came to the CPU where it runs with memory that is nowhere yet.
    came: u64,
    private: Left,
    llc: Left,
    /// The reload begun when it was switched to: its length, and the bytes that came into each cache.
    reload_ns: u64,
    into_private: u64,
    into_llc: u64,
}

impl Footprint {
    pub fn new(bytes: u64) -> Footprint {
        Footprint {
            bytes,
            home: NOWHERE,
            came: 0,
            private: Left::NOTHING,
            llc: Left::NOTHING,
            reload_ns: 0,
            into_private: 0,
            into_llc: 0,
        }
    }
}

/// A cache that footprints compete for.
#[derive(Clone, Copy, Debug)]
struct Cache {
    size: u64,
    /// Bytes brought in so far.
    brought: u64,
}

impl Cache {
    /// How much of what a task left here, as cache number `number`, is still here.
    fn remains(&self, number: u32, left: &Left) -> u64 {
        if left.cache != number {
            return 0;
        }
        let since = self.brought.saturating_sub(left.at);
        left.bytes.min(self.size.saturating_sub(since))
    }

    fn leave(&mut self, number: u32, wanted: u64, not_brought: u64) -> Left {
        self.brought = self.brought.saturating_sub(not_brought);
        Left {
            cache: number,
            bytes: wanted.saturating_sub(not_brought),
            at: self.brought,
        }
    }
}

/// All caches of the machine that footprints compete for.
pub struct Caches {
    /// Some task has a footprint.
    active: bool,
    /// By core and by LLC.
    private: Vec<Cache>,
    llcs: Vec<Cache>,
    /// ps a byte from each node (columns) to each node (rows).
    memory_ps: Vec<Vec<u64>>,
    /// Reload time of tasks that have left their CPU, ns.
    reload_ns: u64,
}

impl Caches {
    pub fn new(spec: &MachineSpec, active: bool) -> Caches {
        let topology = &spec.topology;
        let sized = |bytes: u64, otherwise: u64| Cache {
            size: if bytes > 0 { bytes } else { otherwise },
            brought: 0,
        };
        let private = topology.cores.iter().map(|cpus| {
            let cpu = &topology.cpus[cpus[0] as usize];
            // Where the L2 is the last-level cache of several cores, the L1 is what a core has for itself.
            let shared = cpu.l2_bytes >= cpu.llc_bytes && topology.llcs[cpu.llc as usize].len() > cpus.len();
            sized(if shared { cpu.l1d_bytes } else { cpu.l2_bytes }, PRIVATE_BYTES)
        });
        let llcs = topology.llcs.iter().map(|cpus| {
            let cpu = &topology.cpus[cpus[0] as usize];
            sized(cpu.llc_bytes.max(cpu.l2_bytes), LLC_BYTES)
        });
        Caches {
            active,
            private: private.collect(),
            llcs: llcs.collect(),
            memory_ps: memory_ps(topology, &spec.costs),
            reload_ns: 0,
        }
    }
}

/// What a byte of memory costs: the local or the remote price, the latter in proportion to the node distance (20 = once).
fn memory_ps(topology: &Topology, costs: &Costs) -> Vec<Vec<u64>> {
    let (local, remote) = (u64::from(costs.reload_memory_ps), u64::from(costs.reload_remote_ps));
    let price = |&distance: &u32| match distance {
        10 => local,
        _ => (remote * u64::from(distance) / 20).max(local),
    };
    let placed = topology
        .node_distances
        .iter()
        .map(|row| row.iter().map(price).collect());
    let mut placed: Vec<Vec<u64>> = placed.collect();
    if costs.flat_memory {
        // Anywhere with equal chances, wherever the task runs.
        for row in &mut placed {
            let mean = row.iter().sum::<u64>() / row.len() as u64;
            row.fill(mean);
        }
    }
    placed
}

/// The machine's caches as the lines of kernel and policy data know them, by CPU.
pub(crate) fn line_caches(spec: &MachineSpec) -> Vec<cache::Cache> {
    let topology = &spec.topology;
    let nr_cores = topology.cores.len() as u64;
    let shares = nr_cores.min(u64::from(cache::MAX_CACHES));
    let bit = |cpu: u32| 1u64 << (u64::from(topology.cpus[cpu as usize].core) * shares / nr_cores);
    let bits = |cpus: &[u32]| cpus.iter().map(|&cpu| bit(cpu)).fold(0, |all, bit| all | bit);
    let (llcs, nodes): (Vec<u64>, Vec<u64>) = (
        topology.llcs.iter().map(|cpus| bits(cpus)).collect(),
        topology.nodes.iter().map(|cpus| bits(cpus)).collect(),
    );
    let price = spec.costs.cache_line;
    let cache = |cpu: u32| {
        let info = &topology.cpus[cpu as usize];
        cache::Cache {
            own: bit(cpu),
            llc: llcs[info.llc as usize],
            node: nodes[info.node as usize] | llcs[info.llc as usize],
            llc_ns: price.llc,
            node_ns: price.node,
            remote_ns: price.remote,
            memory_ns: match topology.kernel_node {
                Some(home) if home != info.node => price.remote,
                Some(_) => price.node,
                None => 0,
            },
        }
    };
    (0..topology.nr_cpus()).map(cache).collect()
}

/// Bytes of the line in which all that a choice looks at of a task_struct lies: Linux 2.4 keeps it in one of those of its time.
const GOODNESS_LINE: u64 = 32;

/// How many of the lines that task_structs begin with each cache has room for, by its bit; `None`: for all.
pub(crate) fn line_sets(spec: &MachineSpec) -> Option<Vec<Sets>> {
    let topology = &spec.topology;
    let tasks = topology.task_sets?;
    let caches = line_caches(spec);
    let (line, lines_of_two) = (tasks.line, spec.costs.cache_line);
    let sets = |core: &Vec<u32>| {
        let cpu = &topology.cpus[core[0] as usize];
        let far = topology.kernel_node.is_some_and(|home| home != cpu.node);
        let (ps, one, two) = match far {
            true => (spec.costs.reload_remote_ps, line.remote, lines_of_two.remote),
            false => (spec.costs.reload_memory_ps, line.node, lines_of_two.node),
        };
        let memory_ns = GOODNESS_LINE * u64::from(ps) / 1000;
        let more = u64::from(two.saturating_sub(one)) * memory_ns / u64::from(one.max(1));
        Sets {
            count: tasks.count(cpu.l2_bytes),
            ways: tasks.ways,
            first: cache::Cache {
                llc_ns: line.llc,
                node_ns: line.node,
                remote_ns: line.remote,
                memory_ns: memory_ns as u32,
                ..caches[core[0] as usize]
            },
            next: cache::Cache {
                llc_ns: lines_of_two.llc.saturating_sub(line.llc),
                node_ns: lines_of_two.node.saturating_sub(line.node),
                remote_ns: lines_of_two.remote.saturating_sub(line.remote),
                memory_ns: more as u32,
                ..caches[core[0] as usize]
            },
        }
    };
    let sets: Vec<Sets> = topology.cores.iter().map(sets).collect();
    // With a bit for several cores they would have the room of one.
    (sets.len() <= cache::MAX_CACHES as usize).then_some(sets)
}

impl Machine {
    /// `prev` has left `cpu` and `next` begins to run there: what is missing in the caches is to be reloaded first.
    #[inline]
    pub(crate) fn switch_footprints(&mut self, cpu: u32, prev: TaskId, next: TaskId) {
        if !self.caches.active {
            return;
        }
        if prev != IDLE {
            self.leave_caches(cpu, prev);
        }
        if next != IDLE {
            self.enter_caches(cpu, next);
        }
    }

    fn enter_caches(&mut self, cpu: u32, task: TaskId) {
        let t = &mut self.tasks[task];
        let f = &mut t.footprint;
        if f.bytes == 0 {
            return;
        }
        let place = &self.spec.topology.cpus[cpu as usize];
        let private = &mut self.caches.private[place.core as usize];
        let llc = &mut self.caches.llcs[place.llc as usize];
        f.into_private = f.bytes.min(private.size) - private.remains(place.core, &f.private).min(f.bytes);
        f.into_llc = f.bytes.min(llc.size) - llc.remains(place.llc, &f.llc).min(f.bytes);
        private.brought += f.into_private;
        llc.brought += f.into_llc;
        if f.home == NOWHERE {
            f.came = self.now;
            return;
        }
        let memory_ps = self.caches.memory_ps[place.node as usize][f.home as usize];
        let llc_ps = u64::from(self.spec.costs.reload_llc_ps);
        let from_llc = f.into_private.saturating_sub(f.into_llc);
        f.reload_ns = (f.into_llc * memory_ps + from_llc * llc_ps) / 1000;
        t.program.reload(f.reload_ns);
    }

    /// A child has its parent's memory (copied on write, or shared) and finds it where its parent, which runs here, has it.
    pub(crate) fn fork_footprint(&mut self, parent: TaskId, child: TaskId) {
        if !self.caches.active || parent == IDLE || !self.tasks[parent].on_cpu {
            return;
        }
        let from = &self.tasks[parent];
        let (home, cpu, bytes) = (from.footprint.home, from.cpu, from.footprint.bytes);
        let place = &self.spec.topology.cpus[cpu as usize];
        let home = if home == NOWHERE { place.node } else { home };
        let left = |cache: &Cache, number: u32, bytes: u64| Left {
            cache: number,
            bytes: bytes.min(cache.size),
            at: cache.brought,
        };
        let f = &mut self.tasks[child].footprint;
        let bytes = f.bytes.min(bytes);
        if bytes > 0 {
            f.home = home;
            f.private = left(&self.caches.private[place.core as usize], place.core, bytes);
            f.llc = left(&self.caches.llcs[place.llc as usize], place.llc, bytes);
        }
    }

    /// The running task becomes another program: nothing of that is in memory yet.
    pub(crate) fn exec_footprint(&mut self, cpu: u32, task: TaskId) {
        if self.caches.active {
            self.leave_caches(cpu, task);
            let f = &mut self.tasks[task].footprint;
            *f = Footprint::new(f.bytes);
            self.enter_caches(cpu, task);
        }
    }

    fn leave_caches(&mut self, cpu: u32, task: TaskId) {
        let t = &mut self.tasks[task];
        let f = &mut t.footprint;
        if f.bytes == 0 {
            return;
        }
        let place = &self.spec.topology.cpus[cpu as usize];
        let private = &mut self.caches.private[place.core as usize];
        let llc = &mut self.caches.llcs[place.llc as usize];
        if f.home == NOWHERE && f.came == self.now {
            // Moved before it ran, as balancers at exec do: it has touched nothing.
            private.leave(place.core, 0, f.into_private);
            llc.leave(place.llc, 0, f.into_llc);
            return;
        }
        if f.home == NOWHERE {
            f.home = place.node;
        }
        let not_done = t.program.reload(0);
        self.caches.reload_ns += f.reload_ns - not_done;
        // u128: a gigabyte times a second.
        let part = |bytes: u64| match f.reload_ns {
            0 => 0,
            ns => (u128::from(bytes) * u128::from(not_done) / u128::from(ns)) as u64,
        };
        let (undone_private, undone_llc) = (part(f.into_private), part(f.into_llc));
        f.private = private.leave(place.core, f.bytes.min(private.size), undone_private);
        f.llc = llc.leave(place.llc, f.bytes.min(llc.size), undone_llc);
        f.reload_ns = 0;
    }

    /// Task time that went into reloading caches, ns: what has been reloaded when the run ended.
    pub fn reload_ns(&self) -> u64 {
        let running = self.rqs.iter().filter(|rq| rq.curr != IDLE).map(|rq| {
            let t = &self.tasks[rq.curr];
            t.footprint.reload_ns.saturating_sub(t.program.reload_left())
        });
        self.caches.reload_ns + running.sum::<u64>()
    }

    /// Cache lines of kernel and policy data that had to come from elsewhere.
    pub fn line_transfers(&self) -> cache::Transfers {
        self.region.lines().transfers()
    }

    /// The running CPU reads the cache line of an address: charges what that costs.
    #[inline]
    pub(crate) fn read_line(&mut self, addr: u64) {
        let ns = self.region.lines().load(self.this_cpu, addr);
        if ns > 0 {
            self.charge_here(ns);
        }
    }

    /// The running CPU writes to the cache line of an address.
    #[inline]
    pub(crate) fn write_line(&mut self, addr: u64) {
        let ns = self.region.lines().store(self.this_cpu, addr);
        if ns > 0 {
            self.charge_here(ns);
        }
    }

    /// The running CPU works on a task's scheduling state: the two lines that its task_struct begins with.
    #[inline]
    pub(crate) fn write_task(&mut self, task: TaskId) {
        let addr = self.tasks[task].addr;
        let ns = self.region.lines().store_two(self.this_cpu, addr);
        if ns > 0 {
            self.charge_here(ns);
        }
    }
}
