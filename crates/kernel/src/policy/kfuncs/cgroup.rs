// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs for cgroups. While a policy holds a reference to a cgroup, it can access the cgroup even
//! after its removal.

use super::{Kfunc, any_task};
use crate::machine::Machine;
use crate::sched::ext::{self as ext, ops};
use crate::simulation::id::{IDLE, TaskId};
use bpf::errno::EINVAL;
use bpf::fault::Fault;
use bpf::rows::*;

pub(super) fn table() -> Vec<Kfunc> {
    let mut table = bpf::helpers! {
        80 "bpf_get_current_cgroup_id"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: bpf_get_current_cgroup_id }
        123 "bpf_get_current_ancestor_cgroup_id"
        { args: [V], returns: Number, rules: PLAIN, native: CALL, run: bpf_get_current_ancestor_cgroup_id }
    };
    table.extend(bpf::kfuncs! {
        "struct cgroup *scx_bpf_task_cgroup(struct task_struct *p)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire), native: CALL, run: scx_bpf_task_cgroup }
        "struct cgroup *bpf_cgroup_from_id(u64 cgid)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: bpf_cgroup_from_id }
        "struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: bpf_cgroup_acquire }
        "void bpf_cgroup_release(struct cgroup *cgrp)"
        { releases: V6_12.., contexts: ANY, rules: does(Release), native: CALL, run: bpf_cgroup_release }
        "struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: bpf_cgroup_ancestor }
        "long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: bpf_task_under_cgroup }
        "int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNew).rcu_protected(), native: CALL, run: bpf_iter_css_new }
        "struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNext).ret_null(), native: CALL, run: bpf_iter_css_next }
        "void bpf_iter_css_destroy(struct bpf_iter_css *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterDestroy), native: CALL, run: bpf_iter_css_destroy }
    });
    table
}

/// Returns the cgroup whose address a policy has passed: its number in the workload, and whether it
/// was removed.
pub(crate) fn cgroup_at(m: &Machine, addr: u64) -> Result<(u32, bool), Fault> {
    m.layout
        .cgroup_from_addr(addr)
        .ok_or_else(|| Fault::func(format!("{addr:#x} is not a struct cgroup")))
}

/// Acquires a reference to a cgroup. Returns the address of the cgroup, or 0 if it no longer
/// exists.
fn tryget(m: &mut Machine, cgrp: u64) -> u64 {
    m.ext.charge_program(m.layout.cgroup_search(cgrp));
    if m.layout.get_cgroup(cgrp) { cgrp } else { 0 }
}

fn scx_bpf_task_cgroup(m: &mut Machine, p: u64) -> Result<u64, Fault> {
    let (p, _) = any_task(m, p)?;
    let cgroup = match ops::arg_task_ok(m, p) {
        true => m.tasks[p].cgroup(),
        false => 0,
    };
    Ok(tryget(m, m.layout.cgroup_addr(cgroup)))
}

fn bpf_cgroup_from_id(m: &mut Machine, id: u64) -> u64 {
    let found = m.layout.cgroup_from_id(id);
    match found.filter(|&cgroup| m.cgroups.get(cgroup).online) {
        Some(cgroup) => tryget(m, m.layout.cgroup_addr(cgroup)),
        None => 0,
    }
}

fn bpf_cgroup_acquire(m: &mut Machine, cgrp: u64) -> Result<u64, Fault> {
    cgroup_at(m, cgrp)?;
    Ok(tryget(m, cgrp))
}

fn bpf_cgroup_release(m: &mut Machine, cgrp: u64) -> Result<(), Fault> {
    let (cgroup, _) = cgroup_at(m, cgrp)?;
    m.ext.charge_program(m.layout.cgroup_search(cgrp));
    if ext::cgroup::put(m, cgrp) {
        return Ok(());
    }
    let known = m.workload.cgroups.get(cgroup as usize);
    let path = known.map_or("/", |known| known.path.as_str());
    Err(Fault::func(format!(
        "bpf_cgroup_release of cgroup {path}, to which the policy holds no reference: released twice?"
    )))
}

/// Returns the addresses of a cgroup and all its ancestors, starting with the root. Charges the
/// running program for the search.
fn chain(m: &Machine, cgrp: u64) -> Vec<u64> {
    let chain = m.layout.cgroup_chain(cgrp);
    m.ext.charge_program(chain.len() as u64);
    chain
}

fn bpf_cgroup_ancestor(m: &mut Machine, cgrp: u64, level: i32) -> Result<u64, Fault> {
    cgroup_at(m, cgrp)?;
    let chain = chain(m, cgrp);
    let found = usize::try_from(level).ok().and_then(|level| chain.get(level));
    Ok(found.map_or(0, |&above| tryget(m, above)))
}

/// Returns the number of a task's cgroup. Idle tasks are in the root cgroup.
fn task_cgroup(m: &Machine, p: TaskId) -> u32 {
    if p == IDLE { 0 } else { m.tasks[p].cgroup() }
}

