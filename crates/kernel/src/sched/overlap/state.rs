// SPDX-License-Identifier: GPL-2.0-only
//! State of callbacks that overlap.

use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::ext::state::core::{DirectDispatch, DispatchContext};
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::overlap::detector::state::Detector;
use crate::sched::state::rq::Entry;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::simulation::timeline::LockId;
use crate::watch::state::stepped::Mover;
use bpf::engine::{AccessKind, Execution};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::collections::VecDeque;

/// What must be free before the handler of an event begins.
pub(crate) enum Needs {
    /// The CPU that executes the handler.
    Cpu(CpuId),
    /// All CPUs.
    All,
    /// Nothing: the handler executes no BPF code and changes no queue.
    Nothing,
}

/// A forced switch: the CPU that reaches a point is delayed there, and other CPUs continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// Number of the point, counted from 1 in the order in which the CPUs reach points.
    pub point: u64,
    /// Length of the delay in simulated ns.
    pub ns: u64,
}

/// Priorities of the CPUs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Priorities {
    /// Priority of each CPU. Missing ones are 0.
    pub cpus: Vec<i64>,
    /// Points at which the priority of the running CPU drops below all others, in order. The CPU is
    /// also delayed there, because the others may be outside of handlers at this moment.
    pub drops: VecDeque<Hold>,
}

/// What a run with overlapping callbacks does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The forced switches, ordered by point.
    pub holds: Vec<Hold>,
    /// Whether all shared accesses are kept in [`Overlap::steps`].
    pub record: bool,
    /// Priorities of the CPUs, which add further forced switches.
    pub priorities: Option<Priorities>,
}

/// One shared access or call of a helper, for a listing of an interleaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Local time of the CPU, ns.
    pub time: u64,
    pub cpu: CpuId,
    /// The callback, or `None` for a timer or other BPF code.
    pub op: Option<Callback>,
    /// Number of the callback in the run. Two steps of one callback have the same number.
    pub callback: u64,
    pub pc: usize,
    pub kind: AccessKind,
    /// Address of the variable, or the first argument of a call.
    pub addr: u64,
    /// Number of bytes, 0 for a call.
    pub size: u8,
    /// The loaded or stored value, 0 for a call.
    pub value: u64,
    /// Name of the helper or kfunc that is called.
    pub callee: Option<&'static str>,
    /// Length of the forced delay before the access, ns; 0 if there was none.
    pub held_ns: u64,
}

/// Fields of the machine that belong to the running handler.
pub(crate) struct Saved {
    pub this_cpu: CpuId,
    pub entry: Entry,
    pub frame: Frame,
    pub direct: DirectDispatch,
    pub dsp: DispatchContext,
    pub irq_work: Vec<CpuId>,
    pub mover: Mover,
}

impl Saved {
    pub(crate) fn new(cpu: CpuId) -> Saved {
        Saved {
            this_cpu: cpu,
            entry: Entry::default(),
            frame: Frame::NONE,
            direct: DirectDispatch::Closed,
            dsp: DispatchContext::default(),
            irq_work: Vec::new(),
            mover: Mover::None,
        }
    }

    /// Exchanges these fields with those of the machine.
    pub(crate) fn switch(&mut self, m: &mut Machine) {
        std::mem::swap(&mut self.this_cpu, &mut m.this_cpu);
        std::mem::swap(&mut self.entry, &mut m.entry);
        std::mem::swap(&mut self.frame, &mut m.ext.frame);
        std::mem::swap(&mut self.direct, &mut m.ext.direct);
        std::mem::swap(&mut self.dsp, &mut m.ext.dsp);
        std::mem::swap(&mut self.irq_work, &mut m.ext.irq_work);
        std::mem::swap(&mut self.mover, &mut m.mover);
    }
}

pub(crate) type Handler = Coroutine<(), (), (), DefaultStack>;

/// An event handler that has begun and not ended. It runs on its own stack.
pub(crate) struct Slot {
    /// CPU on which the handler runs.
    pub cpu: CpuId,
    /// `None` while the handler runs.
    pub coroutine: Option<Handler>,
    pub yielder: *const Yielder<(), ()>,
    pub saved: Saved,
    pub execution: Option<Execution>,
    /// Value of `Core::enable_seq` when `execution` was created.
    pub policy: u64,
    /// Number of instructions that the policy had executed when the handler was suspended.
    pub executed: u64,
    /// Locks that the handler holds: those of runqueues, and bpf_spin_locks.
    pub locks: Vec<LockId>,
    /// Whether the slot contains a handler.
    pub used: bool,
    /// Number of times that the slot's handlers have been continued. An [`Event::Resume`] with a
    /// different number is out of date.
    pub generation: u32,
    /// Number of the last point that the slot's handlers have reached.
    pub point: u64,
    /// Whether the handler waits for a suspended one.
    pub waits: bool,
    /// Time for which CPUs of a higher priority have delayed the handler, ns.
    pub outranked_ns: u64,
}

/// State of a machine whose callbacks overlap.
pub struct Overlap {
    pub(crate) holds: VecDeque<Hold>,
    pub(crate) priorities: Option<Priorities>,
    /// The forced switches that the priorities have caused.
    pub ranked: Vec<Hold>,
    pub(crate) record: bool,
    /// Number of points that CPUs have reached.
    pub points: u64,
    /// Number of forced switches that took place.
    pub nr_held: u64,
    /// Number of times that a handler waited for a lock of a suspended one.
    pub nr_waits: u64,
    /// Number of handlers that were suspended at least once, by a hold or by the order of time.
    pub nr_suspended: u64,
    pub(crate) slots: Vec<Slot>,
    /// Slot of the running handler, or `None` outside of such handlers.
    pub(crate) running: Option<usize>,
    /// Events of CPUs that were executing a handler.
    pub(crate) waiting: Vec<Event>,
    /// Events whose handlers run while no other handler is suspended.
    pub(crate) alone: VecDeque<Event>,
    /// An event that was taken from the queue because the running handler made way for it.
    pub(crate) next: Option<(u64, Event)>,
    pub detector: Detector,
    pub steps: Vec<Step>,
    /// Delay before the access that is about to be recorded.
    pub(crate) held_ns: u64,
}

impl Overlap {
    pub(crate) fn new(plan: Plan, nr_cpus: u32) -> Overlap {
        Overlap {
            holds: plan.holds.into(),
            priorities: plan.priorities,
            ranked: Vec::new(),
            record: plan.record,
            points: 0,
            nr_held: 0,
            nr_waits: 0,
            nr_suspended: 0,
            slots: Vec::new(),
            running: None,
            waiting: Vec::new(),
            alone: VecDeque::new(),
            next: None,
            detector: Detector::new(nr_cpus),
            steps: Vec::new(),
            held_ns: 0,
        }
    }

    /// Returns whether a handler is suspended.
    pub(crate) fn is_any_suspended(&self) -> bool {
        self.slots.iter().any(|slot| slot.used && slot.coroutine.is_some())
    }

    /// Returns the suspended handlers.
    pub(crate) fn suspended(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.used && slot.coroutine.is_some())
    }

    /// Returns whether a suspended handler holds a lock.
    pub(crate) fn is_held(&self, lock: LockId) -> bool {
        self.suspended().any(|slot| slot.locks.contains(&lock))
    }
}

impl Drop for Overlap {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let Some(coroutine) = slot.coroutine.as_mut().filter(|coroutine| !coroutine.done()) {
                // SAFETY: the frames of the handler are forgotten without their destructors, which
                // only leaks memory. They are not entered again.
                unsafe { coroutine.force_reset() };
            }
        }
    }
}
