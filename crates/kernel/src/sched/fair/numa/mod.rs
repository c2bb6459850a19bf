// SPDX-License-Identifier: GPL-2.0-only
//! NUMA balancing: brings tasks and their memory together (CONFIG_NUMA_BALANCING).
//!
//! ```text
//! CPU 8, node 1   |== 64 MiB on node 0: slow ==|s|== faults: pages move to node 1 ==|== fast ==|
//! ```
//!
//! From time to time, a scan (`s`) makes pages of a task inaccessible. The next access to such a
//! page is a hinting fault, which tells the kernel on which node the task uses the page. Three
//! things follow from the faults:
//!
//! - The page may move to the node of the CPU (`hardware::memory::state::pages`).
//! - The node with the most faults becomes the task's preferred node ([`placement`]). The task moves
//!   there, if necessary by changing places with another task ([`migrate`]).
//! - Load balancing avoids moving the task away from its preferred node ([`locality`]).
//!
//! Scans, faults and migrations take time of the task, as system calls do.
//!
//! Differences from Linux:
//! - The faults of a task are handled together at each tick of the fair class. Their number is the
//!   number of pages that the task has touched since the previous tick, at its rate `touch`. The
//!   task touches its pages in the order of their addresses.
//! - Each task counts as a process of its own, because the model has no memory that tasks share.
//!   All faults are therefore private, and there are no NUMA groups (numa_group).
//! - Nodes never run out of memory, so the migration of a page never fails.
//! - Huge pages, memory tiering and memory policies do not exist.
//! - A new scan is not delayed if the previous one took long.

mod locality;
mod migrate;
mod placement;
#[cfg(test)]
mod tests;

pub(super) use locality::{classify, count_preferences, degrades_locality};

use crate::hardware::footprint::state::NOWHERE;
use crate::hardware::memory::state::pages::{PAGE_BYTES, Pages};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::numa::{NS_PER_MS, NumaTask, SCAN_DELAY_MS};
use crate::simulation::id::{CpuId, TaskId};

/// Number of pages that a scan makes inaccessible: 256 MiB (sysctl_numa_balancing_scan_size).
const SCAN_PAGES: u64 = (256 << 20) / PAGE_BYTES;
/// Number of scans up to which all pages with a fault move to the node of the CPU
/// (should_numa_migrate_memory).
const EARLY_SCANS: u64 = 4;

/// Creates the state of a new task, if NUMA balancing is on and the task has a footprint.
pub(crate) fn init_task(m: &mut Machine, task: TaskId) {
    let now = m.now;
    let t = &mut m.tasks[task];
    if m.numa.active && t.footprint.bytes > 0 {
        t.numa = Some(Box::new(NumaTask::new(now)));
    }
}

/// Forgets the faults of a task that calls exec, because its address space is new
/// (task_numa_free).
pub(crate) fn exec(m: &mut Machine, task: TaskId) {
    if let Some(numa) = &mut m.tasks[task].numa {
        numa.faults.clear();
        numa.recent.clear();
        (numa.total, numa.scans, numa.scan_offset, numa.next_scan) = (0, 0, 0, 0);
    }
}

/// Does the work of NUMA balancing at a tick: handles the faults since the previous tick, and starts
/// a scan if one is due. Linux does the latter when the CPU returns to user space. Only the tick of
/// the fair class starts scans, so tasks of a policy are not scanned.
#[inline]
pub(crate) fn tick(m: &mut Machine, cpu: CpuId) {
    if !m.numa.active {
        return;
    }
    let task = m.rqs[cpu].curr;
    if m.class_of(task) != Class::Fair || m.tasks[task].numa.is_none() {
        return;
    }
    hinting_faults(m, cpu, task);
    if m.rqs[cpu].curr == task {
        task_tick_numa(m, cpu, task);
    }
}

