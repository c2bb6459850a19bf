// SPDX-License-Identifier: GPL-2.0-only
//! The influence of preferred LLCs on load balancing (can_migrate_llc).

use super::{has_memory, process_of, unsuitable};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::busiest::sched_asym;
use crate::sched::fair::lb_env::{Env, IdleType, Migrate};
use crate::sched::fair::state::domains::Group;
use crate::sched::fair::state::group::Stats;
use crate::sched::fair::state::sched_cache::LlcLoad;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Utilization of an LLC up to which it takes more tasks of the processes that prefer it, in
/// percent of its capacity (llc_overaggr_pct).
const OVERAGGR_PCT: u64 = 50;
/// By how much the utilization of two LLCs must differ, in percent (llc_imb_pct).
const IMB_PCT: u64 = 20;

/// Decision about a migration between two LLCs (enum llc_mig).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched::fair) enum LlcMig {
    /// The migration would break the preference.
    Forbid,
    /// The migration brings a task to its preferred LLC, or away from there because the LLC is too
    /// busy.
    Llc,
    /// The preference has no influence.
    Unrestricted,
}

/// Records the load of the LLC that a group of CPUs forms (record_sg_llc_stats). Newly idle CPUs do
/// not record it.
pub(in crate::sched::fair) fn record_load(m: &mut Machine, env: &Env, group: CpuId, stats: &Stats) {
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
pub(in crate::sched::fair) fn nr_preferring(m: &Machine, cpu: CpuId, dst_cpu: CpuId) -> u32 {
    if !m.sched_cache.active || m.domains.share_cache(cpu, dst_cpu) {
        return 0;
    }
    m.sched_cache.cpus[cpu].counts[m.domains.llc_index[dst_cpu] as usize]
}

/// Returns whether tasks of a group should move to the LLC of the CPU that pulls tasks, because
/// they prefer this LLC (llc_balance).
pub(in crate::sched::fair) fn llc_balance(m: &Machine, env: &Env, group: &Group, stats: &Stats) -> bool {
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
pub(in crate::sched::fair) fn can_migrate_llc(
    m: &Machine,
    src: CpuId,
    dst: CpuId,
    util: u64,
    to_preferred: bool,
) -> LlcMig {
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
pub(in crate::sched::fair) fn degrades_llc(m: &mut Machine, env: &Env, task: TaskId) -> bool {
    if !m.sched_cache.active || ignores_preferences(m, env) {
        return false;
    }
    let other = env.kind == Migrate::LlcTask && !prefers_llc_of(m, task, env.dst_cpu);
    other || can_migrate_task(m, env, task) == LlcMig::Forbid
}

/// Returns whether a task prefers the LLC of `cpu` (migrate_llc_task_wrong_dst).
pub(in crate::sched::fair) fn prefers_llc_of(m: &Machine, task: TaskId, cpu: CpuId) -> bool {
    m.tasks[task].preferred_llc.map(u32::from) == Some(m.domains.llc_index[cpu])
}

/// Returns whether all tasks of the source CPU prefer its LLC, so that the running one should stay
/// there (alb_break_llc).
pub(in crate::sched::fair) fn breaks_llc(m: &Machine, env: &Env) -> bool {
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
