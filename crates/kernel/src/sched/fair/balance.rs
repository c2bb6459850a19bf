// SPDX-License-Identifier: GPL-2.0-only
//! Load balancing within one scheduling domain (sched_balance_rq).

use super::busiest::{asym_active_balance, find_src_group, find_src_rq, nr_running};
use super::detach::{self, Detach};
use super::idle_scan::{available_idle_cpu, is_core_idle};
use super::lb_env::{Env, IdleType, Migrate, Preference};
use super::sched_cache;
use crate::machine::Machine;
use crate::sched::fair::state::entity::Push;
use crate::simulation::id::CpuId;
use crate::watch::state::stepped::Mover;

/// Limit of the balancing interval while no task can be moved because of the tasks' affinities, ms.
const MAX_PINNED_INTERVAL_MS: u64 = 512;
/// Maximum number of tasks that a balancing run examines on a CPU (sysctl_sched_nr_migrate).
const NR_MIGRATE: u32 = 32;

/// Pulls tasks to `cpu` from other CPUs in its domain of this level. Returns the number of tasks
/// that were pulled.
///
/// Sets `continue_balancing` to false if another CPU of the same group has to balance this domain.
pub(super) fn balance_rq(
    m: &mut Machine,
    cpu: CpuId,
    level: usize,
    idle: IdleType,
    continue_balancing: &mut bool,
) -> u32 {
    let mut env = Env {
        dst_cpu: cpu,
        cpu,
        level,
        idle,
        kind: Migrate::Load,
        imbalance: 0,
        src_cpu: cpu,
        preference: Preference::All,
        excluded: Vec::new(),
    };
    let outer = m.mover;
    let idle = match idle {
        IdleType::Busy => "busy",
        IdleType::Idle => "idle",
        IdleType::NewlyIdle => "newidle",
    };
    m.mover = Mover::Balance { cpu, level, idle };
    let mut moved = 0;
    let mut state = Detach::default();
    loop {
        if !should_we_balance(m, &env) {
            *continue_balancing = false;
            balanced(m, &env, &state);
            break;
        }
        m.charge_here(m.spec.costs.balance_ns.into());
        let Some(group) = find_src_group(m, &mut env) else {
            balanced(m, &env, &state);
            break;
        };
        let Some(src) = find_src_rq(m, &env, group) else {
            balanced(m, &env, &state);
            break;
        };
        env.src_cpu = src;
        state.all_pinned = true;
        let nr = nr_running(m, src);
        if nr > 1 {
            state.left = nr.min(NR_MIGRATE);
            moved += detach::move_tasks(m, &mut env, &mut state);
            while let Some(other) = state.new_dst_cpu.take() {
                if env.imbalance <= 0 {
                    break;
                }
                // A task may not run on the destination CPU, but may run on another CPU of the same
                // group. The run continues with that CPU as the destination.
                env.excluded.push(env.dst_cpu);
                env.dst_cpu = other;
                state.left = nr.min(NR_MIGRATE);
                moved += detach::move_tasks(m, &mut env, &mut state);
            }
            if state.some_pinned
                && env.imbalance > 0
                && let Some(group) = env.parent_group(m)
            {
                group.imbalance = true;
            }
            if state.all_pinned {
                env.excluded.push(src);
                if env
                    .span(m)
                    .set
                    .iter()
                    .any(|c| env.usable(m, c) && !env.local_group(m).set.contains(c))
                {
                    continue;
                }
                all_pinned(m, &env, true);
                break;
            }
        }
        finish(m, &env, moved, &state);
        break;
    }
    m.mover = outer;
    if moved > 0 {
        m.trace(m.this_cpu, trace::Event::Balance { moved });
    }
    moved
}

