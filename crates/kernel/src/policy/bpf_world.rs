// SPDX-License-Identifier: GPL-2.0-only
//! Implements the trait through which BPF programs and helpers use the simulated kernel: clocks,
//! locks, timers, random numbers and the log.

use crate::layout::callbacks::{Callback, kf};
use crate::layout::{ENABLE_HELPER_COMM, ENABLE_HELPER_PID};
use crate::machine::Machine;
use crate::policy::kfuncs;
use crate::sched::ext::ops;
use crate::sched::ext::state::loaded::Timer;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::{self, dump, exit, sub};
use crate::sched::overlap::{self, Subject};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::timeline::LockId;
use bpf::engine::{Access, Vm, World};
use bpf::fault::Fault;
use bpf::map::kind;
use bpf::memory::{RECORD, Region, Use};

/// BPF_F_TIMER_ABS: the expiry is an absolute time.
const TIMER_ABS: u64 = 1;
/// BPF_F_TIMER_CPU_PIN: the timer stays on the CPU that starts it.
const TIMER_CPU_PIN: u64 = 2;

impl World for Machine {
    fn region(&self) -> &Region {
        &self.region
    }

    fn vm(&self) -> &Vm<Machine> {
        self.ext.vm()
    }

    /// Returns the local time of the CPU. This is the start of the current handler plus all time
    /// that was charged to the CPU since then. It includes the instructions that the program has
    /// executed.
    fn now_ns(&self) -> u64 {
        self.local_time(self.this_cpu) + ops::unsettled_ns(self)
    }

    /// Returns the time of the last tick. All CPUs have the same value, because one CPU keeps the
    /// time for all of them.
    fn coarse_ns(&self) -> u64 {
        let now = World::now_ns(self);
        now.saturating_sub((now + self.since_tick_ns) % self.tick_ns())
    }

    fn jiffies(&self) -> u64 {
        Machine::jiffies(self)
    }

    fn cpu(&self) -> u32 {
        self.this_cpu.nr()
    }

    fn nr_cpu_ids(&self) -> u32 {
        self.nr_cpus()
    }

    fn distributed_cpu(&self) -> u32 {
        self.rqs[self.this_cpu].distribute_cpu_mask_prev.nr()
    }

    fn set_distributed_cpu(&mut self, cpu: u32) {
        if let Some(cpu) = self.cpu_id(cpu) {
            self.rqs[self.this_cpu].distribute_cpu_mask_prev = cpu;
        }
    }

    fn nr_node_ids(&self) -> u32 {
        self.spec.topology.nodes.len() as u32
    }

    /// Returns whether interrupts are disabled. This is so while a runqueue is locked, in
    /// ops.select_cpu() (where the task's pi_lock is held), and while a debug dump is written.
    fn irqs_disabled(&self) -> bool {
        let frame = &self.ext.frame;
        frame.locked_cpu.is_some() || frame.op == Some(Callback::SelectCpu) || dump::is_open(self)
    }

    fn per_cpu_offset(&mut self, cpu: u32) -> u64 {
        if let Some(cpu) = self.cpu_id(cpu) {
            let own = &self.rqs[cpu];
            self.layout
                .rq_struct_mut(cpu)
                .advance(own.clock, own.known_capacity, own.curr == IDLE);
        }
        u64::from(cpu) * self.layout.rq_stride()
    }

    fn current_task(&self) -> u64 {
        if self.ext.enabling {
            self.layout.enable_helper_addr()
        } else if self.ext.launching {
            self.layout.idle_addr(CpuId::BOOT)
        } else {
            self.addr_of_task(self.current(), self.this_cpu)
        }
    }

    fn current_pid_tgid(&self) -> u64 {
        match self.current() {
            _ if self.ext.enabling => u64::from(ENABLE_HELPER_PID) << 32 | u64::from(ENABLE_HELPER_PID),
            _ if self.ext.launching => 0,
            IDLE => 0,
            curr => {
                let t = &self.tasks[curr];
                u64::from(t.tgid()) << 32 | u64::from(t.pid())
            }
        }
    }

    fn current_comm(&self) -> [u8; 16] {
        if self.ext.enabling {
            // Names of tasks have at most 15 characters (TASK_COMM_LEN).
            let mut comm = [0; 16];
            comm[..15].copy_from_slice(&ENABLE_HELPER_COMM.as_bytes()[..15]);
            return comm;
        }
        let curr = self.current();
        let task = if self.ext.launching {
            self.layout.idle_struct(CpuId::BOOT)
        } else if curr == IDLE {
            self.layout.idle_struct(self.this_cpu)
        } else {
            &self.tasks[curr].task_struct
        };
        task.comm.map(|byte| byte as u8)
    }

