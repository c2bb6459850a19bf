// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs for CPUs: selection of CPUs, idle masks, cpumasks, runqueues, performance targets and
//! kicks.

use super::{Kfunc, NUMA_NO_NODE, task};
use crate::layout::callbacks::kf;
use crate::layout::enums::{SCX_CPUPERF_ONE, SCX_PICK_IDLE_IN_NODE};
use crate::layout::{Mask, scx_bpf_select_cpu_and_args};
use crate::machine::Machine;
use crate::sched::ext::{exit, idle, kick, ops};
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::errno::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP};
use bpf::fault::Fault;
use bpf::rows::*;
use std::mem::offset_of;

pub(super) fn table() -> Vec<Kfunc> {
    bpf::kfuncs! {
        "s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)"
        { releases: V6_12.., contexts: kf::SELECT_CPU | kf::UNLOCKED | kf::BY_CPU, rules: PLAIN, native: CALL,
          run: scx_bpf_select_cpu_dfl }
        "s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed, \
         struct scx_bpf_select_cpu_and_args *args)"
        { releases: V6_19.., contexts: kf::SELECT_CPU | kf::UNLOCKED | kf::BY_CPU, rules: PLAIN, native: CALL,
          run: __scx_bpf_select_cpu_and }
        "s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags, \
         const struct cpumask *cpus_allowed, u64 flags)"
        { releases: V6_16.., contexts: kf::SELECT_CPU | kf::UNLOCKED | kf::BY_CPU, rules: PLAIN, native: CALL,
          run: scx_bpf_select_cpu_and }
        "s32 scx_bpf_cpu_node(s32 cpu)"
        { releases: V6_15.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_cpu_node }
        "const struct cpumask *scx_bpf_get_idle_cpumask_node(s32 node)"
        { releases: V6_15.., contexts: kf::BY_CPU, rules: does(Acquire), native: CALL, run: scx_bpf_get_idle_cpumask_node }
        "const struct cpumask *scx_bpf_get_idle_cpumask(void)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Acquire), native: 1, run: scx_bpf_get_idle_cpumask }
        "const struct cpumask *scx_bpf_get_idle_smtmask_node(s32 node)"
        { releases: V6_15.., contexts: kf::BY_CPU, rules: does(Acquire), native: CALL, run: scx_bpf_get_idle_smtmask_node }
        "const struct cpumask *scx_bpf_get_idle_smtmask(void)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Acquire), native: CALL, run: scx_bpf_get_idle_smtmask }
        "void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Release), native: 0, run: put_cpumask }
        "bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: 4, run: scx_bpf_test_and_clear_cpu_idle }
        "s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, s32 node, u64 flags)"
        { releases: V6_15.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_pick_idle_cpu_node }
        "s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_pick_idle_cpu }
        "s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, s32 node, u64 flags)"
        { releases: V6_15.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_pick_any_cpu_node }
        "s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_pick_any_cpu }
        "const struct cpumask *scx_bpf_get_possible_cpumask(void)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Acquire), native: CALL, run: scx_bpf_get_possible_cpumask }
        "const struct cpumask *scx_bpf_get_online_cpumask(void)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Acquire), native: CALL, run: scx_bpf_get_online_cpumask }
        "void scx_bpf_put_cpumask(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: does(Release), native: CALL, run: put_cpumask }
        "u32 scx_bpf_nr_node_ids(void)"
        { releases: V6_15.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_nr_node_ids }
        "u32 scx_bpf_nr_cpu_ids(void)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 1, run: nr_cpu_ids }
        "void scx_bpf_kick_cpu(s32 cpu, u64 flags)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_kick_cpu }
        "u32 scx_bpf_cpuperf_cap(s32 cpu)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_cpuperf_cap }
        "u32 scx_bpf_cpuperf_cur(s32 cpu)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_cpuperf_cur }
        "void scx_bpf_cpuperf_set(s32 cpu, u32 perf)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_cpuperf_set }
        "struct rq *scx_bpf_cpu_rq(s32 cpu)"
        { releases: V6_12..V7_3, contexts: kf::BY_CPU, rules: PLAIN, native: CALL, run: scx_bpf_cpu_rq }
        "struct rq *scx_bpf_locked_rq(void)"
        { releases: V6_18.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_locked_rq }
        "struct task_struct *scx_bpf_cpu_curr(s32 cpu)"
        { releases: V6_18.., contexts: kf::BY_CPU, rules: PLAIN.ret_null().rcu_protected(), native: 2, run: scx_bpf_cpu_curr }
        "u64 scx_bpf_now(void)"
        { releases: V6_14.., contexts: ANY, rules: PLAIN, native: 2, run: scx_bpf_now }
    }
}