/// Handles the move of a task from one CPU to another (the call of update_scan_period in
/// migrate_task_rq_fair).
#[inline]
pub(super) fn task_moves(m: &mut Machine, task: TaskId, from: CpuId, to: CpuId) {
    if m.numa.active {
        placement::task_moves(m, task, from, to);
    }
}

/// Returns a task's state. The caller knows that the task has one.
fn state(m: &mut Machine, task: TaskId) -> &mut NumaTask {
    m.tasks[task]
        .numa
        .as_mut()
        .expect("the caller has checked that the task has this state")
}

/// Starts a scan if the task has used enough CPU time since the last one.
fn task_tick_numa(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let now = m.now;
    let runtime = m.tasks[task].sum_exec_runtime();
    let start = placement::task_scan_start(m, task);
    let numa = state(m, task);
    let period = numa.scan_period * NS_PER_MS;
    if runtime <= numa.period_began + period {
        return;
    }
    if numa.period_began == 0 {
        numa.scan_period = start;
    }
    numa.period_began += period;
    if now >= numa.next_scan {
        task_numa_work(m, cpu, task);
    }
}

/// Scans the next pages of the running task, which makes them inaccessible.
fn task_numa_work(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let (now, tick) = (m.now, m.tick_ns());
    let numa = state(m, task);
    if numa.next_scan == 0 {
        numa.next_scan = now + SCAN_DELAY_MS * NS_PER_MS;
        return;
    }
    numa.next_scan = now + numa.scan_period * NS_PER_MS;
    numa.period_began += 2 * tick;
    place_pages(m, cpu, task);
    let t = &mut m.tasks[task];
    let runtime = t.sum_exec_runtime();
    let Some(numa) = &mut t.numa else { return };
    let Some(pages) = &mut t.footprint.pages else { return };
    if numa.scan_offset >= pages.nr() {
        (numa.scans, numa.scan_offset) = (numa.scans + 1, 0);
    }
    // The scan also ends after eight times as many pages that were inaccessible already.
    let (mut left, mut left_virtual) = (SCAN_PAGES, 8 * SCAN_PAGES);
    let mut examined = 0;
    while left > 0 && left_virtual > 0 && numa.scan_offset < pages.nr() {
        let end = pages.nr().min(numa.scan_offset + left);
        let length = end - numa.scan_offset;
        if pages.mark(numa.scan_offset, end) > 0 {
            left -= length;
        }
        left_virtual = left_virtual.saturating_sub(length);
        examined += length;
        numa.scan_offset = end;
    }
    if left > 0 && left_virtual > 0 {
        (numa.scans, numa.scan_offset) = (numa.scans + 1, 0);
    }
    numa.counted = runtime;
    numa.touched = 0;
    let ns = examined * u64::from(m.spec.costs.numa_scan_ns);
    spend(m, task, ns);
}

/// Creates the pages of a task's footprint, which are on the node where the task first ran. A task
/// that has never left its CPU has no such node yet.
fn place_pages(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let (node, nr_nodes) = (node_of(m, cpu), m.spec.topology.nodes.len());
    let f = &mut m.tasks[task].footprint;
    if f.home == NOWHERE {
        f.home = node;
    }
    if f.pages.is_none() {
        f.pages = Some(Box::new(Pages::new(f.bytes, f.home, nr_nodes)));
    }
}

