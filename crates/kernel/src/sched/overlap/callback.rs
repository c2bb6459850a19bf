// SPDX-License-Identifier: GPL-2.0-only
//! Begins and ends callbacks that overlap: the locks that a callback holds, and what orders it after
//! earlier callbacks.

use super::detector::state::SyncId;
use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::ext::state::ops_table::Frame;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::timeline::LockId;

/// The task that a callback is about, by its address. Callbacks about one task follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    None,
    Task(u64),
    /// The task is new: its memory may have belonged to a task that has exited.
    NewTask(u64),
    /// The task's memory is free after the callback.
    OldTask(u64),
}

/// Returns the task that a callback is about.
pub(crate) fn subject(m: &Machine, op: Callback, args: &[u64]) -> Subject {
    let first = args.first().copied().unwrap_or(0);
    match op {
        Callback::InitTask => Subject::NewTask(first),
        Callback::ExitTask => Subject::OldTask(first),
        Callback::Enable | Callback::Disable | Callback::SetWeight | Callback::SetCpumask => Subject::Task(first),
        _ if m.ext.frame.task != IDLE => Subject::Task(m.tasks[m.ext.frame.task].addr()),
        _ => Subject::None,
    }
}

/// A callback that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    /// Number of the callback that this callback interrupts.
    interrupted: u64,
    /// Runqueue that the beginning of the callback has locked. `None` if the handler had locked it
    /// before.
    locked: Option<CpuId>,
    subject: Subject,
    /// The CPU's current task. Callbacks that its calls and interrupts cause follow one another, also on
    /// different CPUs: it moves with a context switch.
    current: Option<u64>,
}

/// Begins a callback with the locks in `frame`.
#[cold]
pub(crate) fn begin_callback(m: &mut Machine, frame: Frame, subject: Subject) -> Begun {
    let holds = |m: &Machine, cpu| {
        let overlap = m.overlap.as_ref();
        let slot = overlap.and_then(|overlap| Some(&overlap.slots[overlap.running?]));
        slot.is_some_and(|slot| slot.locks.contains(&LockId::Rq(cpu)))
    };
    let locked = frame.locked_cpu.filter(|&cpu| !holds(m, cpu));
    if let Some(cpu) = locked {
        m.overlap_lock(LockId::Rq(cpu));
    }
    let cpu = m.this_cpu;
    let current = m.rqs[cpu].curr;
    let current = (current != IDLE).then(|| m.tasks[current].addr());
    let interrupted = m.overlap.as_mut().map_or(0, |overlap| {
        let detector = &mut overlap.detector;
        if let Some(current) = current {
            detector.acquire(cpu, SyncId::Task(current));
        }
        match subject {
            Subject::None => {}
            Subject::Task(task) | Subject::OldTask(task) => detector.acquire(cpu, SyncId::Task(task)),
            Subject::NewTask(task) => {
                detector.acquire(cpu, SyncId::Task(task));
                detector.acquire(cpu, SyncId::Allocator);
            }
        }
        detector.begin_callback(cpu)
    });
    Begun {
        interrupted,
        locked,
        subject,
        current,
    }
}

#[cold]
pub(crate) fn end_callback(m: &mut Machine, begun: Begun) {
    let cpu = m.this_cpu;
    if let Some(overlap) = m.overlap.as_mut() {
        let detector = &mut overlap.detector;
        detector.end_callback(cpu, begun.interrupted);
        if let Some(current) = begun.current {
            detector.release(cpu, SyncId::Task(current));
        }
        match begun.subject {
            Subject::None => {}
            Subject::Task(task) | Subject::NewTask(task) => detector.release(cpu, SyncId::Task(task)),
            Subject::OldTask(task) => {
                detector.release(cpu, SyncId::Task(task));
                detector.release(cpu, SyncId::Allocator);
            }
        }
    }
    if let Some(locked) = begun.locked {
        m.overlap_unlock(LockId::Rq(locked));
    }
}
