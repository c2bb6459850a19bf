// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs about cgroups. The memory of a workload's cgroups stays as long as the machine does, so references need no counting.

use super::super::insert;
use super::{EINVAL, Kfunc, any_task, kfunc, task};
use crate::machine::Machine;
use crate::task::{IDLE, TaskId};
use bpf::func::{ANY, Fault, Func};

pub(super) fn table() -> Vec<Kfunc> {
    vec![
        kfunc(
            ANY,
            "struct cgroup *scx_bpf_task_cgroup(struct task_struct *p)",
            scx_bpf_task_cgroup,
        ),
        kfunc(ANY, "struct cgroup *bpf_cgroup_from_id(u64 cgid)", bpf_cgroup_from_id),
        kfunc(
            ANY,
            "struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp)",
            bpf_cgroup_acquire,
        ),
        kfunc(ANY, "void bpf_cgroup_release(struct cgroup *cgrp)", bpf_cgroup_release),
        kfunc(
            ANY,
            "struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)",
            bpf_cgroup_ancestor,
        ),
        Func::helper(80, "bpf_get_current_cgroup_id", bpf_get_current_cgroup_id),
        Func::helper(
            123,
            "bpf_get_current_ancestor_cgroup_id",
            bpf_get_current_ancestor_cgroup_id,
        ),
        kfunc(
            ANY,
            "long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor)",
            bpf_task_under_cgroup,
        ),
        kfunc(
            ANY,
            "int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags)",
            bpf_iter_css_new,
        ),
        kfunc(
            ANY,
            "struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it)",
            bpf_iter_css_next,
        ),
        kfunc(
            ANY,
            "void bpf_iter_css_destroy(struct bpf_iter_css *it)",
            bpf_iter_css_destroy,
        ),
    ]
}

fn cgroup_at(m: &Machine, addr: u64) -> Result<u32, Fault> {
    m.layout
        .cgroup_from_addr(addr)
        .ok_or_else(|| Fault::func(format!("{addr:#x} is not a struct cgroup")))
}

/// `cgroup` and those above it, up to the root.
fn chain(m: &Machine, cgroup: u32) -> Vec<u32> {
    let above = |&at: &u32| m.parent_cgroup(at);
    std::iter::successors(Some(cgroup), above).collect()
}

fn scx_bpf_task_cgroup(m: &mut Machine, p: u64) -> Result<u64, Fault> {
    let p = task(m, p)?;
    if !insert::arg_task_ok(m, p) {
        return Ok(m.layout.cgroup_addr(0));
    }
    Ok(m.layout.cgroup_addr(m.tasks[p as usize].cgroup))
}

fn bpf_cgroup_from_id(m: &mut Machine, id: u64) -> u64 {
    let found = m.layout.cgroup_from_id(&m.region, id);
    found
        .filter(|&cgroup| m.cgroups.get(cgroup).online)
        .map_or(0, |cgroup| m.layout.cgroup_addr(cgroup))
}

fn bpf_cgroup_acquire(m: &mut Machine, cgrp: u64) -> Result<u64, Fault> {
    cgroup_at(m, cgrp)?;
    Ok(cgrp)
}

fn bpf_cgroup_release(m: &mut Machine, cgrp: u64) -> Result<(), Fault> {
    cgroup_at(m, cgrp)?;
    Ok(())
}

fn bpf_cgroup_ancestor(m: &mut Machine, cgrp: u64, level: i32) -> Result<u64, Fault> {
    let chain = chain(m, cgroup_at(m, cgrp)?);
    let found = usize::try_from(level)
        .ok()
        .and_then(|level| chain.iter().rev().nth(level));
    Ok(found.map_or(0, |&cgroup| m.layout.cgroup_addr(cgroup)))
}

/// The number of a task's cgroup; idle tasks are in the root.
fn cgroup_of(m: &Machine, p: TaskId) -> u32 {
    if p == IDLE { 0 } else { m.tasks[p as usize].cgroup }
}

fn id(m: &Machine, cgroup: u32) -> u64 {
    m.layout.cgroup_id(&m.region, cgroup)
}

fn bpf_get_current_cgroup_id(m: &mut Machine) -> u64 {
    id(m, cgroup_of(m, m.rqs[m.this_cpu as usize].curr))
}

fn bpf_get_current_ancestor_cgroup_id(m: &mut Machine, level: i32) -> u64 {
    let chain = chain(m, cgroup_of(m, m.rqs[m.this_cpu as usize].curr));
    let level = usize::try_from(level).unwrap_or(usize::MAX);
    chain.iter().rev().nth(level).map_or(0, |&cgroup| id(m, cgroup))
}

fn bpf_task_under_cgroup(m: &mut Machine, p: u64, ancestor: u64) -> Result<i64, Fault> {
    let (p, _) = any_task(m, p)?;
    let ancestor = cgroup_at(m, ancestor)?;
    Ok(chain(m, cgroup_of(m, p)).contains(&ancestor).into())
}

const DESCENDANTS_PRE: u32 = 2;
const DESCENDANTS_POST: u32 = 3;
const ANCESTORS_UP: u32 = 4;
const CHILDREN: u32 = 5;

// The iterator's words: address of the first cgroup or 0, how many were visited, the order.
fn bpf_iter_css_new(m: &mut Machine, it: u64, start: u64, flags: u32) -> Result<i32, Fault> {
    m.region.store(it, [0u64; 3])?;
    if !(DESCENDANTS_PRE..=CHILDREN).contains(&flags) {
        return Ok(EINVAL);
    }
    // A css is the first member of its cgroup.
    cgroup_at(m, start)?;
    m.region.store(it, [start, 0, u64::from(flags)])?;
    Ok(0)
}

fn bpf_iter_css_next(m: &mut Machine, it: u64) -> Result<u64, Fault> {
    let [start, visited, flags] = m.region.load::<[u64; 3]>(it)?;
    if start == 0 {
        return Ok(0);
    }
    let start = cgroup_at(m, start)?;
    let order = match flags as u32 {
        ANCESTORS_UP => chain(m, start),
        CHILDREN => children(m, start),
        flags => {
            let mut order = Vec::new();
            descend(m, start, flags != DESCENDANTS_POST, &mut order);
            order
        }
    };
    m.region.store(it.wrapping_add(8), visited.wrapping_add(1))?;
    Ok(order
        .get(visited as usize)
        .map_or(0, |&cgroup| m.layout.cgroup_addr(cgroup)))
}

fn bpf_iter_css_destroy(m: &mut Machine, it: u64) -> Result<(), Fault> {
    m.region.store(it, [0u64; 3])
}

fn children(m: &Machine, parent: u32) -> Vec<u32> {
    (0..m.layout.nr_cgroups())
        .filter(|&cgroup| m.parent_cgroup(cgroup) == Some(parent) && m.cgroups.get(cgroup).online)
        .collect()
}

fn descend(m: &Machine, cgroup: u32, pre: bool, order: &mut Vec<u32>) {
    if pre {
        order.push(cgroup);
    }
    for child in children(m, cgroup) {
        descend(m, child, pre, order);
    }
    if !pre {
        order.push(cgroup);
    }
}
