// SPDX-License-Identifier: GPL-2.0-only
//! Kicks, which make other CPUs reschedule (scx_bpf_kick_cpu), and waiting for kicked CPUs
//! (SCX_KICK_WAIT).
//!
//! A kick is sent at the end of the kernel code that requested it (irq_work). Interrupts are enabled in
//! the callback of a BPF timer, so its kicks are sent at once.
//!
//! With SCX_KICK_WAIT, the sender spins in the kernel until all CPUs that it kicked with this flag have
//! rescheduled. A CPU that starts to spin also counts as having rescheduled. Therefore CPUs that wait
//! for each other do not deadlock.

use super::{caps, deferred, exit, rescue, sub};
use crate::layout::enums::{SCX_CAP_BASE, SCX_KICK_IDLE, SCX_KICK_PREEMPT, SCX_KICK_WAIT};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::core::{KICK_BY_KERNEL, KICK_BY_OTHERS, Kick};
use crate::sched::ext::state::events::Stats;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::DecisionKind;

/// Requests a kick of `cpu` by the current CPU, on behalf of the policy (scx_bpf_kick_cpu).
pub(crate) fn policy_kicks(m: &mut Machine, cpu: CpuId, flags: u64) {
    kick_cpu(m, cpu, flags, m.ext.frame.op.map_or(KICK_BY_OTHERS, |op| op as u8));
}

/// Requests a kick of `cpu` by the current CPU, on behalf of the kernel.
pub(super) fn kernel_kicks(m: &mut Machine, cpu: CpuId, flags: u64) {
    kick_cpu(m, cpu, flags, KICK_BY_KERNEL);
}

/// Requests a kick of `cpu` by the current CPU (scx_kick_cpu). `by` is the index of the requester in
/// the statistics.
fn kick_cpu(m: &mut Machine, cpu: CpuId, flags: u64, by: u8) {
    if m.ext.bypassing() {
        return;
    }
    m.ext.kicks.by[usize::from(by)].calls += 1;
    let this = m.this_cpu;
    m.record_decision(|_| DecisionKind::Kick {
        target: cpu.nr(),
        flags,
    });
    if flags & SCX_KICK_IDLE != 0 {
        if flags & (SCX_KICK_PREEMPT | SCX_KICK_WAIT) != 0 {
            exit::error(m, "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE");
        }
        // If the caller holds the runqueue lock of `cpu`, the CPU may be about to go idle. The kick
        // is then necessary.
        if m.ext.frame.locked_cpu != Some(cpu) && can_skip_idle_kick(m, cpu) {
            return;
        }
    }
    let sched = if m.ext.is_linux_7_3 {
        m.ext.current_sched()
    } else {
        SchedId::ROOT
    };
    let most = MANY * m.rqs.len();
    let pending = &mut m.rqs[this].ext.kicks.pending;
    if pending.len() >= most {
        merge(pending);
    }
    match pending.last_mut() {
        Some(last) if last.target == cpu && last.sched == sched && (last.flags ^ flags) & SCX_KICK_IDLE == 0 => {
            last.flags |= flags;
        }
        _ => pending.push(Kick {
            target: cpu,
            flags,
            by,
            sched,
        }),
    }
    if m.ext.frame.interruptible {
        send_at_once(m);
    } else {
        queue_irq_work(m, this);
    }
}

/// Pending kicks of a CPU are merged when their number reaches this multiple of the number of CPUs.
const MANY: usize = 4;

/// Sorts kicks by the flag SCX_KICK_IDLE (kicks without the flag come first), then by target CPU.
/// Merges kicks that are equal in both, so at most two kicks remain for each target. The kicks of
/// different policies are kept apart.
fn merge(pending: &mut Vec<Kick>) {
    let key = |kick: &Kick| (kick.sched, kick.flags & SCX_KICK_IDLE != 0, kick.target);
    pending.sort_by_key(key);
    pending.dedup_by(|later, first| {
        let same = key(later) == key(first);
        if same {
            first.flags |= later.flags;
        }
        same
    });
}

/// Returns whether the CPU is busy and will reschedule before it goes idle. A kick with
/// SCX_KICK_IDLE is then unnecessary.
fn can_skip_idle_kick(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu];
    let is_idle = rq.curr == IDLE && !rq.stopping && !m.is_housekeeping(cpu);
    !is_idle && !rq.ext.in_balance
}

/// Requests that run_irq_work() runs for `cpu`, which is the current CPU, at the end of the current
/// event handler.
pub(super) fn queue_irq_work(m: &mut Machine, cpu: CpuId) {
    if !std::mem::replace(&mut m.rqs[cpu].ext.kicks.queued, true) {
        m.ext.irq_work.push(cpu);
    }
}

