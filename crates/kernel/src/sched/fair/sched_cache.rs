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
//!   returns to user space ([`tick`], [`work`]). The process prefers this LLC. It prefers none if it has a single thread, if its
//!   running threads need more than 80 % of the cores of the LLC, or if its memory is larger than the
//!   LLC.
//! - Load balancing moves a task to the preferred LLC of its process, and does not move a task away
//!   from there, unless this LLC is much busier than the other one ([`can_migrate_llc`]).
//!
//! Wake-ups, fork and exec do not use the preference.
//!
//! The cost of a search is the transfer of one cache line from each CPU. The accounting at each switch
//! costs nothing, which differs from Linux.

use super::busiest::sched_asym;
use super::lb_env::{Env, IdleType, Migrate};
use crate::hardware::footprint::state::NOWHERE;
use crate::hardware::memory::state::pages::PAGE_BYTES;
use crate::layout::{PF_EXITING, PF_KTHREAD};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::domains::Group;
use crate::sched::fair::state::entity::NICE_0_LOAD;
use crate::sched::fair::state::group::Stats;
use crate::sched::fair::state::sched_cache::{CacheProcess, LlcLoad};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Id;

/// Number of epochs after which the preference of a process ends if no thread was running at a tick
/// (llc_epoch_affinity_timeout).
const TIMEOUT: i64 = 5;
/// Utilization of an LLC up to which it takes more tasks of the processes that prefer it, in
/// percent of its capacity (llc_overaggr_pct).
const OVERAGGR_PCT: u64 = 50;
/// By how much the utilization of two LLCs must differ, in percent (llc_imb_pct).
const IMB_PCT: u64 = 20;

