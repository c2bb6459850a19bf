// SPDX-License-Identifier: GPL-2.0-only
//! Callbacks of a policy that overlap: CPUs get in between the accesses of a callback to memory
//! that CPUs share.
//!
//! Every event handler runs on a stack of its own (a coroutine). It is suspended at a point: before
//! a shared access, or before a call of a helper or kfunc. Meanwhile the event loop handles the
//! events of other CPUs, and then the handler continues.
//!
//! ```text
//! CPU 0   |= ops.enqueue(): load x =|         hold         |= store x =|
//! CPU 1                                |= ops.dispatch(): load x, store x =|
//! ```
//!
//! - The order is that of local time: a handler makes way for events and handlers that come before
//!   the time that its CPU has reached. A [`Hold`] delays the CPU at one point, as an interrupt or
//!   a hypervisor would. The same plan of holds yields the same run.
//! - What may overlap follows from the kernel's locks. A handler that needs the lock of a runqueue
//!   or a bpf_spin_lock waits until the suspended holder has released it. No handler begins on a
//!   CPU that executes one, or whose runqueue a suspended handler has locked.
//! - Handlers of rare events run alone: forks, hotplug, changes of cgroups other than moves of
//!   tasks, the watchdog, and the steps in which a policy is disabled.
//!
//! The part of the kernel between two points is indivisible.

mod callback;
pub mod detector;
mod point;
mod priority;
pub mod state;
#[cfg(test)]
mod tests;

pub(crate) use callback::{Subject, begin_callback, end_callback, subject};
pub(crate) use point::{accessed, point};

use crate::machine::Machine;
use crate::sched::ext::ops;
use crate::sched::ext::state::core::Ending;
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use corosensei::Coroutine;
use corosensei::stack::{DefaultStack, Stack};
use detector::state::SyncId;
use state::*;
use workload::Action;

/// Size of the stack of a handler in bytes. BPF code needs 385 KiB of it
/// (`bpf::engine::host_stack`), and the rest is for the frames of the simulated kernel.
const STACK: usize = 2 << 20;
/// Interval at which a waiting handler tests whether it can continue, ns.
const POLL_NS: u64 = 200;
/// A handler that waits longer than this waits for a handler that waits for it. The longest delay
/// that a plan may contain is far shorter ([`MAX_HOLD_NS`]).
const LOCKUP_NS: u64 = 4_000_000;
/// Longest delay at one point, ns. A longer one is shortened.
pub(crate) const MAX_HOLD_NS: u64 = 500_000;

/// Why callbacks cannot overlap.
#[derive(Debug, thiserror::Error)]
pub enum OverlapError {
    #[error("not supported: callbacks of sub-schedulers that overlap")]
    SubSchedulers,
    #[error("not supported: callbacks that overlap on a machine whose CPUs run in turn (its key turns)")]
    Turns,
    #[error("only the callbacks of a policy can overlap")]
    NoPolicy,
    #[error(transparent)]
    Engine(#[from] bpf::error::Error),
}

impl Machine {
    /// Makes the callbacks of the loaded policy overlap from now on.
    ///
    /// # Errors
    /// The callbacks of this policy, or on this machine, cannot overlap.
    pub fn overlap_callbacks(&mut self, plan: Plan) -> Result<(), OverlapError> {
        if self.ext.has_subs() {
            return Err(OverlapError::SubSchedulers);
        }
        if self.turns.is_some() {
            return Err(OverlapError::Turns);
        }
        let policy = self.ext.policy.as_mut().ok_or(OverlapError::NoPolicy)?;
        policy.vm.overlap()?;
        self.overlap = Some(Box::new(Overlap::new(plan, self.nr_cpus())));
        self.locks.observed = true;
        Ok(())
    }

    /// Returns the state of overlapping callbacks, or `None` if they do not overlap.
    pub fn overlap(&self) -> Option<&Overlap> {
        self.overlap.as_deref()
    }

