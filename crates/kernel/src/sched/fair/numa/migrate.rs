// SPDX-License-Identifier: GPL-2.0-only
//! Moves tasks to their preferred nodes (task_numa_migrate). A task moves to an idle CPU, to a CPU
//! whose task is not worth an exchange, or changes places with a running task (migrate_swap).

use super::super::detach::may_run_on;
use super::super::idle_scan::{available_idle_cpu, is_core_idle};
use super::{NS_PER_MS, node_of};
use crate::hardware::footprint::state::NOWHERE;
use crate::layout;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::group::adjust_numa_imbalance;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use trace::MigrateReason;

/// Smallest improvement for which two tasks change places, in 1/1000 of the faults (SMALLIMP).
const SMALL_IMPROVEMENT: i64 = 30;
/// Longest time between two attempts to move a task to its preferred node, ns.
const RETRY_NS: u64 = 1_000_000_000;

/// Load of a node (numa_type).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NodeType {
    #[default]
    HasSpare,
    FullyBusy,
    Overloaded,
}

/// Statistics of the CPUs of a node (struct numa_stats).
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    load: i64,
    runnable: u64,
    util: u64,
    capacity: i64,
    nr_running: u32,
    weight: u32,
    kind: NodeType,
    idle_cpu: Option<CpuId>,
}

/// State of the search for a CPU (struct task_numa_env).
struct Env {
    task: TaskId,
    src_cpu: CpuId,
    src_node: u32,
    dst_cpu: CpuId,
    dst_node: u32,
    imbalance_pct: u64,
    imb_numa_nr: u32,
    distance: u32,
    src: Stats,
    dst: Stats,
    /// Task with which the task would change places, or IDLE.
    best_task: TaskId,
    best_improvement: i64,
    best_cpu: Option<CpuId>,
}

/// Moves the running task to its preferred node, if it is on another node.
pub(super) fn numa_migrate_preferred(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let (now, node) = (m.now, node_of(m, cpu));
    let Some(numa) = &mut m.tasks[task].numa else { return };
    if numa.preferred == NOWHERE {
        return;
    }
    numa.migrate_retry = now + RETRY_NS.min(numa.scan_period * NS_PER_MS / 16);
    if numa.preferred != node {
        task_numa_migrate(m, cpu, task);
    }
}

/// Finds a CPU on the preferred node, or on another node with more of the task's memory, and moves
/// the task there.
fn task_numa_migrate(m: &mut Machine, src_cpu: CpuId, task: TaskId) {
    let spans = &m.domains.spans;
    let numa_level = m.domains.levels[src_cpu]
        .iter()
        .map(|level| &spans[level.span as usize])
        .find(|span| span.numa);
    let (src_node, preferred) = (node_of(m, src_cpu), m.numa_preferred(task));
    let Some(span) = numa_level else {
        // All other nodes are offline.
        super::state(m, task).preferred = src_node;
        return;
    };
    let mut env = Env {
        task,
        src_cpu,
        src_node,
        dst_cpu: src_cpu,
        dst_node: preferred,
        imbalance_pct: 100 + (span.imbalance_pct - 100) / 2,
        imb_numa_nr: span.imb_numa_nr,
        distance: m.spec.topology.node_distances[src_node as usize][preferred as usize],
        src: Stats::default(),
        dst: Stats::default(),
        best_task: IDLE,
        best_improvement: 0,
        best_cpu: None,
    };
    env.src = node_stats(m, &env, src_node, false);
    try_node(m, &mut env, preferred);
    if env.best_cpu.is_none() {
        for node in 0..m.spec.topology.nodes.len() as u32 {
            let improves = m.task_weight(task, node, env.distance) >= m.task_weight(task, src_node, env.distance);
            if node != src_node && node != preferred && improves {
                try_node(m, &mut env, node);
            }
        }
    }
    let Some(dst_cpu) = env.best_cpu else { return };
    // The stopper does the work: two context switches on each CPU whose running task it moves.
    let switches = 2 * u64::from(m.spec.costs.context_switch_ns);
    m.charge(src_cpu, switches);
    if env.best_task == IDLE {
        m.migrate_running(task, dst_cpu, MigrateReason::Balance);
    } else {
        m.charge(dst_cpu, switches);
        m.migrate_swap(task, env.best_task);
    }
    m.trace(src_cpu, trace::Event::Balance { moved: 1 });
}

