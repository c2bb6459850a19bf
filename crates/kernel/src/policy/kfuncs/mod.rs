// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs that a policy can call, with the kernel's prototypes, permissions and error messages.
//!
//! Arguments that the kernel's verifier checks at load are checked at run time here: a pointer of
//! the wrong type is a fault. All kfuncs that sched_ext objects are known to call on Linux 7.2 are
//! here or in the bpf crate. Each kfunc is one row of a table, with the columns described in
//! [`bpf::rows`].
//!
//! A policy's memory is accessed only through the region's checked functions, so this directory
//! contains no unsafe code.
#![forbid(unsafe_code)]

pub(crate) mod cgroup;
mod cid;
mod cpu;
mod dsq;
mod report;
mod task;

use crate::machine::Machine;
use crate::policy::callbacks::kf;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Func;
use bpf::fault::Fault;
use bpf::rows::ANY;
use machine::Costs;

type Kfunc = Func<Machine>;

const NUMA_NO_NODE: i32 = -1;

/// Returns all functions that a policy can call, including helpers, without costs.
pub(crate) fn all() -> Vec<Kfunc> {
    [
        bpf::helper::table(),
        cgroup::table(),
        cid::table(),
        cpu::table(),
        dsq::table(),
        report::table(),
        task::table(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns all functions that a policy can call, with their costs on a machine with this cost
/// table.
pub fn table(costs: &Costs) -> Vec<Kfunc> {
    let mut table = all();
    for func in &mut table {
        if func.contexts == kf::BY_CPU {
            func.contexts = ANY;
        }
        func.cost = costs.function_ns(func.priced_as, func.native);
    }
    table
}

/// Returns the first called function that is not available to cid-based policies, because it uses
/// CPU numbers or CPU masks.
pub(crate) fn by_cpu(called: &[String]) -> Option<&String> {
    let all = all();
    let is_by_cpu = |func: &&Kfunc| func.contexts != ANY && func.contexts & kf::BY_CPU != 0;
    called
        .iter()
        .find(|name| all.iter().filter(is_by_cpu).any(|func| func.name == name.as_str()))
}

/// Returns the task at an address from a policy, which must not be an idle task. A task on which
/// the policy holds a reference may be dead.
#[inline]
fn task(m: &Machine, addr: u64) -> Result<TaskId, Fault> {
    m.task_index(addr).ok_or_else(|| not_a_task(addr))
}

/// Returns the task at an address from a policy, and its CPU. The task is IDLE for an idle task.
#[inline]
pub(crate) fn any_task(m: &Machine, addr: u64) -> Result<(TaskId, CpuId), Fault> {
    match m.task_index(addr) {
        Some(p) => Ok((p, m.tasks[p].cpu)),
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