/// Returns the CPU with the number `cpu`, which a policy has passed. If the machine has no such
/// CPU, reports a policy error and returns `None`.
pub(super) fn valid(m: &mut Machine, cpu: i32) -> Option<CpuId> {
    exit::cpu_valid(m, cpu, "")
}

/// Returns whether built-in idle tracking is enabled. If it is not, reports a policy error.
fn builtin_idle_enabled(m: &mut Machine) -> bool {
    let enabled = m.idle.enabled();
    if !enabled {
        exit::error(m, "built-in idle tracking is disabled");
    }
    enabled
}

fn or_errno(cpu: Option<CpuId>) -> i32 {
    cpu.map_or(-EBUSY, |cpu| cpu.nr() as i32)
}

/// Reports a policy error: the policy has called a kfunc that selects a CPU for a task, but the
/// running callback handles another task.
#[cold]
fn cross_task(m: &mut Machine, p: TaskId) -> i32 {
    let t = &m.tasks[p];
    let message = format!("select_cpu kfunc called cross-task on {}[{}]", t.comm(), t.pid());
    exit::error(m, message);
    -EINVAL
}

/// Selects a CPU for a task (select_cpu_from_kfunc()).
#[inline(always)]
fn select_cpu(m: &mut Machine, p: TaskId, prev_cpu: i32, wake_flags: u64, allowed: Option<Mask>, flags: u64) -> i32 {
    let Some(prev_cpu) = valid(m, prev_cpu) else {
        return -EINVAL;
    };
    if !builtin_idle_enabled(m) {
        return -EBUSY;
    }
    let frame = &m.ext.frame;
    if frame.op == Some(crate::layout::callbacks::Callback::SelectCpu) {
        if !ops::arg_task_ok(m, p) {
            return -EINVAL;
        }
    } else if frame.locked_cpu.is_some_and(|cpu| m.tasks[p].cpu() != cpu) {
        return cross_task(m, p);
    }
    let t = &m.tasks[p];
    or_errno(if t.nr_cpus_allowed() == 1 || idle::is_bpf_migration_disabled(m, p) {
        idle::select_restricted(m, p, prev_cpu, allowed, flags)
    } else {
        idle::select_cpu_dfl(m, p, prev_cpu, wake_flags, allowed, flags)
    })
}

fn scx_bpf_select_cpu_dfl(m: &mut Machine, p: u64, prev_cpu: i32, wake_flags: u64, is_idle: u64) -> Result<i32, Fault> {
    let p = task(m, p)?;
    m.region.check_writable(is_idle, 1)?;
    let cpu = select_cpu(m, p, prev_cpu, wake_flags, None, 0);
    m.region.store(is_idle, u8::from(cpu >= 0))?;
    Ok(if cpu >= 0 { cpu } else { prev_cpu })
}

fn __scx_bpf_select_cpu_and(m: &mut Machine, p: u64, cpus_allowed: u64, args: u64) -> Result<i32, Fault> {
    const WORDS: usize = size_of::<scx_bpf_select_cpu_and_args>() / 8;
    let words: [u64; WORDS] = m.region.load(args)?;
    // The low half of its word, because prev_cpu has 32 bits.
    let prev_cpu = words[offset_of!(scx_bpf_select_cpu_and_args, prev_cpu) / 8] as i32;
    let wake_flags = words[offset_of!(scx_bpf_select_cpu_and_args, wake_flags) / 8];
    let flags = words[offset_of!(scx_bpf_select_cpu_and_args, flags) / 8];
    scx_bpf_select_cpu_and(m, p, prev_cpu, wake_flags, cpus_allowed, flags)
}

