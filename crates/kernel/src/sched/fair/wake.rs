// SPDX-License-Identifier: GPL-2.0-only
//! Choice of a CPU for a woken task (select_task_rq_fair). The CPU is near the task's waker, or
//! near the CPU on which the task ran last.

use super::{fork, idle_scan};
use crate::layout::PF_EXITING;
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::state::entity::WakeHistory;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use machine::Feature;

/// Interval at which a waker's number of flips is halved, ns. A flip is a wake-up of a different
/// task than in the waker's previous wake-up.
const FLIP_DECAY_NS: u64 = 1_000_000_000;

/// Returns the CPU for a woken or new task, or for a task that calls exec() (select_task_rq_fair).
pub(crate) fn select_task_rq(m: &mut Machine, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
    if m.tasks[task].fair.delayed && m.online_cpus.contains(prev_cpu) {
        // A task whose dequeue was delayed is still on its runqueue (ttwu_runnable).
        return prev_cpu;
    }
    let cpu = m.this_cpu;
    let waking = wake_flags & flags::WF_TTWU != 0;
    let mut want_affine = false;
    let waker = m.rqs[cpu].curr;
    let exiting = waker != IDLE && m.tasks[waker].task_struct.flags & PF_EXITING != 0;
    let sync = wake_flags & flags::WF_SYNC != 0 && !exiting;
    if waking {
        record_wakee(m, waker, task);
        let allowed = m.tasks[task].cpus.contains(cpu);
        if wake_flags & flags::WF_CURRENT_CPU != 0 && allowed {
            return cpu;
        }
        want_affine = allowed && !wake_wide(m, waker, task);
    }
    let mut new_cpu = prev_cpu;
    let balance = wake_flags & (flags::WF_FORK | flags::WF_EXEC) != 0;
    let mut top = None;
    for level in 0..m.domains.levels[cpu.index()].len() {
        let span = m.domains.domain_span(cpu, level);
        if want_affine && span.near && span.set.contains(prev_cpu) {
            if cpu != prev_cpu {
                let pct = span.imbalance_pct;
                new_cpu = wake_affine(m, task, prev_cpu, sync, pct);
            }
            top = None;
            break;
        }
        if balance && span.near {
            top = Some(level);
        } else if !want_affine {
            break;
        }
    }
    match top {
        Some(level) => {
            if wake_flags & flags::WF_FORK == 0 {
                m.sync_entity_load_avg(task);
            }
            fork::find_dst_cpu(m, task, level, prev_cpu)
        }
        None if waking => idle_scan::select_idle_sibling(m, task, prev_cpu, new_cpu),
        None => new_cpu,
    }
}

/// Returns the history of a waker's wake-ups. If `waker` is the idle task, an interrupt handler is
/// the waker. The history is then that of the current CPU.
fn wake_history(m: &Machine, waker: TaskId) -> WakeHistory {
    if waker == IDLE {
        return m.rqs[m.this_cpu].fair.idle_wakes;
    }
    let t = &m.tasks[waker];
    WakeHistory {
        last_wakee: t.last_wakee,
        flips: t.wakee_flips,
        decayed_at: t.wakee_flip_decay,
    }
}

/// Records that `waker` wakes `wakee` (record_wakee).
fn record_wakee(m: &mut Machine, waker: TaskId, wakee: TaskId) {
    let mut wakes = wake_history(m, waker);
    if m.now > wakes.decayed_at + FLIP_DECAY_NS {
        wakes.flips >>= 1;
        wakes.decayed_at = m.now;
    }
    if wakes.last_wakee != wakee {
        wakes.last_wakee = wakee;
        wakes.flips += 1;
    }
    if waker == IDLE {
        let cpu = m.this_cpu;
        m.rqs[cpu].fair.idle_wakes = wakes;
        return;
    }
    let t = &mut m.tasks[waker];
    (t.last_wakee, t.wakee_flips, t.wakee_flip_decay) = (wakes.last_wakee, wakes.flips, wakes.decayed_at);
}

/// Returns whether the waker and the wakee wake so many different tasks that one LLC would not have
/// enough CPUs for them. The wakee is then not pulled to the waker's CPU (wake_wide).
fn wake_wide(m: &mut Machine, waker: TaskId, wakee: TaskId) -> bool {
    let (a, b) = (wake_history(m, waker).flips, m.tasks[wakee].wakee_flips);
    let (master, slave) = (a.max(b), a.min(b));
    let cpu = m.this_cpu;
    let factor = m.domains.llc(cpu).weight;
    slave >= factor && master >= slave * factor
}

/// Returns the CPU near which the task should run: the waker's CPU or the task's previous CPU
/// (wake_affine).
fn wake_affine(m: &mut Machine, task: TaskId, prev_cpu: CpuId, sync: bool, imbalance_pct: u64) -> CpuId {
    let this_cpu = m.this_cpu;
    let line = m.spec.costs.cache_line.at(m.distance(this_cpu, prev_cpu));
    m.charge_here(line);
    let mut target = None;
    if m.sched_feat(Feature::WaIdle) {
        target = wake_affine_idle(m, prev_cpu, sync);
    }
    if target.is_none() && m.sched_feat(Feature::WaWeight) {
        target = wake_affine_weight(m, task, prev_cpu, sync, imbalance_pct);
    }
    if target == Some(this_cpu) { this_cpu } else { prev_cpu }
}

/// Returns a CPU on which the task could run immediately, or `None` (wake_affine_idle).
///
/// If the waker's CPU is idle, the waker is an interrupt handler. This function then returns the
/// waker's CPU only if it shares an LLC with `prev_cpu`.
fn wake_affine_idle(m: &Machine, prev_cpu: CpuId, sync: bool) -> Option<CpuId> {
    let this_cpu = m.this_cpu;
    let prev_idle = idle_scan::available_idle_cpu(m, prev_cpu);
    if idle_scan::available_idle_cpu(m, this_cpu) && m.domains.share_cache(this_cpu, prev_cpu) {
        return Some(if prev_idle { prev_cpu } else { this_cpu });
    }
    let rq = &m.rqs[this_cpu];
    let delayed = rq.fair.cfs.h_nr_queued - rq.fair.cfs.h_nr_runnable;
    if sync && rq.nr_running - delayed == 1 {
        return Some(this_cpu);
    }
    prev_idle.then_some(prev_cpu)
}

/// Returns the waker's CPU if its load, in relation to its capacity, is less than that of the
/// previous CPU (wake_affine_weight).
fn wake_affine_weight(m: &mut Machine, task: TaskId, prev_cpu: CpuId, sync: bool, imbalance_pct: u64) -> Option<CpuId> {
    let this_cpu = m.this_cpu;
    let mut this_load = m.cpu_load(this_cpu) as i64;
    if sync {
        let current = m.current_h_load(this_cpu) as i64;
        if current > this_load {
            return Some(this_cpu);
        }
        this_load -= current;
    }
    let task_load = m.task_h_load(task) as i64;
    let mut prev_load = m.cpu_load(prev_cpu) as i64 - task_load;
    let (this_capacity, prev_capacity) = (m.capacity_of(this_cpu) as i64, m.capacity_of(prev_cpu) as i64);
    let bias = match m.sched_feat(Feature::WaBias) {
        true => (imbalance_pct as i64 - 100) / 2,
        false => 0,
    };
    this_load = (this_load + task_load) * 100 * prev_capacity;
    prev_load = prev_load * (100 + bias) * this_capacity + i64::from(sync);
    (this_load < prev_load).then_some(this_cpu)
}