    /// Returns what must be free before the handler of an event begins.
    pub(crate) fn needs(&self, event: &Event) -> Needs {
        match *event {
            Event::ExtDeferred { .. } if self.ext.ending != Ending::No => Needs::All,
            Event::Step { cpu }
            | Event::Resched { cpu }
            | Event::WorkDone { cpu }
            | Event::Wakeups { cpu }
            | Event::Tick { cpu, .. }
            | Event::Hrtick { cpu }
            | Event::HrtickStart { cpu }
            | Event::TickKick { cpu }
            | Event::CfsUnthrottle { cpu }
            | Event::NohzBalance { cpu }
            | Event::RtPush { cpu }
            | Event::DlServer { cpu, .. }
            | Event::ExtDeferred { cpu }
            | Event::ExtRescue { cpu } => Needs::Cpu(cpu),
            Event::Wake { task, generation } if self.tasks[task].wake_generation == generation => {
                Needs::Cpu(self.online_or_first(self.wake_cpu(task)))
            }
            Event::BpfTimer { timer, generation } => {
                let cpu = self.bpf_timer_cpu(timer, generation);
                cpu.map_or(Needs::Nothing, |cpu| Needs::Cpu(self.online_or_first(cpu)))
            }
            Event::Noise { source } => Needs::Cpu(self.noise_cpu(source)),
            // The user who moves tasks into a cgroup executes on the first CPU (run_as_user()).
            Event::Disturb { index } if self.moves_tasks(index) => {
                Needs::Cpu(self.online_cpus.first().unwrap_or(CpuId::BOOT))
            }
            Event::Wake { .. } | Event::Frequency { .. } | Event::Resume { .. } | Event::Turn { .. } => Needs::Nothing,
            _ => Needs::All,
        }
    }

    /// Returns whether the running handler can be suspended.
    pub(crate) fn is_handler_overlapped(&self) -> bool {
        self.overlap.as_ref().is_some_and(|overlap| overlap.running.is_some())
    }

    fn moves_tasks(&self, index: u32) -> bool {
        let disturbance = self.workload.disturbances.get(index as usize);
        disturbance.is_some_and(|disturbance| matches!(disturbance.action, Action::Attach { .. }))
    }

    /// Returns whether the handler of an event may begin. If it may not, the event is kept until a
    /// handler has ended.
    pub(crate) fn admit(&mut self, event: Event) -> bool {
        let needs = self.needs(&event);
        let Some(overlap) = self.overlap.as_mut() else {
            return true;
        };
        for slot in overlap.slots.iter().filter(|slot| slot.used) {
            // A suspended CPU executes kernel code all the time.
            self.rqs[slot.cpu].free_at = self.rqs[slot.cpu].free_at.max(self.now);
        }
        let may_begin = match needs {
            Needs::Nothing => true,
            Needs::All => {
                let alone = !overlap.is_any_suspended();
                if alone {
                    overlap.detector.barrier();
                } else {
                    overlap.alone.push_back(event);
                }
                return alone;
            }
            Needs::Cpu(cpu) => {
                overlap.alone.is_empty()
                    && overlap.suspended().all(|slot| slot.cpu != cpu)
                    && !overlap.is_held(LockId::Rq(cpu))
            }
        };
        if !may_begin {
            overlap.waiting.push(event);
            if let Event::Step { cpu } = event {
                // A step event stays in the queue until it is moved or removed.
                self.events.disarm_step(cpu);
            }
        }
        may_begin
    }

    /// Handles an event on a stack of its own, until it ends or is suspended.
    pub(crate) fn handle_overlapped(&mut self, event: Event) {
        if let Event::Resume { slot, generation } = event {
            let slots = self.overlap.as_ref().map(|overlap| &overlap.slots);
            let slot = slot as usize;
            if slots.is_some_and(|slots| slots[slot].used && slots[slot].generation == generation) {
                self.continue_handler(slot);
            }
            return;
        }
        let Needs::Cpu(cpu) = self.needs(&event) else {
            return self.handle(event);
        };
        if self.ext.policy.is_none() || self.overlap.is_none() {
            return self.handle(event);
        }
        let slot = self.new_slot(cpu, event);
        match slot {
            Some(slot) => self.continue_handler(slot),
            // The host or the run has no memory for one more stack.
            None => self.handle(event),
        }
    }