fn scx_bpf_select_cpu_and(
    m: &mut Machine,
    p: u64,
    prev_cpu: i32,
    wake_flags: u64,
    cpus_allowed: u64,
    flags: u64,
) -> Result<i32, Fault> {
    let p = task(m, p)?;
    let allowed = mask(m, cpus_allowed)?;
    Ok(select_cpu(m, p, prev_cpu, wake_flags, Some(allowed), flags))
}

fn mask(m: &Machine, addr: u64) -> Result<Mask, Fault> {
    Mask::checked(&m.region, addr, m.nr_cpus())
}

fn scx_bpf_cpu_node(m: &mut Machine, cpu: i32) -> i32 {
    match valid(m, cpu) {
        Some(cpu) => m.spec.topology.cpus[cpu.index()].node as i32,
        None => NUMA_NO_NODE,
    }
}

/// Returns `node` if it is a valid node. Otherwise reports a policy error and returns an errno
/// (validate_node()).
fn validate_node(m: &mut Machine, node: i32) -> Result<u32, i32> {
    if !m.idle.per_node() {
        exit::error(m, "per-node idle tracking is disabled");
        return Err(-EOPNOTSUPP);
    }
    if node == NUMA_NO_NODE {
        return Err(-ENOENT);
    }
    if node < 0 || node as usize >= m.spec.topology.nodes.len() {
        exit::error(m, format!("invalid node {node}"));
        return Err(-EINVAL);
    }
    Ok(node as u32)
}

/// Returns whether the policy may use the global idle masks. If it may not, reports a policy error.
fn global_masks(m: &mut Machine) -> bool {
    if m.idle.per_node() {
        exit::error(m, "SCX_OPS_BUILTIN_IDLE_PER_NODE enabled");
        return false;
    }
    builtin_idle_enabled(m)
}

fn scx_bpf_get_idle_cpumask_node(m: &mut Machine, node: i32) -> u64 {
    match validate_node(m, node) {
        Ok(node) => m.idle.cpumask(Some(node)).addr(),
        Err(_) => m.layout.none.addr(),
    }
}

fn scx_bpf_get_idle_cpumask(m: &mut Machine) -> u64 {
    if global_masks(m) {
        m.idle.cpumask(None).addr()
    } else {
        m.layout.none.addr()
    }
}

fn scx_bpf_get_idle_smtmask_node(m: &mut Machine, node: i32) -> u64 {
    match validate_node(m, node) {
        Ok(node) => m.idle.smtmask(Some(node)).addr(),
        Err(_) => m.layout.none.addr(),
    }
}

fn scx_bpf_get_idle_smtmask(m: &mut Machine) -> u64 {
    if global_masks(m) {
        m.idle.smtmask(None).addr()
    } else {
        m.layout.none.addr()
    }
}

/// Does nothing, because the masks belong to the kernel and have no reference counts.
fn put_cpumask(_m: &mut Machine, _mask: u64) {}

fn scx_bpf_test_and_clear_cpu_idle(m: &mut Machine, cpu: i32) -> bool {
    if !builtin_idle_enabled(m) {
        return false;
    }
    valid(m, cpu).is_some_and(|cpu| idle::test_and_clear_cpu(m, cpu))
}

fn scx_bpf_pick_idle_cpu_node(m: &mut Machine, cpus_allowed: u64, node: i32, flags: u64) -> Result<i32, Fault> {
    let allowed = mask(m, cpus_allowed)?;
    Ok(match validate_node(m, node) {
        Ok(node) => or_errno(idle::pick(m, allowed, Some(node), flags)),
        Err(errno) => errno,
    })
}

fn scx_bpf_pick_idle_cpu(m: &mut Machine, cpus_allowed: u64, flags: u64) -> Result<i32, Fault> {
    let allowed = mask(m, cpus_allowed)?;
    if m.idle.per_node() {
        exit::error(m, "per-node idle tracking is enabled");
        return Ok(-EBUSY);
    }
    if !builtin_idle_enabled(m) {
        return Ok(-EBUSY);
    }
    Ok(or_errno(idle::pick(m, allowed, None, flags)))
}

