// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs that a policy can call, with the prototypes, permissions and error messages of the
//! kernel.
//!
//! The kernel's verifier checks the arguments of kfuncs when a program is loaded. Here they are
//! checked when the kfunc is called: a pointer of the wrong type causes a fault. All kfuncs of
//! Linux 7.2 and 7.3 that sched_ext objects are known to call are defined here or in the crate `bpf`. Each
//! kfunc is a row of a table, whose columns are described in [`bpf::rows`].
//!
//! The memory of a policy is accessed only through checked functions of the region, so this
//! directory contains no unsafe code.
#![forbid(unsafe_code)]

pub(crate) mod cgroup;
mod cid;
mod cpu;
mod dsq;
mod report;
mod sub;
mod task;

use crate::layout::callbacks::kf;
use crate::layout::release::Release;
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Func;
use bpf::fault::Fault;
use bpf::rows::ANY;
use machine::Costs;

type Kfunc = Func<Machine>;

const NUMA_NO_NODE: i32 = -1;

/// Returns all functions that a policy can call, including BPF helpers. [`table`] sets their costs.
pub(crate) fn all() -> Vec<Kfunc> {
    [
        bpf::helper::table(),
        cgroup::table(),
        cid::table(),
        cpu::table(),
        dsq::table(),
        report::table(),
        sub::table(),
        task::table(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns all functions that a policy can call. Their costs are set from the cost table of a
/// machine.
pub fn table(costs: &Costs) -> Vec<Kfunc> {
    let mut table = unrestricted_by_cpu(all());
    for func in &mut table {
        func.cost = costs.function_ns(func.priced_as, func.native);
    }
    table
}

/// Returns the functions of [`table`] that a release has, BPF helpers included.
pub fn table_of(costs: &Costs, release: Release) -> Vec<Kfunc> {
    let mut table = table(costs);
    table.retain(|func| func.helper.is_some() || release.is_among(func.releases));
    table
}

/// Sets the contexts of the functions that any callback of a policy without cids may call.
pub(crate) fn unrestricted_by_cpu(mut table: Vec<Kfunc>) -> Vec<Kfunc> {
    for func in table.iter_mut().filter(|func| func.contexts == kf::BY_CPU) {
        func.contexts = ANY;
    }
    table
}

/// Returns the first of the called functions that policies with cids (topological CPU numbers) may
/// not call. These functions use CPU numbers or CPU masks.
pub(crate) fn by_cpu(called: &[String]) -> Option<&String> {
    let all = all();
    let is_by_cpu = |func: &&Kfunc| func.contexts != ANY && func.contexts & kf::BY_CPU != 0;
    called
        .iter()
        .find(|name| all.iter().filter(is_by_cpu).any(|func| func.name == name.as_str()))
}

/// Returns the task whose address a policy has passed. The address of an idle task causes a fault.
/// The task may be dead if the policy holds a reference to it.
#[inline]
fn task(m: &Machine, addr: u64) -> Result<TaskId, Fault> {
    m.task_index(addr).ok_or_else(|| not_a_task(addr))
}

/// Returns the task whose address a policy has passed, and the task's CPU. For an idle task,
/// returns IDLE and its CPU.
#[inline]
pub(crate) fn any_task(m: &Machine, addr: u64) -> Result<(TaskId, CpuId), Fault> {
    match m.task_index(addr) {
        Some(p) => Ok((p, m.tasks[p].cpu())),
        None => m
            .layout
            .idle_from_addr(addr)
            .map(|cpu| (IDLE, cpu))
            .ok_or_else(|| not_a_task(addr)),
    }
}

#[cold]
fn not_a_task(addr: u64) -> Fault {
    Fault::func(match addr {
        0 => "NULL is not a task".to_string(),
        _ => format!("{addr:#x} is not a task that a policy can act on"),
    })
}

#[cfg(test)]
mod tests;
