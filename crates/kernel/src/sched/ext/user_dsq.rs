// SPDX-License-Identifier: GPL-2.0-only
//! Operations of a policy on whole DSQs: creating, destroying and querying them, and re-enqueueing
//! their tasks.

use super::dsq::find_dsq_for_dispatch;
use super::{cid, deferred, exit};
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::simulation::id::{CpuId, TaskId};
use bpf::errno::{EEXIST, EINVAL, ENOENT};
use bpf::fault::Fault;
use bpf::memory::Use;

/// Creates a DSQ (scx_bpf_create_dsq). Returns 0 or a negative errno. Linux allocates the DSQ's
/// memory on `node` if possible. Here `node` is only checked.
///
/// # Errors
/// A fault if the run has reached its memory limit.
pub(crate) fn create(m: &mut Machine, dsq_id: u64, node: i32) -> Result<i32, Fault> {
    let nr_nodes = m.spec.topology.nodes.len() as i32;
    if node >= nr_nodes || node < -1 || dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
        return Ok(-EINVAL);
    }
    if m.ext.dsqs.find(dsq_id).is_some() {
        return Ok(-EEXIST);
    }
    // Counts two records against the memory limit: one for the DSQ, and one for the statistics of
    // its lock, which are kept until the end of the run.
    m.region.memory().charge_record(Use::Queues)?;
    m.region.memory().charge_record(Use::Queues)?;
    m.ext.dsqs.create(dsq_id);
    Ok(0)
}

/// Destroys an empty DSQ (scx_bpf_destroy_dsq).
pub(crate) fn destroy(m: &mut Machine, dsq_id: u64) {
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else { return };
    let nr = m.ext.dsqs.nr(dsq);
    if nr > 0 {
        exit::error(m, format!("attempting to destroy in-use dsq 0x{dsq_id:016x} (nr={nr})"));
        return;
    }
    m.ext.charge_program(m.nr_cpus().into());
    for rq in &mut m.rqs {
        rq.ext.reenq_users.retain(|&(user, ..)| user != dsq);
    }
    m.ext.dsqs.destroy(dsq);
    m.region.memory().uncharge_records(Use::Queues, 1);
}

/// Returns the number of tasks on a DSQ, or -ENOENT (scx_bpf_dsq_nr_queued).
pub(crate) fn nr_queued(m: &mut Machine, dsq_id: u64) -> i32 {
    let dsq = if dsq_id == SCX_DSQ_LOCAL {
        m.ext.dsqs.local(locked_or_this(m))
    } else if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
        let cpu = cid::cpu_ret(m, (dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as i32);
        let Some(cpu) = exit::cpu_valid(m, cpu, "") else {
            return -ENOENT;
        };
        m.ext.dsqs.local(cpu)
    } else {
        match m.ext.dsqs.find(dsq_id) {
            Some(dsq) => dsq,
            None => return -ENOENT,
        }
    };
    m.ext.dsqs.nr(dsq) as i32
}

/// Returns the first task of one of the policy's DSQs (scx_bpf_dsq_peek).
pub(crate) fn peek(m: &mut Machine, dsq_id: u64) -> Option<TaskId> {
    if dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
        exit::error(m, format!("peek disallowed on builtin DSQ 0x{dsq_id:x}"));
        return None;
    }
    let Some(dsq) = m.ext.dsqs.find(dsq_id) else {
        exit::no_such_dsq(m, &format!("peek on non-existent DSQ 0x{dsq_id:x}"), None);
        return None;
    };
    m.ext.dsqs.first(dsq)
}

/// Passes the tasks on this CPU's local DSQ back to the policy and returns their number
/// (scx_bpf_reenqueue_local). Only ops.cpu_release() may call it.
pub(crate) fn reenqueue_local(m: &mut Machine) -> u32 {
    let cpu = m.this_cpu;
    deferred::reenq_local(m, cpu, SCX_REENQ_ANY)
}

/// Schedules a re-enqueue of the tasks on a DSQ (scx_bpf_dsq_reenq).
pub(crate) fn dsq_reenq(m: &mut Machine, dsq_id: u64, reenq_flags: u64) {
    if reenq_flags & !__SCX_REENQ_USER_MASK != 0 {
        exit::error(m, format!("invalid SCX_REENQ flags 0x{reenq_flags:x}"));
        return;
    }
    let reenq_flags = if reenq_flags & __SCX_REENQ_FILTER_MASK == 0 {
        SCX_REENQ_ANY
    } else {
        reenq_flags
    };
    let (cpu, locked) = (locked_or_this(m), m.ext.frame.locked_cpu);
    let dsq = find_dsq_for_dispatch(m, cpu, dsq_id, m.this_cpu, None);
    deferred::schedule_dsq_reenq(m, dsq, reenq_flags, locked);
}

/// Returns the CPU whose runqueue was locked when the running callback was called. If no runqueue
/// was locked, returns the current CPU (scx_locked_rq() ?: this_rq()).
fn locked_or_this(m: &Machine) -> CpuId {
    m.ext.frame.locked_cpu.unwrap_or(m.this_cpu)
}