fn online_cpus(m: &Machine, node: u32) -> Vec<CpuId> {
    let cpus = m.spec.topology.nodes[node as usize].iter();
    cpus.map(|&cpu| m.named_cpu(cpu))
        .filter(|&cpu| m.online_cpus.contains(cpu))
        .collect()
}

/// Returns the statistics of a node (update_numa_stats). Charges the current CPU with the transfer
/// of a cache line from each CPU of the node. With `find_idle`, the statistics contain an idle CPU,
/// if possible one on an idle core.
fn node_stats(m: &mut Machine, env: &Env, node: u32, find_idle: bool) -> Stats {
    let mut stats = Stats::default();
    let mut idle_core = None;
    for cpu in online_cpus(m, node) {
        let line = m.spec.costs.cache_line.at(m.distance(m.this_cpu, cpu));
        m.charge_here(line);
        stats.load += m.cpu_load(cpu) as i64;
        stats.runnable += m.cpu_runnable(cpu);
        stats.util += m.cpu_util(cpu);
        stats.nr_running += m.rqs[cpu].fair.cfs.h_nr_runnable;
        stats.capacity += m.capacity_of(cpu) as i64;
        stats.weight += 1;
        if find_idle && idle_core.is_none() && available_idle_cpu(m, cpu) && may_run_on(m, env.task, cpu) {
            stats.idle_cpu = stats.idle_cpu.or(Some(cpu));
            if m.domains.smt_active && m.domains.llc(cpu).has_idle_cores && is_core_idle(m, cpu) {
                idle_core = Some(cpu);
            }
        }
    }
    stats.kind = stats.classify(env.imbalance_pct);
    stats.idle_cpu = idle_core.or(stats.idle_cpu);
    stats
}

impl Stats {
    /// Returns the load of the node (numa_classify).
    fn classify(&self, pct: u64) -> NodeType {
        let capacity = self.capacity as u64;
        if self.nr_running > self.weight && (capacity * 100 < self.util * pct || capacity * pct < self.runnable * 100) {
            return NodeType::Overloaded;
        }
        if self.nr_running < self.weight || (capacity * 100 > self.util * pct && capacity * pct > self.runnable * 100) {
            return NodeType::HasSpare;
        }
        NodeType::FullyBusy
    }
}

/// Searches a node for a better CPU than the best one so far (task_numa_find_cpu).
fn try_node(m: &mut Machine, env: &mut Env, node: u32) {
    let improvement = m.task_weight(env.task, node, env.distance) - m.task_weight(env.task, env.src_node, env.distance);
    env.dst_node = node;
    env.dst = node_stats(m, env, node, true);
    let may_move = if env.dst.kind == NodeType::HasSpare {
        let (src, dst) = (i64::from(env.src.nr_running) - 1, env.dst.nr_running + 1);
        let imbalance = (i64::from(dst) - src).max(0);
        let even = adjust_numa_imbalance(imbalance, dst, env.imb_numa_nr) == 0;
        if even && let Some(cpu) = env.dst.idle_cpu {
            env.assign(cpu, IDLE, 0);
            return;
        }
        even
    } else {
        let load = m.task_h_load(env.task) as i64;
        !env.too_imbalanced(load)
    };
    for cpu in online_cpus(m, node) {
        if may_run_on(m, env.task, cpu) {
            env.dst_cpu = cpu;
            if compare(m, env, improvement, may_move) {
                break;
            }
        }
    }
}

impl Env {
    fn assign(&mut self, cpu: CpuId, task: TaskId, improvement: i64) {
        self.best_cpu = Some(cpu);
        self.best_task = task;
        self.best_improvement = improvement;
    }

    /// Returns whether moving `load` from the source node to the destination node would make the
    /// difference of their loads, relative to their capacities, greater (load_too_imbalanced).
    fn too_imbalanced(&self, load: i64) -> bool {
        let difference = |src: i64, dst: i64| {
            let (src, dst) = (i128::from(src), i128::from(dst));
            (dst * i128::from(self.src.capacity) - src * i128::from(self.dst.capacity)).abs()
        };
        difference(self.src.load - load, self.dst.load + load) > difference(self.src.load, self.dst.load)
    }
}

