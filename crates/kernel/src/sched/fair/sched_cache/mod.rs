// SPDX-License-Identifier: GPL-2.0-only
//! Cache-aware scheduling: load balancing brings the threads of a process together on the CPUs of
//! one LLC (CONFIG_SCHED_CACHE).
//!
//! ```text
//! LLC 0   |== A0 ==|== A1 ==|== A0, A1, A2 ==========
//! LLC 1   |== A2 ==|== B0 ==|== B0 ==================
//!                           ^ balancing moves A2, because process A prefers LLC 0
//! ```
//!
//! - Each CPU counts the runtime of each process, and halves it every 10 ms ([`account`]).
//! - At a tick, the running task is asked to search for the LLC on which its process ran most, before it
//!   returns to user space ([`tick`], [`work`]). The process prefers this LLC. It prefers none if it has
//!   a single thread, if its running threads need more than 80 % of the cores of the LLC, or if its
//!   memory is larger than the LLC.
//! - Load balancing moves a task to the preferred LLC of its process, and does not move a task away
//!   from there, unless this LLC is much busier than the other one ([`migrate::can_migrate_llc`]).
//!
//! Wake-ups, fork and exec do not use the preference.
//!
//! The cost of a search is the transfer of one cache line from each CPU. The accounting at each switch
//! costs nothing, which differs from Linux.

pub(super) mod migrate;
mod scan;

pub(super) use migrate::{breaks_llc, degrades_llc, llc_balance, nr_preferring, prefers_llc_of, record_load};
pub(crate) use scan::work;

use crate::hardware::footprint::state::NOWHERE;
use crate::hardware::memory::state::pages::PAGE_BYTES;
use crate::layout::{PF_EXITING, PF_KTHREAD};
use crate::machine::Machine;
use crate::sched::fair::state::sched_cache::CacheProcess;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::Id;

/// Number of epochs after which the preference of a process ends if no thread was running at a tick
/// (llc_epoch_affinity_timeout).
const TIMEOUT: i64 = 5;

/// Counts a new task as a thread of its process (mm_init_sched).
pub(crate) fn init_task(m: &mut Machine, task: TaskId) {
    if !m.sched_cache.active || !has_memory(m, task) {
        return;
    }
    let new = new_process(m);
    let state = &mut m.sched_cache;
    let t = &mut m.tasks[task];
    let tgid = t.tgid() as usize;
    if state.index.len() <= tgid {
        state.index.resize(tgid + 1, 0);
    }
    if state.index[tgid] == 0 {
        let index = state.free.pop().unwrap_or_else(|| {
            state.processes.push(CacheProcess::default());
            state.processes.len() as u32 - 1
        });
        state.processes[index as usize] = new;
        state.index[tgid] = index + 1;
    }
    t.cache_process = state.index[tgid] - 1;
    state.processes[t.cache_process as usize].nr_threads += 1;
}

/// Returns the state of a process whose address space is new. The first search comes when an epoch has
/// begun. Linux takes the present epoch from the last CPU, which may be late (mm_init_sched).
fn new_process(m: &Machine) -> CacheProcess {
    let last = CpuId::new(m.nr_cpus() as usize - 1);
    CacheProcess {
        epoch: m.sched_cache.cpus[last].recent.epoch,
        next_scan: m.jiffies(),
        ..CacheProcess::default()
    }
}

/// Removes a dead task from its process.
pub(crate) fn release_task(m: &mut Machine, task: TaskId) {
    if !m.sched_cache.active || !has_memory(m, task) {
        return;
    }
    forget_work(m, task);
    let t = &m.tasks[task];
    let faults = t.numa.as_ref().map_or(0, |numa| numa.total);
    let process = &mut m.sched_cache.processes[t.cache_process as usize];
    if faults > 0 {
        process.usage.footprint = process.usage.footprint.saturating_sub(faults);
    }
    if t.pid() == t.tgid() && process.nr_threads > 1 {
        process.leader_is_dead = true;
    } else {
        process.nr_threads -= 1;
    }
    if process.nr_threads == u32::from(process.leader_is_dead) {
        *process = CacheProcess::default();
        m.sched_cache.free.push(t.cache_process);
        m.sched_cache.index[t.tgid() as usize] = 0;
    }
}