    /// Returns a free slot that contains the handler of `event`.
    fn new_slot(&mut self, cpu: CpuId, event: Event) -> Option<usize> {
        let machine = &raw mut *self;
        let policy = self.ext.enable_seq;
        let overlap = self.overlap.as_mut()?;
        let index = overlap.slots.iter().position(|slot| !slot.used);
        let index = match index {
            Some(index) => index,
            None => {
                overlap.slots.push(Slot {
                    cpu,
                    coroutine: None,
                    yielder: std::ptr::null(),
                    saved: Saved::new(cpu),
                    execution: None,
                    policy,
                    executed: 0,
                    locks: Vec::new(),
                    used: false,
                    generation: 0,
                    point: 0,
                    waits: false,
                    outranked_ns: 0,
                });
                overlap.slots.len() - 1
            }
        };
        let slot = &mut overlap.slots[index];
        let stack = match slot.coroutine.take() {
            Some(ended) => ended.into_stack(),
            None => DefaultStack::new(STACK).ok()?,
        };
        if slot.execution.is_none() || slot.policy != policy {
            let end = stack.limit().get() as u64;
            // SAFETY: the call runs on the stack that ends at `end`. `policy` identifies the VM.
            slot.execution = Some(unsafe { self.ext.policy.as_ref()?.vm.execution(end).ok()? });
            slot.policy = policy;
        }
        slot.cpu = cpu;
        slot.locks.clear();
        slot.outranked_ns = 0;
        slot.saved = Saved::new(cpu);
        slot.used = true;
        slot.coroutine = Some(Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: `continue_handler` is the only caller, and it borrows the machine at this address:
            // `advance` ends all handlers before it returns, so no machine with handlers is moved.
            let m = unsafe { &mut *machine };
            if let Some(overlap) = &mut m.overlap {
                overlap.slots[index].yielder = yielder;
            }
            m.handle(event);
        }));
        Some(index)
    }

    /// Continues a handler until it ends or is suspended again.
    pub(crate) fn continue_handler(&mut self, index: usize) {
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        let slot = &mut overlap.slots[index];
        let (Some(mut coroutine), Some(mut execution)) = (slot.coroutine.take(), slot.execution.take()) else {
            return;
        };
        slot.generation = slot.generation.wrapping_add(1);
        let mut saved = std::mem::replace(&mut slot.saved, Saved::new(slot.cpu));
        let cpu = slot.cpu;
        let executed = slot.executed;
        overlap.running = Some(index);
        saved.switch(self);
        // SAFETY: only the coroutine, on its own stack, runs the call of `execution`, and the VM has
        // the state of this call meanwhile. No policy is removed while a handler is suspended
        // (`Needs::All`), so `execution` belongs to this VM.
        unsafe { self.ext.vm().switch(&mut execution) };
        if coroutine.started() {
            // The CPU has executed kernel code until now.
            self.rqs[cpu].free_at = self.rqs[cpu].free_at.max(self.now);
            self.ext.frame.nested += self.ext.vm().executed() - executed;
        }
        let done = coroutine.resume(()).as_return().is_some();
        // SAFETY: as above. The coroutine does not run now.
        unsafe { self.ext.vm().switch(&mut execution) };
        saved.switch(self);
        let executed = self.ext.vm().executed();
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        overlap.running = None;
        let slot = &mut overlap.slots[index];
        slot.coroutine = Some(coroutine);
        slot.execution = Some(execution);
        slot.saved = saved;
        slot.executed = executed;
        if done {
            slot.used = false;
            slot.locks.clear();
            self.readmit();
        }
    }

    /// Puts the events that waited for the end of a handler back into the queue.
    fn readmit(&mut self) {
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        let mut events = Vec::new();
        if !overlap.slots.iter().any(|slot| slot.used) {
            events.extend(overlap.alone.drain(..));
        }
        events.append(&mut overlap.waiting);
        for event in events {
            match event {
                Event::Step { cpu } => {
                    if self.rqs[cpu].curr != IDLE && !self.rqs[cpu].spinning {
                        self.arm_step(cpu);
                    }
                }
                Event::Tick { cpu, generation } => self.events.push_tick(self.now, cpu, generation),
                _ => self.events.push(self.now, event),
            }
        }
    }

    /// Continues all suspended handlers until they have ended.
    pub(crate) fn end_handlers(&mut self) {
        while let Some(overlap) = &self.overlap {
            let next = overlap.slots.iter().position(|slot| slot.used);
            let Some(next) = next else { return };
            // Handlers may wait for one another, so each one gets a turn.
            let nr = overlap.slots.len();
            self.now += POLL_NS;
            for index in (next..nr).chain(0..next) {
                if self.overlap.as_ref().is_some_and(|overlap| overlap.slots[index].used) {
                    self.continue_handler(index);
                }
            }
        }
    }

    /// Returns whether handlers are suspended, so that the machine's state is in the middle of
    /// changes.
    pub(crate) fn is_any_suspended(&self) -> bool {
        self.overlap.as_ref().is_some_and(|overlap| overlap.is_any_suspended())
    }

    /// Suspends the running handler until `at`.
    fn suspend_handler(&mut self, at: u64) {
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        let Some(slot) = overlap.running else { return };
        let yielder = overlap.slots[slot].yielder;
        let slot_number = slot as u32;
        let generation = overlap.slots[slot].generation;
        self.events.push(
            at,
            Event::Resume {
                slot: slot_number,
                generation,
            },
        );
        // SAFETY: the handler runs on the coroutine that this yielder belongs to. Everything that
        // the handler has borrowed from the machine is accessed through `self`, which the machine
        // passes to this function.
        unsafe { (*yielder).suspend(()) };
    }

    /// Suspends the running handler again and again until `is_free` holds. Returns false if this
    /// takes so long that CPUs wait for each other.
    fn wait_until(&mut self, is_free: impl Fn(&Machine) -> bool) -> bool {
        if self.overlap.as_ref().is_none_or(|overlap| overlap.running.is_none()) || is_free(self) {
            return true;
        }
        ops::settle_any(self);
        if let Some(overlap) = &mut self.overlap {
            overlap.nr_waits += 1;
        }
        let began = self.now;
        self.set_waits(true);
        while !is_free(self) && self.now - began <= LOCKUP_NS {
            self.suspend_handler(self.now + POLL_NS);
        }
        self.set_waits(false);
        is_free(self)
    }

    /// Records whether the running handler waits for a suspended one.
    fn set_waits(&mut self, waits: bool) {
        if let Some(overlap) = &mut self.overlap
            && let Some(slot) = overlap.running
        {
            overlap.slots[slot].waits = waits;
        }
    }

    fn is_held_elsewhere(&self, lock: LockId) -> bool {
        self.overlap.as_ref().is_some_and(|overlap| overlap.is_held(lock))
    }

    /// Waits until no suspended handler has locked the runqueue of `cpu`, before the runqueue is
    /// changed.
    #[inline(always)]
    pub(crate) fn await_rq(&mut self, cpu: CpuId) {
        if self.overlap.is_some() {
            self.await_lock(LockId::Rq(cpu));
        }
    }

    /// Waits until no suspended handler has locked the task or its runqueue (task_rq_lock).
    #[inline]
    pub(crate) fn await_task(&mut self, task: TaskId) {
        if self.overlap.is_some() {
            self.wait_until(|m| {
                let cpu = m.tasks[task].cpu();
                let mut handlers = m.overlap.iter().flat_map(|overlap| overlap.suspended());
                !m.tasks[task].ext.migrating
                    && !m.is_held_elsewhere(LockId::Rq(cpu))
                    && handlers.all(|slot| slot.saved.frame.task != task)
            });
        }
    }

    /// Waits until a task that is about to sleep has left its CPU (`p->on_cpu`), before it is woken.
    #[inline]
    pub(crate) fn await_off_cpu(&mut self, task: TaskId) {
        if self.overlap.is_some() {
            self.wait_until(|m| {
                let cpu = m.tasks[task].cpu();
                let mut handlers = m.overlap.iter().flat_map(|overlap| overlap.suspended());
                let leaves = m.tasks[task].on_cpu();
                handlers.all(|slot| !(leaves && slot.cpu == cpu) && slot.saved.frame.task != task)
            });
        }
    }

    /// Waits while ops.enqueue() runs for the task on a different CPU (wait_ops_state).
    #[inline]
    pub(crate) fn await_queued(&mut self, task: TaskId) {
        if self.overlap.is_some() {
            self.wait_until(|m| m.tasks[task].ext.ops_state != OpsState::Queueing);
        }
    }

    /// Waits until no suspended handler holds a lock. Returns false if CPUs wait for each other.
    #[cold]
    pub(crate) fn await_lock(&mut self, lock: LockId) -> bool {
        self.wait_until(|m| !m.is_held_elsewhere(lock))
    }

    /// Acquires a lock for the running handler, after a suspended holder has released it.
    #[cold]
    pub(crate) fn overlap_lock(&mut self, lock: LockId) {
        if !matches!(lock, LockId::Dsq { .. }) {
            self.await_lock(lock);
        }
        let cpu = self.this_cpu;
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        overlap.detector.acquire(cpu, SyncId::Lock(lock));
        if let Some(slot) = overlap.running {
            overlap.slots[slot].locks.push(lock);
        }
    }

    #[cold]
    pub(crate) fn overlap_unlock(&mut self, lock: LockId) {
        let cpu = self.this_cpu;
        let Some(overlap) = self.overlap.as_mut() else {
            return;
        };
        overlap.detector.release(cpu, SyncId::Lock(lock));
        if let Some(slot) = overlap.running {
            let locks = &mut overlap.slots[slot].locks;
            if let Some(at) = locks.iter().rposition(|held| *held == lock) {
                locks.remove(at);
            }
        }
    }

    /// Orders the earlier accesses of the current CPU before the accesses that follow
    /// [`Machine::observe_published`] of the same address.
    #[inline]
    pub(crate) fn publish(&mut self, addr: u64) {
        if let Some(overlap) = &mut self.overlap {
            overlap.detector.release(self.this_cpu, SyncId::Address(addr));
        }
    }

    /// Orders the accesses before [`Machine::publish`] before the next ones of the current CPU.
    #[inline]
    pub(crate) fn observe_published(&mut self, addr: u64) {
        if let Some(overlap) = &mut self.overlap {
            overlap.detector.acquire(self.this_cpu, SyncId::Address(addr));
        }
    }
}