    fn prandom_u32(&mut self) -> u32 {
        match &mut self.stepped {
            None => self.rng.next_u64() as u32,
            Some(stepped) => stepped.bpf_random[self.this_cpu.index()].next(),
        }
    }

    fn log(&mut self, line: String) -> Result<(), Fault> {
        // The text counts as used memory until it has been passed to the consumer of the trace; see
        // Machine::flush.
        let memory = self.region.memory();
        let bytes = line.len() as u64;
        memory.charge_record(Use::Texts)?;
        memory.charge(Use::Texts, bytes).map_err(|_| memory.fault())?;
        self.texts_bytes += bytes + RECORD;
        self.trace_text(self.this_cpu, trace::Event::Printk { text: line });
        Ok(())
    }

    fn release_object(&mut self, object: u64) {
        // The result is ignored, because the policy still holds the reference that is released
        // here. Therefore no error can occur.
        if let Some(task) = self.task_index(object) {
            let _ = self.put_task(task);
        } else {
            let _ = ext::cgroup::put(self, object);
        }
    }

    /// Returns whether a task or a cgroup can have BPF local storage. A task can have it while
    /// there are references to the task (`usage`). A cgroup can have it until it is removed
    /// (percpu_ref_is_dying()).
    fn can_own_storage(&self, map_kind: u32, owner: u64) -> Result<bool, Fault> {
        if map_kind == kind::CGRP_STORAGE {
            return kfuncs::cgroup::cgroup_at(self, owner).map(|(_, dead)| !dead);
        }
        let (task, _) = kfuncs::any_task(self, owner)?;
        Ok(task == IDLE || !self.is_unreferenced(task))
    }

    fn await_lock(&mut self, lock: u64) -> Result<(), Fault> {
        if self.overlap.is_some() && !Machine::await_lock(self, LockId::Bpf(lock)) {
            let name = self.lock_name(LockId::Bpf(lock));
            return Err(Fault::func(format!(
                "deadlock: CPUs wait for each other, one of them for {name}"
            )));
        }
        Ok(())
    }

    fn ring_posted(&mut self) {
        self.post_native();
    }

    fn before_access(&mut self, access: Access) {
        overlap::point(self, access);
    }

    fn accessed(&mut self, access: Access, value: u64, derived: bool) {
        overlap::accessed(self, access, value, derived);
    }

    fn keeps_kptrs(&self) -> bool {
        self.ext.is_linux_7_3
    }

    fn storage_freed(&mut self, addr: u64, size: u64) {
        if let Some(overlap) = &mut self.overlap {
            overlap.detector.forget(addr, size);
        }
    }

    fn decides(&mut self, addr: u64) {
        let cpu = self.this_cpu;
        if let Some(overlap) = &mut self.overlap {
            overlap.detector.decides(cpu, addr);
        }
    }

    fn spin_lock(&mut self, lock: u64) -> Result<(), Fault> {
        ops::settle_any(self);
        if !self.locks.knows_bpf(lock) {
            self.region.memory().charge_record(Use::Queues)?;
        }
        // The cost of acquiring the lock already includes the transfer of its cache line.
        assert!(self.region.contains(lock), "{lock:#x} is not in the region");
        // SAFETY: the address has just been checked.
        unsafe { self.region.lines().transfer_to(self.this_cpu.nr(), lock) };
        self.lock(LockId::Bpf(lock));
        Ok(())
    }

    fn spin_unlock(&mut self, lock: u64) {
        ops::settle_any(self);
        self.unlock(LockId::Bpf(lock));
    }