/// Withdraws the request for a search.
fn forget_work(m: &mut Machine, task: TaskId) {
    if std::mem::take(&mut m.tasks[task].cache_work) {
        m.sched_cache.nr_works -= 1;
    }
}

/// Forgets the runtimes of a process that calls exec, because its address space is new.
pub(crate) fn exec(m: &mut Machine, task: TaskId) {
    if m.sched_cache.active && has_memory(m, task) {
        let new = new_process(m);
        let process = process_of(m, task);
        *process = CacheProcess {
            nr_threads: process.nr_threads,
            leader_is_dead: process.leader_is_dead,
            ..new
        };
    }
}

/// Records a change of the memory size that NUMA balancing has measured for a task, in pages.
pub(super) fn footprint_changed(m: &mut Machine, task: TaskId, from: u64, to: u64) {
    if m.sched_cache.active && has_memory(m, task) {
        let process = process_of(m, task);
        process.usage.footprint = (process.usage.footprint + to).saturating_sub(from);
    }
}

/// Returns the process of a task that has an address space.
fn process_of(m: &mut Machine, task: TaskId) -> &mut CacheProcess {
    &mut m.sched_cache.processes[m.tasks[task].cache_process as usize]
}

/// Returns whether a task has an address space. Kernel threads have none.
fn has_memory(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].task_struct.flags & PF_KTHREAD == 0
}

/// Returns whether the runtime of a task counts for its process. A task that exits has given its address
/// space up (sched_cache_exit_mm).
fn has_group(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].task_struct.flags & (PF_KTHREAD | PF_EXITING) == 0
}

/// Counts `ns` of runtime of the current task of `cpu`, and updates the task's preferred LLC
/// (account_mm_sched).
#[inline]
pub(super) fn account(m: &mut Machine, cpu: CpuId, task: TaskId, ns: u64) {
    if m.sched_cache.active {
        account_runtime(m, cpu, task, ns);
    }
}

fn account_runtime(m: &mut Machine, cpu: CpuId, task: TaskId, ns: u64) {
    if !has_group(m, task) {
        return;
    }
    let epoch = advance(m, cpu);
    m.sched_cache.cpus[cpu].recent.ns += ns;
    let number = m.tasks[task].cache_process;
    let process = &mut m.sched_cache.processes[number as usize];
    let recent = process.usage.recent_on(cpu);
    recent.advance(epoch);
    recent.ns += ns;
    let stale = epoch.wrapping_sub(process.epoch).cast_signed() > TIMEOUT;
    if stale || unsuitable(m, number, cpu) {
        m.sched_cache.processes[number as usize].usage.cpu = None;
    }
    let preferred = preferred_llc(m, task);
    if m.tasks[task].preferred_llc != preferred && m.tasks[task].fair.on_rq {
        count(m, cpu, task, false);
        m.tasks[task].preferred_llc = preferred;
        count(m, cpu, task, true);
    }
}

/// Begins new epochs on a CPU if they are due (__update_mm_sched). Returns the present epoch.
#[inline]
fn advance(m: &mut Machine, cpu: CpuId) -> u64 {
    if m.now >= m.sched_cache.cpus[cpu].epoch_ends {
        begin_epochs(m, cpu);
    }
    m.sched_cache.cpus[cpu].recent.epoch
}

fn begin_epochs(m: &mut Machine, cpu: CpuId) {
    let (jiffies, tick_ns) = (m.jiffies(), m.tick_ns());
    let (period, since_tick_ns) = (m.sched_cache.period, m.since_tick_ns);
    let rq = &mut m.sched_cache.cpus[cpu];
    if jiffies > rq.epoch_next {
        let epochs = (jiffies - rq.epoch_next).div_ceil(period);
        rq.recent.advance(rq.recent.epoch + epochs);
        rq.epoch_next += epochs * period;
    }
    rq.epoch_ends = (rq.epoch_next + 1) * tick_ns - since_tick_ns;
}

