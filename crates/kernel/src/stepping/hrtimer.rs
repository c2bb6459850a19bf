// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts of high-resolution timers that come in vain (kernel/time/hrtimer.c of Linux 7.3).
//!
//! The hardware of a CPU is set to the time of its first timer. Linux sets it anew in each timer
//! interrupt, but not always when a timer is moved or cancelled: it leaves the time of the
//! high-resolution tick (is_lazy), and cannot reach the hardware of a different CPU. The interrupt then
//! comes although no timer is due. It matters, because a task that is interrupted in user mode honours
//! a lazy reschedule request.

use crate::machine::Machine;
use crate::simulation::event::{Event, NEVER};
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::Table;

/// The timers of a stepped machine, as far as interrupts can come in vain.
#[derive(Debug)]
pub(crate) struct Hrtimers {
    /// Time to which the hardware of each CPU is set for the high-resolution tick, ns; NEVER if a
    /// different timer was first when Linux set it.
    hrtick: Table<CpuId, u64>,
    /// Whether the high-resolution tick of a CPU comes before other timers that are due at the same time,
    /// although they were started earlier.
    hrtick_precedes: Table<CpuId, bool>,
    /// Timers of sleeping tasks. A timer remains when the task wakes up early, until the task runs
    /// (schedule_hrtimeout).
    sleeps: Vec<Sleep>,
    /// CPU that handles a timer interrupt. It sets its hardware at the end (deferred_rearm).
    interrupted: Option<CpuId>,
}

#[derive(Debug)]
struct Sleep {
    task: TaskId,
    generation: u32,
    cpu: CpuId,
    /// Whether the task has cancelled the timer on a different CPU.
    cancelled: bool,
}

impl Hrtimers {
    pub(crate) fn new(nr_cpus: u32) -> Hrtimers {
        Hrtimers {
            hrtick: vec![NEVER; nr_cpus as usize].into(),
            hrtick_precedes: vec![false; nr_cpus as usize].into(),
            sleeps: Vec::new(),
            interrupted: None,
        }
    }

    fn sleep(&self, task: TaskId, generation: u32) -> Option<&Sleep> {
        let is_timer = |sleep: &&Sleep| sleep.task == task && sleep.generation == generation;
        self.sleeps.iter().find(is_timer)
    }

    /// Returns the CPU that the timer of a task interrupts, if the timer still exists.
    pub(crate) fn sleep_cpu(&self, task: TaskId, generation: u32) -> Option<CpuId> {
        self.sleep(task, generation).map(|sleep| sleep.cpu)
    }

    /// Moves the timers of a dying CPU to a different one (hrtimers_cpu_dying).
    pub(crate) fn migrate(&mut self, cpu: CpuId, to: CpuId) {
        let sleeps = self.sleeps.iter_mut().filter(|sleep| sleep.cpu == cpu);
        sleeps.for_each(|sleep| sleep.cpu = to);
    }
}

impl Machine {
    fn hrtimers(&mut self) -> &mut Hrtimers {
        let stepped = self.stepped.as_deref_mut();
        &mut stepped.expect("begin_stepping() was called").hrtimers
    }

    /// Starts the timer of a task that sleeps on `cpu` until the time `at`.
    pub(super) fn start_sleep(&mut self, task: TaskId, cpu: CpuId, at: u64) {
        self.wake_at(task, at);
        let generation = self.tasks[task].wake_generation;
        self.hrtimers().sleeps.push(Sleep {
            task,
            generation,
            cpu,
            cancelled: false,
        });
    }

    /// Cancels the timers of tasks that run again before the end of their sleep.
    pub(super) fn cancel_sleeps(&mut self) {
        let stepped = self.stepped.as_deref_mut().expect("begin_stepping() was called");
        if stepped.hrtimers.sleeps.is_empty() {
            return;
        }
        let tasks = &self.tasks;
        let mut cancelled = Vec::new();
        stepped.hrtimers.sleeps.retain_mut(|sleep| {
            let task = &tasks[sleep.task];
            if !task.on_cpu() || sleep.cancelled {
                return true;
            }
            let local = task.cpu() == sleep.cpu;
            sleep.cancelled = !local;
            cancelled.extend(local.then_some(sleep.cpu));
            !local
        });
        for cpu in cancelled {
            if self.hrtimers().hrtick[cpu] == NEVER {
                self.set_hardware(cpu);
            }
        }
    }

    /// Starts the high-resolution tick of a CPU at `hrtick_at` (hrtimer_start). The tick was to come at
    /// the time `old`, or NEVER.
    pub(crate) fn start_hrtick(&mut self, cpu: CpuId, old: u64) {
        let at = self.rqs[cpu].fair.hrtick_at;
        self.events.push(at, Event::Hrtick { cpu });
        // A timer that does not pass other timers keeps its place before them, even if it moves to the
        // time of the next one (hrtimer_can_update_in_place).
        let precedes = old < at && self.first_other_timer(cpu, old) == at;
        let hrtimers = self.hrtimers();
        if old != at {
            hrtimers.hrtick_precedes[cpu] = precedes;
        }
        if hrtimers.interrupted == Some(cpu) {
            return;
        }
        let set = hrtimers.hrtick[cpu];
        if set == NEVER && at < self.first_other_timer(cpu, 0) || set != NEVER && at < set {
            self.hrtimers().hrtick[cpu] = at;
        }
    }