/// Decision about a migration between two LLCs (enum llc_mig).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlcMig {
    /// The migration would break the preference.
    Forbid,
    /// The migration brings a task to its preferred LLC, or away from there because the LLC is too
    /// busy.
    Llc,
    /// The preference has no influence.
    Unrestricted,
}

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
    process.nr_threads -= 1;
    if process.nr_threads == 0 {
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

/// Counts `ns` of runtime of the current task of `cpu`, and updates the task's preferred LLC
/// (account_mm_sched).
#[inline]
pub(super) fn account(m: &mut Machine, cpu: CpuId, task: TaskId, ns: u64) {
    if m.sched_cache.active {
        account_runtime(m, cpu, task, ns);
    }
}

fn account_runtime(m: &mut Machine, cpu: CpuId, task: TaskId, ns: u64) {
    if !has_memory(m, task) {
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

/// Returns the share of a CPU's recent runtime that belongs to a process. It is [`NICE_0_LOAD`] if
/// only this process ran there (fraction_mm_sched).
fn occupancy(m: &mut Machine, number: u32, cpu: CpuId) -> u64 {
    let epoch = advance(m, cpu);
    let all = m.sched_cache.cpus[cpu].recent.ns;
    let mut recent = m.sched_cache.processes[number as usize].usage.recent.iter_mut();
    let Some((_, recent)) = recent.find(|(used, _)| *used == cpu) else {
        return 0;
    };
    recent.advance(epoch);
    NICE_0_LOAD * recent.ns / (all + 1)
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
fn preferred_llc(m: &Machine, task: TaskId) -> Option<u32> {
    let cpu = m.sched_cache.processes[m.tasks[task].cache_process as usize]
        .usage
        .cpu?;
    let node = preferred_node(m, task);
    if node.is_some_and(|node| node != node_of(m, cpu)) {
        return None;
    }
    Some(m.domains.llc_index[cpu])
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

fn count_preference(m: &mut Machine, cpu: CpuId, task: TaskId, llc: u32, enters: bool) {
    let rq = &mut m.sched_cache.cpus[cpu];
    let t = &mut m.tasks[task];
    if enters {
        t.on_preferred_llc = llc == m.domains.llc_index[cpu];
        rq.nr_preferred += u32::from(t.on_preferred_llc && !t.fair.delayed);
        rq.counts[llc as usize] += 1;
    } else {
        rq.nr_preferred -= u32::from(t.on_preferred_llc && !t.fair.delayed);
        t.on_preferred_llc = false;
        rq.counts[llc as usize] -= 1;
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
    if m.sched_cache.active && has_memory(m, task) {
        let epoch = m.sched_cache.cpus[cpu].recent.epoch;
        let process = process_of(m, task);
        if process.epoch < epoch && !m.tasks[task].cache_work {
            process_of(m, task).epoch = epoch;
            m.tasks[task].cache_work = true;
            m.sched_cache.nr_works += 1;
        }
    }
}

/// Searches for the LLC on which the process of the current task ran most, when the task returns to user
/// space (task_cache_work). The process prefers this LLC if its threads ran there more than twice as
/// much as on the LLC that it preferred before.
pub(crate) fn work(m: &mut Machine, cpu: CpuId, task: TaskId) {
    forget_work(m, task);
    if m.tasks[task].task_struct.flags & PF_EXITING != 0 {
        return;
    }
    let jiffies = m.jiffies();
    let number = m.tasks[task].cache_process;
    let period = m.sched_cache.period;
    let process = process_of(m, task);
    if jiffies < process.next_scan {
        return;
    }
    process.next_scan = jiffies + period;
    let old = process.usage.cpu;
    if unsuitable(m, number, cpu) {
        process_of(m, task).usage.cpu = None;
        return;
    }
    let old_llc = old.map(|cpu| m.domains.llc_index[cpu]);
    let (mut most, mut best, mut old_share, mut running, mut cost) = (0, None, 0, 0, 0);
    for llc in llcs_of(m, &searched(m, cpu, task, old)) {
        let (mut share, mut largest, mut busiest) = (0, 0, None);
        for index in 0..m.spec.topology.llcs[llc as usize].len() {
            let other = CpuId::new(m.spec.topology.llcs[llc as usize][index] as usize);
            if !m.online_cpus.contains(other) {
                continue;
            }
            cost += m.spec.costs.cache_line.at(m.distance(cpu, other));
            let own = occupancy(m, number, other);
            share += own;
            if own > largest {
                (largest, busiest) = (own, Some(other));
            }
            let curr = m.rqs[other].curr;
            let alive = curr != IDLE && m.tasks[curr].task_struct.flags & (PF_KTHREAD | PF_EXITING) == 0;
            running += u64::from(alive && m.tasks[curr].cache_process == number);
        }
        if share > most {
            (most, best) = (share, busiest);
        }
        if Some(llc) == old_llc {
            old_share = share;
        }
    }
    m.charge(cpu, cost);
    let llc_size = u64::from(m.domains.llcs[m.domains.llc_index[cpu] as usize].weight);
    let process = process_of(m, task);
    if most > 2 * old_share {
        process.usage.cpu = best;
    }
    // The average follows faster on small LLCs (update_avg_scale).
    let difference = running.cast_signed() - process.usage.nr_running_avg.cast_signed();
    let step = difference / (llc_size / 4).clamp(2, 8).cast_signed();
    process.usage.nr_running_avg = process.usage.nr_running_avg.wrapping_add_signed(step);
}

/// Returns the CPUs whose LLCs are searched (get_scan_cpumasks): those of the node that NUMA
/// balancing prefers, of the present preferred LLC's node, and of the current node. Without a
/// preferred node, these are all CPUs.
fn searched(m: &Machine, cpu: CpuId, task: TaskId, old: Option<CpuId>) -> CpuSet {
    let Some(preferred) = preferred_node(m, task) else {
        return m.online_cpus.clone();
    };
    let nodes = [Some(preferred), old.map(|cpu| node_of(m, cpu)), Some(node_of(m, cpu))];
    let all = m.online_cpus.iter();
    let mut cpus = CpuSet::empty(m.nr_cpus());
    all.filter(|&cpu| nodes.contains(&Some(node_of(m, cpu))))
        .for_each(|cpu| cpus.insert(cpu));
    cpus
}

/// Returns the LLCs of some CPUs, each once, in the order of their first CPUs.
fn llcs_of(m: &Machine, cpus: &CpuSet) -> Vec<u32> {
    let mut llcs: Vec<u32> = Vec::new();
    for cpu in cpus.iter() {
        let llc = m.domains.llc_index[cpu];
        if !llcs.contains(&llc) {
            llcs.push(llc);
        }
    }
    llcs
}

/// Records the load of the LLC that a group of CPUs forms (record_sg_llc_stats). Newly idle CPUs do
/// not record it.
pub(super) fn record_load(m: &mut Machine, env: &Env, group: CpuId, stats: &Stats) {
    let child = env
        .level
        .checked_sub(1)
        .map(|level| m.domains.domain_span(env.cpu, level));
    let of_llcs = child.is_some_and(|span| span.share_llc && !span.smt) && !env.span(m).share_llc;
    if m.sched_cache.active && env.idle != IdleType::NewlyIdle && of_llcs {
        m.sched_cache.llcs[m.domains.llc_index[group] as usize] = LlcLoad {
            util: stats.util,
            capacity: stats.capacity,
        };
    }
}

/// Returns the number of tasks queued on `cpu` that prefer the LLC of the CPU that pulls tasks. It
/// is 0 for the CPUs of that LLC.
#[inline]
pub(super) fn nr_preferring(m: &Machine, cpu: CpuId, dst_cpu: CpuId) -> u32 {
    if !m.sched_cache.active || m.domains.share_cache(cpu, dst_cpu) {
        return 0;
    }
    m.sched_cache.cpus[cpu].counts[m.domains.llc_index[dst_cpu] as usize]
}

/// Returns whether tasks of a group should move to the LLC of the CPU that pulls tasks, because
/// they prefer this LLC (llc_balance).
pub(super) fn llc_balance(m: &Machine, env: &Env, group: &Group, stats: &Stats) -> bool {
    // Tasks that need a faster CPU, and packing on CPUs of higher priority, are more important.
    let misfit = env.span(m).asym && stats.misfit_load > 0;
    stats.nr_preferring > 0
        && !misfit
        && !stats.asym_packing
        && !env.span(m).share_llc
        && !ignores_preferences(m, env)
        && can_migrate_llc(m, group.cpus[0], env.dst_cpu, 0, true) == LlcMig::Llc
}

/// Returns whether balancing of this domain failed so often that preferences no longer count.
fn ignores_preferences(m: &Machine, env: &Env) -> bool {
    let failed = m.domains.levels[env.cpu.index()][env.level].nr_balance_failed;
    failed > env.span(m).cache_nice_tries
}

/// Decides about the migration of a task with the utilization `util` from the LLC of `src` to that
/// of `dst` (can_migrate_llc). One of them is the preferred LLC: `dst` if `to_preferred` is set.
pub(super) fn can_migrate_llc(m: &Machine, src: CpuId, dst: CpuId, util: u64, to_preferred: bool) -> LlcMig {
    let load = |cpu: CpuId| m.sched_cache.llcs[m.domains.llc_index[cpu] as usize];
    let (mut from, mut to) = (load(src), load(dst));
    from.util = from.util.saturating_sub(util);
    to.util += util;
    // A core with a single thread can take more tasks.
    let percent = match m.sched_cache.smt_threads {
        1 => OVERAGGR_PCT * 3 / 2,
        _ => OVERAGGR_PCT,
    };
    let fits = |load: LlcLoad| load.util * 100 < load.capacity * percent;
    let much_busier = |a: LlcLoad, b: LlcLoad| a.util * 100 > b.util * (100 + IMB_PCT);
    if !fits(to) && !fits(from) {
        return LlcMig::Unrestricted;
    }
    let forbidden = match to_preferred {
        true => !fits(to) && much_busier(to, from),
        false => fits(from) || !much_busier(from, to),
    };
    if forbidden { LlcMig::Forbid } else { LlcMig::Llc }
}

/// Returns whether a task that fits on the source CPU needs more capacity than the destination CPU has
/// (task_misfits_asym_cpu).
fn would_misfit(m: &Machine, env: &Env, task: TaskId) -> bool {
    env.span(m).asym && !m.task_fits_cpu(task, env.dst_cpu) && m.task_fits_cpu(task, env.src_cpu)
}

/// Decides about the migration of a task between two CPUs (can_migrate_llc_task).
fn can_migrate_task(m: &mut Machine, env: &Env, task: TaskId) -> LlcMig {
    if would_misfit(m, env, task) {
        return LlcMig::Forbid;
    }
    let (src, dst) = (env.src_cpu, env.dst_cpu);
    if !has_memory(m, task) || m.domains.share_cache(src, dst) {
        return LlcMig::Unrestricted;
    }
    let number = m.tasks[task].cache_process;
    let Some(cpu) = process_of(m, task).usage.cpu else {
        return LlcMig::Unrestricted;
    };
    if env.idle() && sched_asym(m, env.span(m), dst, src) {
        return LlcMig::Unrestricted;
    }
    if unsuitable(m, number, dst) {
        process_of(m, task).usage.cpu = None;
        return LlcMig::Unrestricted;
    }
    let to_preferred = m.domains.share_cache(dst, cpu);
    if !to_preferred && !m.domains.share_cache(src, cpu) {
        return LlcMig::Unrestricted;
    }
    can_migrate_llc(m, src, dst, m.tasks[task].fair.avg.util_avg, to_preferred)
}

/// Returns whether balancing must not move a task, because of the task's preferred LLC
/// (migrate_degrades_llc).
pub(super) fn degrades_llc(m: &mut Machine, env: &Env, task: TaskId) -> bool {
    if !m.sched_cache.active || ignores_preferences(m, env) {
        return false;
    }
    let other = env.kind == Migrate::LlcTask && !prefers_llc_of(m, task, env.dst_cpu);
    other || can_migrate_task(m, env, task) == LlcMig::Forbid
}

/// Returns whether a task prefers the LLC of `cpu` (migrate_llc_task_wrong_dst).
pub(super) fn prefers_llc_of(m: &Machine, task: TaskId, cpu: CpuId) -> bool {
    m.tasks[task].preferred_llc == Some(m.domains.llc_index[cpu])
}

/// Returns whether all tasks of the source CPU prefer its LLC, so that the running one should stay
/// there (alb_break_llc).
pub(super) fn breaks_llc(m: &Machine, env: &Env) -> bool {
    if !m.sched_cache.active || m.domains.share_cache(env.src_cpu, env.dst_cpu) {
        return false;
    }
    let nr = m.sched_cache.cpus[env.src_cpu].nr_preferred;
    let rq = &m.rqs[env.src_cpu];
    if nr == 0 || nr != rq.fair.cfs.h_nr_runnable || env.kind == Migrate::Misfit {
        return false;
    }
    if rq.nr_running <= 1 {
        return true;
    }
    let fair = rq.curr != IDLE && m.class_of(rq.curr) == Class::Fair;
    let util = if fair { m.tasks[rq.curr].fair.avg.util_avg } else { 0 };
    (rq.curr != IDLE && would_misfit(m, env, rq.curr))
        || can_migrate_llc(m, env.src_cpu, env.dst_cpu, util, false) == LlcMig::Forbid
}