/// Handles the hinting faults of the running task since the previous call (do_numa_page,
/// task_numa_fault).
fn hinting_faults(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let due = count_touched(m, cpu, task) / PAGE_BYTES;
    if due == 0 {
        return;
    }
    let (now, node) = (m.now, node_of(m, cpu));
    let nr_nodes = m.spec.topology.nodes.len();
    let numa = state(m, task);
    if numa.faults.is_empty() {
        (numa.faults, numa.recent) = (vec![0; nr_nodes], vec![0; nr_nodes]);
    }
    if now > numa.migrate_retry {
        placement::task_numa_placement(m, task);
        migrate::numa_migrate_preferred(m, cpu, task);
        if m.rqs[cpu].curr != task {
            // The task has moved. Its next tick there handles the faults.
            return;
        }
    }
    let costs = &m.spec.costs;
    let (fault_ns, migrate_ns) = (u64::from(costs.numa_fault_ns), u64::from(costs.numa_migrate_ns));
    let t = &mut m.tasks[task];
    let Some(numa) = &mut t.numa else { return };
    let Some(pages) = &mut t.footprint.pages else { return };
    let early = numa.preferred == NOWHERE || numa.placed_scans <= EARLY_SCANS;
    let (mut handled, mut local, mut migrated, mut ns) = (0, 0, 0, 0);
    let by_node = &m.caches.memory_ps[node as usize];
    pages.fault(due, node, early, |faults| {
        numa.recent[faults.to as usize] += faults.pages;
        handled += faults.pages;
        ns += faults.pages * fault_ns;
        if faults.from == node {
            local += faults.pages;
        }
        if faults.from != faults.to {
            migrated += faults.pages;
            let copy_ns = PAGE_BYTES * by_node[faults.from as usize] / 1000;
            ns += faults.pages * (migrate_ns + copy_ns);
        }
    });
    numa.local += local;
    numa.remote += handled - local;
    numa.touched = match pages.marked() {
        0 => 0,
        _ => numa.touched.saturating_sub(handled * PAGE_BYTES),
    };
    t.footprint.home = pages.main_node();
    m.numa.faults += handled;
    m.numa.local_faults += local;
    m.numa.migrated += migrated;
    spend(m, task, ns);
    if migrated > 0 {
        m.update_memory(cpu);
    }
}

/// Counts the bytes that the running task has touched since the last call. Returns the number of
/// touched bytes for which no fault has been handled yet. Without inaccessible pages this is 0.
fn count_touched(m: &mut Machine, cpu: CpuId, task: TaskId) -> u64 {
    let (machine_touch, speed) = (m.spec.costs.touch_mbps, m.rqs[cpu].speed);
    let t = &mut m.tasks[task];
    let runtime = t.sum_exec_runtime();
    let Some(numa) = &mut t.numa else { return 0 };
    let ran = runtime.saturating_sub(numa.counted);
    numa.counted = runtime;
    let handled = ran.min(numa.handling);
    numa.handling -= handled;
    if t.footprint.pages.as_ref().is_none_or(|pages| pages.marked() == 0) {
        return 0;
    }
    let touch = t.footprint.touch_mbps.unwrap_or(machine_touch);
    // The rate is per us of work. A task that runs at half speed touches half as many bytes.
    let work = u128::from(ran - handled) * u128::from(speed) / 1024;
    let bytes = work * u128::from(touch) / 1000;
    numa.touched = numa.touched.saturating_add(bytes.min(u128::from(u64::MAX)) as u64);
    numa.touched
}

/// Adds the time of a scan or of faults to the time of the running task.
fn spend(m: &mut Machine, task: TaskId, ns: u64) {
    let t = &mut m.tasks[task];
    t.program.add_time(ns);
    if let Some(numa) = &mut t.numa {
        numa.handling += ns;
    }
}

/// Returns the node of a CPU (cpu_to_node).
fn node_of(m: &Machine, cpu: CpuId) -> u32 {
    m.spec.topology.cpus[cpu.index()].node
}

impl Machine {
    /// Verifies the pages of all tasks, and the sums of their faults.
    ///
    /// # Panics
    /// If pages got lost, or if a sum is wrong.
    pub(crate) fn verify_numa(&self) {
        for t in &self.tasks {
            if let Some(pages) = &t.footprint.pages {
                pages.verify(t.footprint.bytes);
                assert_eq!(t.footprint.home, pages.main_node(), "the node of the memory is wrong");
            }
            if let Some(numa) = &t.numa {
                assert_eq!(
                    numa.faults.iter().sum::<u64>(),
                    numa.total,
                    "the sum of faults is wrong"
                );
            }
        }
    }
}