/// Returns whether a process has no use for a preferred LLC: it has a single thread, its running
/// threads need more than 80 % of the cores of the LLC of `cpu` (invalid_llc_nr), or its memory is
/// larger than this LLC (exceed_llc_capacity).
fn unsuitable(m: &Machine, number: u32, cpu: CpuId) -> bool {
    let process = &m.sched_cache.processes[number as usize];
    let llc_size = u64::from(m.domains.llcs[m.domains.llc_index[cpu] as usize].weight);
    // 1024 / 1280 is 80 % (fits_capacity).
    let fits = process.usage.nr_running_avg * m.sched_cache.smt_threads * 1280 < llc_size * 1024;
    if process.nr_threads <= 1 || !fits {
        return true;
    }
    let llc_bytes = m.spec.topology.cpus[cpu.index()].llc_bytes;
    m.numa.active() && llc_bytes < process.usage.footprint * PAGE_BYTES
}

/// Returns the LLC that a task prefers (get_pref_llc). It prefers none if the LLC is not on the
/// node that NUMA balancing prefers.
fn preferred_llc(m: &Machine, task: TaskId) -> Option<u16> {
    let cpu = m.sched_cache.processes[m.tasks[task].cache_process as usize]
        .usage
        .cpu?;
    let node = preferred_node(m, task);
    if node.is_some_and(|node| node != node_of(m, cpu)) {
        return None;
    }
    Some(m.domains.llc_index[cpu] as u16)
}

fn preferred_node(m: &Machine, task: TaskId) -> Option<u32> {
    let numa = m.tasks[task].numa.as_ref().filter(|_| m.numa.active())?;
    Some(numa.preferred).filter(|&node| node != NOWHERE)
}

fn node_of(m: &Machine, cpu: CpuId) -> u32 {
    m.spec.topology.cpus[cpu.index()].node
}

/// Counts a task that enters or leaves the queues of `cpu` (account_llc_enqueue,
/// account_llc_dequeue).
#[inline]
pub(super) fn count(m: &mut Machine, cpu: CpuId, task: TaskId, enters: bool) {
    if m.sched_cache.active
        && let Some(llc) = m.tasks[task].preferred_llc
    {
        count_preference(m, cpu, task, llc, enters);
    }
}

fn count_preference(m: &mut Machine, cpu: CpuId, task: TaskId, llc: u16, enters: bool) {
    let rq = &mut m.sched_cache.cpus[cpu];
    let t = &mut m.tasks[task];
    if enters {
        t.on_preferred_llc = u32::from(llc) == m.domains.llc_index[cpu];
        rq.nr_preferred += u32::from(t.on_preferred_llc && !t.fair.delayed);
        rq.counts[usize::from(llc)] += 1;
    } else {
        rq.nr_preferred -= u32::from(t.on_preferred_llc && !t.fair.delayed);
        t.on_preferred_llc = false;
        rq.counts[usize::from(llc)] -= 1;
    }
}

/// Counts a queued task that has become delayed, or is no longer delayed (set_delayed,
/// clear_delayed).
#[inline]
pub(super) fn count_delayed(m: &mut Machine, cpu: CpuId, task: TaskId, delayed: bool) {
    if m.tasks[task].on_preferred_llc {
        let rq = &mut m.sched_cache.cpus[cpu];
        match delayed {
            true => rq.nr_preferred -= 1,
            false => rq.nr_preferred += 1,
        }
    }
}

/// Requests a search at a tick, if the last one was in an earlier epoch (task_tick_cache).
#[inline]
pub(super) fn tick(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.sched_cache.active && has_group(m, task) {
        let epoch = m.sched_cache.cpus[cpu].recent.epoch;
        let process = process_of(m, task);
        if process.epoch < epoch && !m.tasks[task].cache_work {
            process_of(m, task).epoch = epoch;
            m.tasks[task].cache_work = true;
            m.sched_cache.nr_works += 1;
        }
    }
}
