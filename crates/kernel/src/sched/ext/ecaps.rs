// SPDX-License-Identifier: GPL-2.0-only
//! Effective capabilities: the part of a sub-scheduler's capabilities that a CPU has put into effect, and
//! the reports of it and of idle CPUs to the policies (ecaps in kernel/sched/ext/sub.c of Linux 7.3).

use super::caps::missing;
use super::{deferred, dispatch, kick, ops, sub};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::ext::state::caps::with_implied;
use crate::sched::ext::state::core::{OWES_ROOT_IDLE, OWES_SUB_IDLE};
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Makes a CPU update a sub-scheduler's effective capabilities when it next looks for a task
/// (queue_sync_ecaps).
pub(super) fn queue_sync(m: &mut Machine, id: SchedId, cid: u32) {
    let cpu = m.ext.cids.to_cpu(cid);
    let own = &mut m.ext.sched_mut(id).caps.cpus[cpu];
    if std::mem::replace(&mut own.is_queued, true) {
        return;
    }
    let queue = &mut m.rqs[cpu].ext.caps_to_sync;
    queue.push(id);
    if queue.len() == 1 {
        sub::in_sched(m, SchedId::ROOT, |m| kick::kernel_kicks(m, cpu, 0));
    }
}

/// Updates the effective capabilities on `cpu`, whose previous task is `prev`
/// (scx_process_sync_ecaps). Called before the CPU looks for a task.
#[cold]
pub(super) fn process_sync(m: &mut Machine, cpu: CpuId, prev: TaskId) {
    // The kernel's list returns the entry that was added last first.
    let mut batch = std::mem::take(&mut m.rqs[cpu].ext.caps_to_sync);
    batch.reverse();
    let cid = m.ext.cids.to_cid(cpu);
    let mut lost_all = 0;
    for id in batch {
        let caps = &mut m.ext.sched_mut(id).caps;
        let effective = with_implied(caps.granted[cid as usize]);
        let own = &mut caps.cpus[cpu];
        own.is_queued = false;
        if !m.online_cpus.contains(cpu) {
            continue;
        }
        let old = std::mem::replace(&mut own.effective, effective);
        let (lost, gained, reported) = (old & !effective, effective & !old, own.reported);
        lost_all |= lost;
        if effective != reported {
            report_effective(m, id, cpu, prev, reported, effective);
        }
        let own = &mut m.ext.sched_mut(id).caps.cpus[cpu];
        if gained & SCX_CAP_BASE != 0 {
            own.owes_idle = true;
            m.rqs[cpu].ext.owes_idle |= OWES_SUB_IDLE;
        } else if lost & SCX_CAP_BASE != 0 {
            own.owes_idle = false;
        }
    }
    if lost_all & SCX_CAPS_REENQ_ON_LOSS != 0 {
        deferred::schedule_reenq_revoked(m, cpu);
    }
}

/// Calls ops.sub_ecaps_updated(), which may dispatch tasks, unless the sub-scheduler lacks it or is in
/// bypass mode.
fn report_effective(m: &mut Machine, id: SchedId, cpu: CpuId, prev: TaskId, before: u64, after: u64) {
    sub::in_sched(m, id, |m| {
        if !m.ext.has_op(Callback::SubEcapsUpdated) || m.ext.bypassing() {
            return;
        }
        m.ext.dsp.cpu = cpu;
        m.ext.sub_dispatch_prev = prev;
        let arg = m.ext.cids.arg(cpu);
        ops::call_locked(m, Callback::SubEcapsUpdated, cpu, &[arg, before, after]);
        m.ext.sub_dispatch_prev = IDLE;
        dispatch::flush_dispatch_buf(m, cpu);
        m.ext.sched_mut(id).caps.cpus[cpu].reported = after;
    });
}

/// Queues the updates that the sub-scheduler has missed in bypass mode on `cpu`, and the call of
/// ops.update_idle() that it has missed (scx_unbypass_replay_ecaps, unbypass_renotify_idle).
pub(super) fn leave_bypass(m: &mut Machine, id: SchedId, cpu: CpuId) {
    if id == SchedId::ROOT {
        m.rqs[cpu].ext.owes_idle |= OWES_ROOT_IDLE;
        return;
    }
    let own = &mut m.ext.sched_mut(id).caps.cpus[cpu];
    own.owes_idle = true;
    let is_stale = own.effective != own.reported;
    m.rqs[cpu].ext.owes_idle |= OWES_SUB_IDLE;
    if is_stale {
        let cid = m.ext.cids.to_cid(cpu);
        queue_sync(m, id, cid);
    }
}

/// Handles a CPU that goes online or offline: no sub-scheduler has capabilities on an offline CPU
/// (scx_online_ecaps, scx_offline_ecaps).
pub(super) fn hotplug(m: &mut Machine, cpu: CpuId, online: bool) {
    let subs: Vec<SchedId> = m.ext.live_subs().collect();
    let cid = m.ext.cids.to_cid(cpu);
    for id in subs {
        if m.ext.sched(id).caps.granted.is_empty() {
            continue;
        }
        if online {
            queue_sync(m, id, cid);
        } else {
            m.ext.sched_mut(id).caps.cpus[cpu].effective = 0;
        }
    }
}

/// Forgets what a sub-scheduler that has ended still has to update (scx_discard_ecaps_to_sync).
pub(super) fn discard(m: &mut Machine, id: SchedId) {
    for rq in &mut m.rqs {
        rq.ext.caps_to_sync.retain(|&other| other != id);
    }
}

/// Calls ops.update_idle() of the policies that may use `cpu` (scx_idle_notify). `is_change` says that
/// the CPU has become idle or busy. Otherwise only policies that have missed this are called.
pub(super) fn notify_idle(m: &mut Machine, cpu: CpuId, idle: bool, is_change: bool) {
    let owed = std::mem::take(&mut m.rqs[cpu].ext.owes_idle);
    if !m.ext.has_subs() {
        if is_change || owed & OWES_ROOT_IDLE != 0 {
            call_update_idle(m, cpu, idle);
        }
        return;
    }
    let mut skipped: Vec<SchedId> = Vec::new();
    for id in m.ext.loaded_in_tree_order() {
        let below_skipped = m.ext.parent_of(id).is_some_and(|parent| skipped.contains(&parent));
        if below_skipped || missing(m, id, cpu, SCX_CAP_BASE) != 0 {
            skipped.push(id);
            continue;
        }
        let forced = match id {
            SchedId::ROOT => owed & OWES_ROOT_IDLE != 0,
            _ if m.ext.sched(id).caps.cpus.is_empty() => continue,
            _ => std::mem::take(&mut m.ext.sched_mut(id).caps.cpus[cpu].owes_idle),
        };
        if is_change || forced {
            sub::in_sched(m, id, |m| call_update_idle(m, cpu, idle));
        }
    }
}

/// Calls ops.update_idle(), unless the policy lacks it or is in bypass mode.
pub(super) fn call_update_idle(m: &mut Machine, cpu: CpuId, idle: bool) {
    if m.ext.has_op(Callback::UpdateIdle) && !m.ext.bypassing() {
        let arg = m.ext.cids.arg(cpu);
        ops::call_locked(m, Callback::UpdateIdle, cpu, &[arg, u64::from(idle)]);
    }
}