    /// Returns whether an interrupt comes now because of the high-resolution tick of a CPU.
    fn hrtick_interrupts(&self, cpu: CpuId) -> bool {
        let stepped = self.stepped.as_deref().expect("begin_stepping() was called");
        self.rqs[cpu].fair.hrtick_at == self.now || stepped.hrtimers.hrtick[cpu] == self.now
    }

    /// Begins an interrupt in which timers of a CPU expire. Puts them into the order in which they do.
    pub(super) fn begin_timer_irq(&mut self, cpu: CpuId, timers: &mut [Event]) {
        let hrtimers = self.hrtimers();
        hrtimers.interrupted = Some(cpu);
        let precedes = hrtimers.hrtick_precedes[cpu];
        if self.rqs[cpu].fair.hrtick_at != self.now {
            return;
        }
        let is_hrtick = |timer: &Event| matches!(timer, Event::Hrtick { .. });
        if precedes {
            timers.sort_by_key(|timer| !is_hrtick(timer));
        } else if let Some(mut last) = timers.iter().rposition(is_hrtick) {
            // A tick that moved away and came back has several events. Its place is that of the last one.
            let mut at = 0;
            while at < last {
                if is_hrtick(&timers[at]) {
                    timers[at..].rotate_left(1);
                    last -= 1;
                } else {
                    at += 1;
                }
            }
        }
    }

    /// Returns the CPU of a script that handles a timer interrupt.
    #[cold]
    pub(crate) fn in_timer_irq(&self) -> Option<CpuId> {
        self.stepped.as_deref().and_then(|stepped| stepped.hrtimers.interrupted)
    }

    /// Returns whether the CPU handles a timer interrupt.
    pub(super) fn is_in_timer_irq(&mut self, cpu: CpuId) -> bool {
        self.hrtimers().interrupted == Some(cpu)
    }

    /// Ends an interrupt: sets the hardware of the CPU to its first timer.
    pub(super) fn finish_timer_irq(&mut self, cpu: CpuId) {
        let hrtimers = self.hrtimers();
        hrtimers.interrupted = None;
        hrtimers.sleeps.retain(|sleep| sleep.cpu != cpu || !sleep.cancelled);
        self.set_hardware(cpu);
    }

    fn set_hardware(&mut self, cpu: CpuId) {
        let hrtick = self.rqs[cpu].fair.hrtick_at;
        let first = hrtick <= self.first_other_timer(cpu, 0);
        self.hrtimers().hrtick[cpu] = if first { hrtick } else { NEVER };
    }

    /// Returns the time of a CPU's first timer that is due after `from`, ns, without the high-resolution
    /// tick.
    fn first_other_timer(&self, cpu: CpuId, from: u64) -> u64 {
        let timers = self.events.pending().filter(|(time, event)| {
            *time > from
                && !matches!(event, Event::Hrtick { .. })
                && self.timer_cpu(event) == Some(cpu)
                && self.expires(event)
        });
        timers.map(|(time, _)| time).min().unwrap_or(NEVER)
    }

    /// Returns whether a timer still exists, that is, whether its event is not obsolete.
    fn expires(&self, event: &Event) -> bool {
        match *event {
            Event::Tick { cpu, generation } => self.rqs[cpu].tick_generation == generation,
            Event::Wake { task, generation } => {
                let stepped = self.stepped.as_deref().expect("begin_stepping() was called");
                let sleep = stepped.hrtimers.sleep(task, generation);
                self.tasks[task].wake_generation == generation || sleep.is_some_and(|sleep| !sleep.cancelled)
            }
            Event::CfsPeriod { group, generation } | Event::CfsSlack { group, generation } => {
                self.task_groups.groups[group as usize].bandwidth.generation == generation
            }
            _ => true,
        }
    }

    /// Begins the interrupt of a timer that does nothing. Returns whether the event is such a timer.
    pub(super) fn interrupt_in_vain(&mut self, event: &Event) -> bool {
        let cpu = match *event {
            Event::Hrtick { cpu } if self.rqs[cpu].fair.hrtick_at != self.now => {
                if self.hrtick_interrupts(cpu) {
                    self.enter_timer_irq(cpu);
                }
                return true;
            }
            Event::Wake { task, generation } => {
                let obsolete = self.tasks[task].wake_generation != generation;
                let hrtimers = self.hrtimers();
                let cpu = hrtimers.sleep_cpu(task, generation);
                hrtimers
                    .sleeps
                    .retain(|sleep| (sleep.task, sleep.generation) != (task, generation));
                if !obsolete {
                    return false;
                }
                cpu
            }
            _ => return false,
        };
        if let Some(cpu) = cpu.filter(|&cpu| self.rqs[cpu].online) {
            self.enter_timer_irq(cpu);
        }
        true
    }
}