fn scx_bpf_pick_any_cpu_node(m: &mut Machine, cpus_allowed: u64, node: i32, flags: u64) -> Result<i32, Fault> {
    let allowed = mask(m, cpus_allowed)?;
    let node = match validate_node(m, node) {
        Ok(node) => node,
        Err(errno) => return Ok(errno),
    };
    if let Some(cpu) = idle::pick(m, allowed, Some(node), flags) {
        return Ok(cpu.nr() as i32);
    }
    Ok(or_errno(if flags & SCX_PICK_IDLE_IN_NODE != 0 {
        idle::any_in_node(m, allowed, node)
    } else {
        idle::any_distribute(m, allowed)
    }))
}

fn scx_bpf_pick_any_cpu(m: &mut Machine, cpus_allowed: u64, flags: u64) -> Result<i32, Fault> {
    let allowed = mask(m, cpus_allowed)?;
    if m.idle.per_node() {
        exit::error(m, "per-node idle tracking is enabled");
        return Ok(-EBUSY);
    }
    let idle = if m.idle.enabled() {
        idle::pick(m, allowed, None, flags)
    } else {
        None
    };
    Ok(or_errno(idle.or_else(|| idle::any_distribute(m, allowed))))
}

fn scx_bpf_get_possible_cpumask(m: &mut Machine) -> u64 {
    m.layout.possible.addr()
}

fn scx_bpf_get_online_cpumask(m: &mut Machine) -> u64 {
    m.ext.charge_mask(m.layout.online.words());
    m.layout.online.addr()
}

fn scx_bpf_nr_node_ids(m: &mut Machine) -> u32 {
    m.spec.topology.nodes.len() as u32
}

pub(super) fn nr_cpu_ids(m: &mut Machine) -> u32 {
    m.nr_cpus()
}

fn scx_bpf_kick_cpu(m: &mut Machine, cpu: i32, flags: u64) {
    if let Some(cpu) = valid(m, cpu) {
        kick::policy_kicks(m, cpu, flags);
    }
}

fn scx_bpf_cpuperf_cap(m: &mut Machine, cpu: i32) -> u32 {
    valid(m, cpu).map_or(SCX_CPUPERF_ONE as u32, |cpu| m.spec.topology.cpus[cpu.index()].capacity)
}

fn scx_bpf_cpuperf_cur(m: &mut Machine, cpu: i32) -> u32 {
    valid(m, cpu).map_or(SCX_CPUPERF_ONE as u32, |cpu| m.perf_level(cpu) as u32)
}

pub(super) fn scx_bpf_cpuperf_set(m: &mut Machine, cpu: i32, perf: u32) {
    if u64::from(perf) > SCX_CPUPERF_ONE {
        exit::error(m, format!("Invalid cpuperf target {perf} for CPU {cpu}"));
        return;
    }
    let Some(cpu) = valid(m, cpu) else { return };
    let locked = m.ext.frame.locked_cpu;
    if locked.is_some_and(|locked| locked != cpu) {
        exit::error(m, format!("Invalid target CPU {cpu}"));
        return;
    }
    m.set_perf_target(cpu, perf);
}

fn scx_bpf_cpu_rq(m: &mut Machine, cpu: i32) -> u64 {
    let Some(cpu) = valid(m, cpu) else { return 0 };
    let own = &m.rqs[cpu];
    m.layout
        .rq_struct_mut(cpu)
        .advance(own.clock, own.known_capacity, own.curr == IDLE);
    m.layout.rq_addr(cpu)
}

fn scx_bpf_locked_rq(m: &mut Machine) -> u64 {
    match m.ext.frame.locked_cpu {
        None => {
            exit::error(m, "accessing rq without holding rq lock");
            0
        }
        Some(cpu) => scx_bpf_cpu_rq(m, cpu.nr() as i32),
    }
}

fn scx_bpf_cpu_curr(m: &mut Machine, cpu: i32) -> u64 {
    valid(m, cpu).map_or(0, |cpu| m.curr_addr(cpu))
}

/// Returns the clock of the runqueue if the runqueue is locked. Otherwise returns the local time of
/// the CPU: the current time plus the work that was charged to the CPU.
fn scx_bpf_now(m: &mut Machine) -> u64 {
    let cpu = m.this_cpu;
    if m.ext.frame.locked_cpu == Some(cpu) {
        m.now
    } else {
        bpf::engine::World::now_ns(m)
    }
}