/// Examines `env.dst_cpu` as the new CPU of the task (task_numa_compare). `move_gain` is the
/// improvement by moving the task to this node. `may_move` says whether the loads of the nodes allow
/// that another task does not move back in exchange. Returns whether the search should end.
fn compare(m: &mut Machine, env: &mut Env, move_gain: i64, may_move: bool) -> bool {
    if env.best_cpu == Some(env.dst_cpu) {
        return false;
    }
    let curr = m.rqs[env.dst_cpu].curr;
    if curr == env.task {
        return true;
    }
    let alone = curr == IDLE || m.tasks[curr].flags() & layout::PF_EXITING != 0 || m.tasks[curr].is_kthread();
    let (partner, gain) = if alone {
        if !may_move || move_gain < env.best_improvement {
            return false;
        }
        (IDLE, move_gain)
    } else {
        match swap_gain(m, env, curr, move_gain, may_move) {
            Some(found) => found,
            None => return false,
        }
    };
    let mut cpu = env.dst_cpu;
    if partner == IDLE {
        cpu = env.dst.idle_cpu.unwrap_or(cpu);
        if !available_idle_cpu(m, cpu)
            && let Some(best) = env.best_cpu.filter(|&best| available_idle_cpu(m, best))
        {
            cpu = best;
        }
    }
    env.assign(cpu, partner, gain);
    if may_move {
        partner == IDLE && available_idle_cpu(m, cpu)
    } else {
        partner != IDLE && m.numa_preferred(partner) == env.src_node
    }
}

/// Returns the improvement if the task changes places with `curr`, the task of `env.dst_cpu`. If it
/// is better that the task only moves to this CPU, returns IDLE and that improvement. Returns `None`
/// if the CPU is not better than the best one so far.
fn swap_gain(m: &mut Machine, env: &Env, curr: TaskId, move_gain: i64, may_move: bool) -> Option<(TaskId, i64)> {
    if m.class_of(curr) != Class::Fair || !may_run_on(m, curr, env.src_cpu) {
        return None;
    }
    let (src, dst, best) = (env.src_node, env.dst_node, env.best_task);
    let preferred = m.numa_preferred(curr);
    let best_returns = best != IDLE && m.numa_preferred(best) == src;
    if best_returns && preferred != src {
        return None;
    }
    if env.dst.kind == NodeType::HasSpare {
        // Load balancing moves tasks to the node anyway.
        return None;
    }
    let mut gain = move_gain + m.task_weight(curr, src, env.distance) - m.task_weight(curr, dst, env.distance);
    if preferred == dst {
        gain -= gain / 16;
    }
    if preferred == src {
        gain += gain / 8;
    }
    if may_move && move_gain > gain && move_gain > env.best_improvement {
        return Some((IDLE, move_gain));
    }
    if best != IDLE && preferred == src && !best_returns {
        return Some((curr, gain));
    }
    if gain < SMALL_IMPROVEMENT || gain <= env.best_improvement + SMALL_IMPROVEMENT / 2 {
        return None;
    }
    let load = m.task_h_load(env.task) as i64 - m.task_h_load(curr) as i64;
    (load == 0 || !env.too_imbalanced(load)).then_some((curr, gain))
}

impl Machine {
    /// Makes two running tasks change places (migrate_swap, stop_two_cpus).
    pub(super) fn migrate_swap(&mut self, a: TaskId, b: TaskId) {
        let cpus = [self.tasks[a].cpu(), self.tasks[b].cpu()];
        let tasks = [a, b];
        for (task, cpu) in tasks.into_iter().zip(cpus) {
            self.update_rq_clock(cpu);
            self.deactivate_task(cpu, task, flags::NOCLOCK);
        }
        // Both tasks leave their CPUs before one of them is queued, so that no CPU can pull a task
        // back.
        for cpu in cpus {
            let here = std::mem::replace(&mut self.this_cpu, cpu);
            self.schedule(cpu);
            self.this_cpu = here;
        }
        for (task, cpu) in tasks.into_iter().zip([cpus[1], cpus[0]]) {
            self.set_task_cpu(task, cpu, MigrateReason::Balance);
            self.lock(LockId::Rq(cpu));
            self.activate_task(cpu, task, flags::MIGRATED);
            self.wakeup_preempt(cpu, task, 0);
            self.unlock(LockId::Rq(cpu));
        }
    }
}