/// Sends the kicks and does the other work that [`queue_irq_work`] requested.
#[cold]
pub(super) fn run_irq_work(m: &mut Machine) {
    let here = m.this_cpu;
    while let Some(cpu) = m.ext.irq_work.pop() {
        m.this_cpu = cpu;
        m.rqs[cpu].ext.kicks.queued = false;
        let from = m.rqs[cpu].debt();
        let kicks = !m.rqs[cpu].ext.kicks.pending.is_empty();
        let began = m.local_time(cpu);
        charge_irq_work(m, cpu);
        let raised = m.local_time(cpu) - began;
        deferred::arrived(m, cpu);
        if kicks {
            let began = m.local_time(cpu);
            send(m, cpu);
            m.ext.kicks.ns += raised + m.local_time(cpu) - began;
        }
        m.end_irq(cpu, from);
        if std::mem::take(&mut m.rqs[cpu].ext.kicks.sync_due) {
            begin_wait(m, cpu);
        }
    }
    m.this_cpu = here;
}

/// Sends the current CPU's pending kicks while a program is executed with interrupts enabled.
fn send_at_once(m: &mut Machine) {
    let cpu = m.this_cpu;
    let from = m.rqs[cpu].debt();
    let began = m.local_time(cpu);
    charge_irq_work(m, cpu);
    send(m, cpu);
    m.ext.kicks.ns += m.local_time(cpu) - began;
    m.end_irq(cpu, from);
}

/// Charges `cpu` for the interrupt that it sends to itself for its kicks and deferred work
/// (irq_work_raise). There is no such interrupt if the policy represents a scheduler written in C,
/// which would send IPIs to other CPUs directly.
fn charge_irq_work(m: &mut Machine, cpu: CpuId) {
    let rq = &m.rqs[cpu].ext;
    if (rq.deferred || !rq.kicks.pending.is_empty()) && !m.spec.costs.native {
        let costs = &m.spec.costs;
        m.charge(cpu, u64::from(costs.ipi_send_ns + costs.ipi_receive_ns));
    }
}

/// Sends a CPU's pending kicks (kick_cpus_irq_workfn).
fn send(m: &mut Machine, cpu: CpuId) {
    let mut pending = std::mem::take(&mut m.rqs[cpu].ext.kicks.pending);
    // Kicks are sent in ascending order of CPU numbers. A kick with SCX_KICK_IDLE is dropped if the
    // same CPU also gets a kick without this flag.
    merge(&mut pending);
    let mut wait = false;
    for own in pending.chunk_by(|a, b| a.sched == b.sched) {
        let (full, if_idle) = own.split_at(own.partition_point(|kick| kick.flags & SCX_KICK_IDLE == 0));
        for kick in full {
            wait |= kick_one(m, cpu, kick);
        }
        for kick in if_idle {
            if full.binary_search_by_key(&kick.target, |other| other.target).is_err() {
                kick_one_if_idle(m, kick);
            }
        }
    }
    pending.clear();
    m.rqs[cpu].ext.kicks.pending = pending;
    if wait {
        m.rqs[cpu].ext.kicks.sync_pending = true;
        m.resched_curr(cpu);
    }
}

/// Sends a kick and returns whether `cpu` has to wait for the kicked CPU.
fn kick_one(m: &mut Machine, cpu: CpuId, kick: &Kick) -> bool {
    let &Kick {
        target,
        flags,
        by,
        sched,
    } = kick;
    m.lock(LockId::Rq(target));
    let class = m.curr_class(target);
    let mut wait = false;
    // The stopper and the housekeeping of a script are in higher classes.
    let higher = class < Class::Ext || m.rqs[target].stopping || m.is_housekeeping(target);
    let kickable = m.layout.online.contains(target) && !higher;
    if kickable && is_denied(m, sched, target) {
        count_denied(m, sched, |stats| stats.sub_kick_denied += 1);
    } else if kickable {
        if class == Class::Ext && flags & SCX_KICK_PREEMPT != 0 {
            preempt(m, sched, target);
        }
        if class == Class::Ext && flags & SCX_KICK_WAIT != 0 {
            let kick_sync = m.rqs[target].ext.kick_sync;
            let sync = &mut m.rqs[cpu].ext.kicks.sync;
            sync.retain(|&(other, _)| other != target);
            sync.push((target, kick_sync));
            wait = true;
        }
        resched(m, target, by);
    }
    m.unlock(LockId::Rq(target));
    wait
}

/// Ends the slice of the current task of `target` for a policy, if the policy may preempt it.
fn preempt(m: &mut Machine, sched: SchedId, target: CpuId) {
    let curr = m.rqs[target].curr;
    let needed = if m.ext.enforces_caps() {
        caps::for_preempt(m, sched, target, 0)
    } else {
        0
    };
    if caps::missing(m, sched, target, needed) != 0 {
        count_denied(m, sched, |stats| stats.sub_preempt_denied += 1);
    } else if !rescue::set_slice(m, curr, 0) {
        count_denied(m, sched, |stats| stats.slice_denied += 1);
    }
}

/// Returns whether a policy may not kick `target`, because it has no capability for this CPU.
fn is_denied(m: &Machine, sched: SchedId, target: CpuId) -> bool {
    caps::missing(m, sched, target, SCX_CAP_BASE) != 0
}