/// Ends a balancing run that found an imbalance. Updates the failure count and the interval of the
/// domain. Starts active balancing if necessary.
fn finish(m: &mut Machine, env: &Env, moved: u32, state: &Detach) {
    if moved > 0 {
        env.domain(m).nr_balance_failed = 0;
    } else {
        if env.idle != IdleType::NewlyIdle && env.kind != Migrate::Misfit && !state.llc_pinned {
            env.domain(m).nr_balance_failed += 1;
        }
        if need_active_balance(m, env) {
            let curr = m.rqs[env.src_cpu].curr;
            if !detach::may_run_on(m, curr, env.cpu) {
                widen_interval(m, env, state.all_pinned);
                return;
            }
            let push = Push {
                to: env.cpu,
                llc: env.kind == Migrate::LlcTask,
            };
            detach::kick_active_balance(m, env.src_cpu, push);
        }
    }
    let weight = u64::from(env.span(m).weight);
    env.domain(m).balance_interval = weight;
}

/// Ends a balancing run that found no imbalance (out_balanced in sched_balance_rq).
fn balanced(m: &mut Machine, env: &Env, state: &Detach) {
    // `imbalance` stays set if, earlier in this run, affinities prevented all moves from a CPU.
    if !state.all_pinned
        && let Some(group) = env.parent_group(m)
    {
        group.imbalance = false;
    }
    all_pinned(m, env, state.all_pinned);
}

/// Resets the failure count and lengthens the interval (out_all_pinned in sched_balance_rq).
fn all_pinned(m: &mut Machine, env: &Env, all_pinned: bool) {
    env.domain(m).nr_balance_failed = 0;
    widen_interval(m, env, all_pinned);
}

/// Doubles the balancing interval, up to a limit (out_one_pinned in sched_balance_rq).
fn widen_interval(m: &mut Machine, env: &Env, all_pinned: bool) {
    if env.idle == IdleType::NewlyIdle || env.kind == Migrate::Misfit {
        return;
    }
    let max = 2 * u64::from(env.span(m).weight);
    let domain = env.domain(m);
    if domain.balance_interval < max || (all_pinned && domain.balance_interval < MAX_PINNED_INTERVAL_MS) {
        domain.balance_interval *= 2;
    }
}

/// Returns whether `env.dst_cpu` is the CPU that balances on behalf of its group. This is the first
/// CPU on a fully idle core, otherwise the first idle CPU, otherwise the first CPU of the group.
pub(super) fn should_we_balance(m: &Machine, env: &Env) -> bool {
    if !env.usable(m, env.dst_cpu) {
        return false;
    }
    if env.idle == IdleType::NewlyIdle {
        return m.rqs[env.dst_cpu].nr_running == 0;
    }
    let span = env.span(m);
    let group = env.local_group(m);
    let mut idle_smt = None;
    for &cpu in &group.balance_mask {
        if !available_idle_cpu(m, cpu) || !env.usable(m, cpu) {
            continue;
        }
        if m.domains.smt_active && !span.smt && !is_core_idle(m, cpu) {
            idle_smt = idle_smt.or(Some(cpu));
            continue;
        }
        return cpu == env.dst_cpu;
    }
    idle_smt.or(group.balance_mask.first().copied()) == Some(env.dst_cpu)
}

/// Returns whether active balancing is necessary: the stopper then interrupts the current task of
/// the source CPU and moves a task away (need_active_balance).
fn need_active_balance(m: &Machine, env: &Env) -> bool {
    let span = env.span(m);
    let failed = m.domains.levels[env.cpu.index()][env.level].nr_balance_failed;
    if asym_active_balance(m, env) {
        return true;
    }
    if sched_cache::breaks_llc(m, env) {
        return false;
    }
    if matches!(env.kind, Migrate::Misfit | Migrate::LlcTask)
        || (env.kind == Migrate::Task && failed > span.cache_nice_tries + 2)
    {
        return true;
    }
    let (src, dst) = (m.capacity_of(env.src_cpu), m.capacity_of(env.dst_cpu));
    env.idle()
        && m.rqs[env.src_cpu].fair.cfs.h_nr_runnable == 1
        && src * span.imbalance_pct < m.arch_capacity(env.src_cpu) * 100
        && src * span.imbalance_pct < dst * 100
}