fn id(m: &Machine, cgroup: u32) -> u64 {
    m.layout.cgroup_id(cgroup)
}

fn bpf_get_current_cgroup_id(m: &mut Machine) -> u64 {
    id(m, task_cgroup(m, m.rqs[m.this_cpu].curr))
}

fn bpf_get_current_ancestor_cgroup_id(m: &mut Machine, level: i32) -> u64 {
    let own = Some(task_cgroup(m, m.rqs[m.this_cpu].curr));
    let chain: Vec<u32> = std::iter::successors(own, |&at| m.parent_cgroup(at)).collect();
    m.ext.charge_program(chain.len() as u64);
    let level = usize::try_from(level).unwrap_or(usize::MAX);
    chain.iter().rev().nth(level).map_or(0, |&cgroup| id(m, cgroup))
}

fn bpf_task_under_cgroup(m: &mut Machine, p: u64, ancestor: u64) -> Result<i64, Fault> {
    let (p, _) = any_task(m, p)?;
    cgroup_at(m, ancestor)?;
    let own = m.layout.cgroup_addr(task_cgroup(m, p));
    Ok(chain(m, own).contains(&ancestor).into())
}

const DESCENDANTS_PRE: u32 = 2;
const DESCENDANTS_POST: u32 = 3;
const ANCESTORS_UP: u32 = 4;
const CHILDREN: u32 = 5;

// The three words of the iterator are:
// - the address of the cgroup at which the iteration starts, or 0 at the end
// - the address of the current cgroup, or 0 before the first one
// - the order of the iteration
fn bpf_iter_css_new(m: &mut Machine, it: u64, start: u64, flags: u32) -> Result<i32, Fault> {
    m.region.store(it, [0u64; 3])?;
    if !(DESCENDANTS_PRE..=CHILDREN).contains(&flags) {
        return Ok(-EINVAL);
    }
    // A css is the first member of its cgroup, so both have the same address.
    cgroup_at(m, start)?;
    m.region.store(it, [start, 0, u64::from(flags)])?;
    Ok(0)
}

fn bpf_iter_css_next(m: &mut Machine, it: u64) -> Result<u64, Fault> {
    let [start, at, flags] = m.region.load::<[u64; 3]>(it)?;
    if start == 0 {
        return Ok(0);
    }
    cgroup_at(m, start)?;
    let at = (at != 0).then_some(at);
    let next = match flags as u32 {
        ANCESTORS_UP => match at {
            None => Some(start),
            Some(at) => above(m, at),
        },
        CHILDREN => child(m, start, at),
        DESCENDANTS_POST => next_descendant_post(m, at, start),
        _ => next_descendant_pre(m, at, start),
    };
    match next {
        Some(next) => m.region.store(it.wrapping_add(8), next)?,
        None => m.region.store(it, 0u64)?,
    }
    Ok(next.unwrap_or(0))
}

/// Returns the address of a cgroup's parent, or `None` for the root.
fn above(m: &Machine, cgrp: u64) -> Option<u64> {
    chain(m, cgrp).iter().nth_back(1).copied()
}

/// Number of instructions that the running program is charged for each cgroup that an iteration
/// examines.
const CGROUP: u64 = 8;

/// Returns the online child of a cgroup that follows the child `after`. If `after` is `None`,
/// returns the first online child.
fn child(m: &Machine, parent: u64, after: Option<u64>) -> Option<u64> {
    let (child, looked_at) = m
        .layout
        .next_child(parent, after, |cgroup| m.cgroups.get(cgroup).online);
    m.ext.charge_program((looked_at + 1) * CGROUP);
    child
}

/// Returns the next cgroup in pre-order (css_next_descendant_pre()).
fn next_descendant_pre(m: &Machine, at: Option<u64>, root: u64) -> Option<u64> {
    let Some(mut at) = at else {
        return Some(root);
    };
    if let Some(first) = child(m, at, None) {
        return Some(first);
    }
    while at != root {
        let parent = above(m, at)?;
        if let Some(next) = child(m, parent, Some(at)) {
            return Some(next);
        }
        at = parent;
    }
    None
}

/// Returns the next cgroup in post-order (css_next_descendant_post()).
fn next_descendant_post(m: &Machine, at: Option<u64>, root: u64) -> Option<u64> {
    let leftmost = |mut at: u64| {
        while let Some(first) = child(m, at, None) {
            at = first;
        }
        at
    };
    match at {
        None => Some(leftmost(root)),
        Some(at) if at == root => None,
        Some(at) => {
            let parent = above(m, at)?;
            Some(child(m, parent, Some(at)).map_or(parent, leftmost))
        }
    }
}

fn bpf_iter_css_destroy(m: &mut Machine, it: u64) -> Result<(), Fault> {
    m.region.store(it, [0u64; 3])
}