/// Counts an event of a policy, which need not be the current one.
#[cold]
fn count_denied(m: &mut Machine, sched: SchedId, count: impl FnOnce(&mut Stats)) {
    sub::in_sched(m, sched, |m| count(&mut m.ext.stats));
}

fn kick_one_if_idle(m: &mut Machine, kick: &Kick) {
    let &Kick { target, by, sched, .. } = kick;
    m.lock(LockId::Rq(target));
    if !can_skip_idle_kick(m, target) && m.layout.online.contains(target) {
        if is_denied(m, sched, target) {
            count_denied(m, sched, |stats| stats.sub_kick_denied += 1);
        } else {
            resched(m, target, by);
        }
    }
    m.unlock(LockId::Rq(target));
}

/// Makes a kicked CPU reschedule.
fn resched(m: &mut Machine, target: CpuId, by: u8) {
    if !m.rqs[target].resched_pending() {
        let is_ipi = target != m.this_cpu && !m.polls(target);
        let counts = &mut m.ext.kicks;
        counts.by[usize::from(by)].reschedules += 1;
        counts.ipis += u64::from(is_ipi);
        m.rqs[target].ext.kicks.kicked_by = by + 1;
    }
    m.resched_curr(target);
}

/// Counts what a kick has achieved. `kicked_by` is the former value of [`Kicks::kicked_by`] of `cpu`,
/// which has rescheduled since its local time `began`. `switched` says whether it switched to a
/// different task.
#[cold]
pub(crate) fn count_effect(m: &mut Machine, cpu: CpuId, kicked_by: u8, began: u64, switched: bool) {
    let ns = m.local_time(cpu) - began;
    let counts = &mut m.ext.kicks;
    match switched {
        true => counts.by[usize::from(kicked_by) - 1].switches += 1,
        false => counts.ns += ns,
    }
}

/// Records that `cpu` reschedules. Releases the CPUs that wait until `cpu` has rescheduled.
#[inline(always)]
pub(super) fn kick_sync(m: &mut Machine, cpu: CpuId) {
    let rq = &mut m.rqs[cpu].ext;
    rq.kick_sync += 1;
    if !rq.kicks.waiters.is_empty() {
        release_waiters(m, cpu);
    }
    // If `cpu` itself spins, it stops, because its current task is being switched out.
    if m.rqs[cpu].spinning {
        end_wait(m, cpu);
    }
}

/// Schedules the start of a wait that SCX_KICK_WAIT requested. The wait begins after the context
/// switch.
#[inline]
pub(super) fn after_balance(m: &mut Machine, cpu: CpuId) {
    let kicks = &mut m.rqs[cpu].ext.kicks;
    if kicks.sync_pending {
        kicks.sync_pending = false;
        kicks.sync_due = true;
        queue_irq_work(m, cpu);
    }
}

/// Makes a CPU spin until all CPUs it waits for have rescheduled (kick_sync_wait_bal_cb).
fn begin_wait(m: &mut Machine, cpu: CpuId) {
    let mut sync = std::mem::take(&mut m.rqs[cpu].ext.kicks.sync);
    sync.retain(|&(target, then)| {
        let rq = &m.rqs[target];
        target != cpu && rq.ext.kick_sync == then && !rq.spinning
    });
    for &(target, _) in &sync {
        m.rqs[target].ext.kicks.waiters.push(cpu);
    }
    let wait = !sync.is_empty();
    m.rqs[cpu].ext.kicks.sync = sync;
    if !wait {
        return;
    }
    kick_sync(m, cpu);
    m.update_curr(cpu);
    let rq = &mut m.rqs[cpu];
    rq.spinning = true;
    // The current task makes no progress while the CPU spins.
    m.events.disarm_step(cpu);
}

#[cold]
fn release_waiters(m: &mut Machine, cpu: CpuId) {
    for waiter in std::mem::take(&mut m.rqs[cpu].ext.kicks.waiters) {
        let kicks = &mut m.rqs[waiter].ext.kicks;
        kicks.sync.retain(|&(target, _)| target != cpu);
        if m.rqs[waiter].spinning && m.rqs[waiter].ext.kicks.sync.is_empty() {
            end_wait(m, waiter);
        }
    }
}

#[cold]
fn end_wait(m: &mut Machine, cpu: CpuId) {
    m.update_curr(cpu);
    let rq = &mut m.rqs[cpu];
    rq.spinning = false;
    rq.ext.kicks.sync.clear();
    let resched = rq.resched_deferred;
    if rq.curr != IDLE {
        m.arm_step(cpu);
    }
    if resched {
        m.defer_resched(cpu);
    }
}

/// Ends the waits of all CPUs, because the policy ends.
pub(super) fn end_all_waits(m: &mut Machine) {
    for cpu in m.cpus() {
        let kicks = &mut m.rqs[cpu].ext.kicks;
        kicks.pending.clear();
        kicks.sync.clear();
        kicks.waiters.clear();
        if m.rqs[cpu].spinning {
            end_wait(m, cpu);
        }
    }
}