    fn timer_start(&mut self, timer: u64, ns: u64, flags: u64) -> Result<(), Fault> {
        // If the expiry is in the past, the timer expires at the local time of the CPU. This time
        // increases while a callback runs, so a callback that restarts its own timer cannot stop
        // the simulated time.
        let now = self.now_ns();
        let target = match flags & TIMER_CPU_PIN {
            0 => self.timer_target(self.this_cpu),
            _ => self.this_cpu,
        };
        let at = if flags & TIMER_ABS != 0 {
            ns.max(now)
        } else {
            now.saturating_add(ns)
        };
        let Some(policy) = &mut self.ext.policy else {
            return Ok(());
        };
        // A timer that is started for the same CPU and time again keeps its place before other timers
        // with that time (hrtimer_can_update_in_place).
        let slot = policy
            .timers
            .by_addr
            .get(&timer)
            .map(|&number| &policy.timers.slots[number as usize]);
        if slot.is_some_and(|slot| slot.pending.is_some() && slot.cpu == target && slot.at == at) {
            self.publish(timer);
            return Ok(());
        }
        // Each other start adds an event to the queue. The event remains there even if the timer is moved
        // or cancelled.
        self.region.memory().charge_record(Use::Timers)?;
        let timers = &mut self.ext.policy.as_mut().expect("the policy was tested above").timers;
        let number = *timers.by_addr.entry(timer).or_insert_with(|| {
            timers.slots.push(Timer {
                addr: timer,
                cpu: CpuId::BOOT,
                at: 0,
                pending: None,
            });
            timers.slots.len() as u32 - 1
        });
        let slot = &mut timers.slots[number as usize];
        self.ext.timer_starts = self.ext.timer_starts.wrapping_add(1);
        let generation = self.ext.timer_starts;
        (slot.cpu, slot.at) = (target, at);
        slot.pending = Some(generation);
        let event = Event::BpfTimer {
            timer: number,
            generation,
        };
        self.publish(timer);
        self.events.push(at, event);
        self.note_timer(target, at, event);
        Ok(())
    }

    fn timer_cancel(&mut self, timer: u64) -> bool {
        let timers = self.ext.policy.as_mut().map(|policy| &mut policy.timers);
        let Some((timers, &number)) = timers.and_then(|timers| Some((&mut timers.slots, timers.by_addr.get(&timer)?)))
        else {
            return false;
        };
        timers[number as usize].pending.take().is_some()
    }
}

/// Runs the callback of an expired timer in interrupt context. It runs on the CPU of the timer, or
/// on another CPU if the timer's CPU is offline. If the callback moves tasks between DSQs, a trace
/// record reports this as load balancing by the policy. Returns false if the event is obsolete.
pub fn timer_fired(m: &mut Machine, timer: u32, generation: u32) -> bool {
    m.region.memory().uncharge_records(Use::Timers, 1);
    let owner = m.bpf_timer_owner(timer, generation);
    owner.is_some_and(|owner| sub::in_sched(m, owner, |m| run_timer(m, timer, generation)))
}

/// Runs the callback of a timer of the current policy. Returns false if the event is obsolete.
fn run_timer(m: &mut Machine, timer: u32, generation: u32) -> bool {
    let timers = m.ext.policy.as_mut().map(|policy| &mut policy.timers.slots);
    let Some(slot) = timers.and_then(|slots| slots.get_mut(timer as usize)) else {
        return false;
    };
    if slot.pending != Some(generation) {
        return false;
    }
    slot.pending = None;
    let (addr, cpu) = (slot.addr, slot.cpu);
    let cpu = m.online_or_first(cpu);
    // The timer interrupt raises HRTIMER_SOFTIRQ, which runs the callback.
    m.enter_timer_irq(cpu);
    m.run_soft_timers(cpu);
    m.charge(cpu, u64::from(m.spec.costs.softirq_ns + m.spec.costs.callback_ns));
    let frame = Frame {
        // The callback of a BPF timer runs in a softirq (HRTIMER_MODE_REL_SOFT).
        interruptible: true,
        ..Frame::NONE
    };
    let outer = std::mem::replace(&mut m.ext.frame, frame);
    let before = m.ext.nr_moved;
    // The callback may call the same kfuncs as the program that set this callback. That program is
    // nearly always ops.init(), which may call the kfuncs in UNLOCKED.
    let begun = m.overlap.is_some().then(|| {
        m.observe_published(addr);
        overlap::begin_callback(m, frame, Subject::None)
    });
    let (result, _) = ops::run(m, kf::UNLOCKED, |m| Vm::run_timer(m, addr));
    if let Some(begun) = begun {
        overlap::end_callback(m, begun);
    }
    m.ext.frame = outer;
    let moved = m.ext.nr_moved.wrapping_sub(before);
    if moved > 0 {
        m.trace(cpu, trace::Event::Balance { moved });
    }
    if let Err(fault) = result {
        exit::fault(m, "a bpf_timer callback", &fault);
    }
    // The callback's deferred work precedes the next timer.
    ext::irq_work(m);
    true
}
