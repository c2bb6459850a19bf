// SPDX-License-Identifier: GPL-2.0-only
//! Executes commands from outside, one at a time, on a machine without costs (docs/scripts.md). Time
//! stands still while the kernel decides, and passes only in [`Machine::step_until`].
//!
//! The tasks of the workload compute forever. A command makes a task do something else.

pub(crate) mod hrtimer;
pub mod rows;

use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::state::task::{State, Task};
use crate::sched::{ext, fair};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::prandom::Prandom;
use crate::watch::state::stepped::{Stepped, SystemCall};
use rows::Row;
use trace::{Record, TaskState};
use workload::{Action, SchedPolicy};

/// Reason why a command has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The task is not running, so it cannot do anything.
    NotRunning,
    /// The kernel refuses the command with this errno.
    Errno(i32),
    /// The kernel or the parent policy refuses a sub-scheduler.
    Policy,
}

/// An event of the log, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Time in ns.
    pub time: u64,
    pub text: String,
}

impl Machine {
    /// Prepares the machine for commands. Call this before time passes.
    pub fn begin_stepping(&mut self) {
        self.stepped = Some(Box::new(Stepped {
            events: Vec::new(),
            calls: Vec::new(),
            softirq: None,
            stops_tick: false,
            unthrottled: Vec::new(),
            stale_clock: false,
            hrtimers: hrtimer::Hrtimers::new(self.nr_cpus()),
            bpf_random: self.cpus().map(|cpu| Prandom::new(cpu.into())).collect(),
        }));
        self.details = true;
        self.events.order_ticks_by_start();
        for rq in self.rqs.iter_mut() {
            rq.idle_since = 0;
        }
        for llc in &mut self.domains.llcs {
            llc.has_idle_cores = false;
        }
        fair::start_group_capacities(self);
        self.records.clear();
    }

    /// Lets CPU 0 be busy from now on, because the housekeeping runs there. Call this when the script's
    /// policy has been loaded.
    pub fn occupy_housekeeping_cpu(&mut self) {
        ext::update_idle(self, CpuId::BOOT, false);
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Happened> {
        let records = std::mem::take(&mut self.records);
        (self.texts, self.texts_bytes) = (false, 0);
        let stepped = self.stepped.as_deref_mut();
        let notes = std::mem::take(&mut stepped.expect("begin_stepping() was called").events);
        let mut notes = notes.into_iter().peekable();
        let mut events = Vec::new();
        let mut reason = String::new();
        for (index, record) in records.iter().enumerate() {
            while let Some((_, text)) = notes.next_if(|(at, _)| *at <= index) {
                if text.starts_with("call ") || text.starts_with("return ") {
                    events.push(Happened {
                        time: record.time,
                        text,
                    });
                } else {
                    reason = text;
                }
            }
            if let Some(text) = self.describe(record, &reason) {
                events.push(Happened {
                    time: record.time,
                    text,
                });
            }
        }
        let calls = notes.map(|(_, text)| text).filter(|text| !text.is_empty());
        events.extend(calls.map(|text| Happened { time: self.now, text }));
        events
    }

    /// Returns the text of a record. `reason` is the reason of a migration.
    fn describe(&self, record: &Record, reason: &str) -> Option<String> {
        let name = |pid: u32| match pid {
            0 => "idle".to_string(),
            pid => self.comm_of(pid),
        };
        let cpu = record.cpu;
        Some(match record.event {
            trace::Event::Wakeup { pid, target, new } => {
                let kind = if new { "wakeup_new" } else { "wakeup" };
                format!("{kind} {} cpu={target}", name(pid))
            }
            trace::Event::Switch { prev: 0, next, .. } => format!("switch cpu={cpu} prev=idle next={}", name(next)),
            trace::Event::Switch { prev, prev_state, next } => {
                let state = match prev_state {
                    TaskState::Running => "runnable",
                    TaskState::Dead => "dead",
                    TaskState::Interruptible | TaskState::Uninterruptible => "blocked",
                };
                format!("switch cpu={cpu} prev={} state={state} next={}", name(prev), name(next))
            }
            trace::Event::Migrate {
                reason: trace::MigrateReason::Fork,
                ..
            } => return None,
            trace::Event::Migrate { pid, from, to, .. } => {
                format!("migrate {} cpu={from} to={to} by={reason}", name(pid))
            }
            _ => return None,
        })
    }

    fn comm_of(&self, pid: u32) -> String {
        let all = || self.tasks.iter().filter(|t| t.pid() == pid);
        all().next().map_or_else(|| "?".to_string(), Task::comm)
    }

    fn task_named(&self, name: &str) -> Option<TaskId> {
        self.tasks.ids().find(|&task| self.tasks[task].comm() == name)
    }

    /// Returns a task that a command can name: one that lives, or the first thread of a process whose
    /// other threads live.
    fn known(&self, name: &str) -> Result<TaskId, Refused> {
        const ESRCH: i32 = 3;
        let lives = |task: TaskId| self.tasks[task].state() != State::Dead;
        let found = self.task_named(name).filter(|&task| {
            let t = &self.tasks[task];
            let process = || {
                self.tasks
                    .ids()
                    .any(|other| lives(other) && self.tasks[other].tgid() == t.tgid())
            };
            lives(task) || (t.pid() == t.tgid() && process())
        });
        found.ok_or(Refused::Errno(ESRCH))
    }

    /// Returns the row of a task, if the task exists.
    pub fn task_row_named(&self, name: &str) -> Option<Row> {
        self.task_named(name).map(|task| self.task_row(task))
    }

    /// Creates the task `index` of the workload, which then is new (TASK_NEW).
    pub fn step_create(&mut self, index: u32) -> Result<(), Refused> {
        let nr_cpus = self.nr_cpus();
        let spec = &self.workload.tasks[index as usize];
        let cpus = spec.cpus.as_ref().map(|cpus| CpuSet::from_cpus(nr_cpus, cpus));
        self.enter(CpuId::BOOT);
        let created = self.new_task(index, IDLE, false, cpus, CpuId::BOOT);
        self.leave();
        created.map(|_| ()).ok_or(Refused::Errno(bpf::errno::EAGAIN))
    }

    /// Begins kernel code of a running task.
    fn enter_task(&mut self, name: &str) -> Result<(TaskId, CpuId), Refused> {
        let task = self.task_named(name).ok_or(Refused::NotRunning)?;
        if !self.tasks[task].on_cpu() {
            return Err(Refused::NotRunning);
        }
        let cpu = self.tasks[task].cpu();
        self.enter(cpu);
        self.entry.to_user = !self.tasks[task].is_kthread();
        Ok((task, cpu))
    }

    /// Wakes a task by an interrupt on `cpu`.
    pub fn step_wake_from(&mut self, name: &str, cpu: u32, sync: bool) -> Result<(), Refused> {
        const ENODEV: i32 = 19;
        let cpu = self.named_cpu(cpu);
        if !self.online_cpus.contains(cpu) {
            return Err(Refused::Errno(ENODEV));
        }
        // A wake-up of a task that has exited has no effect.
        let Some(task) = self.task_named(name) else {
            return Ok(());
        };
        self.enter_irq(cpu, 0);
        self.wake_here(task, cpu, sync);
        self.leave();
        Ok(())
    }

    /// Lets a running task wake another one.
    pub fn step_wake_by(&mut self, name: &str, waker: &str, sync: bool) -> Result<(), Refused> {
        let (_, cpu) = self.enter_task(waker)?;
        if let Some(task) = self.task_named(name) {
            self.wake_here(task, cpu, sync);
        }
        self.leave();
        Ok(())
    }

    fn wake_here(&mut self, task: TaskId, cpu: CpuId, sync: bool) {
        let t = &mut self.tasks[task];
        if t.is_new() {
            t.set_cpu(cpu);
            t.replace_recent_used_cpu(cpu);
            self.wake_up_new_task(task, false);
        } else {
            let waker = self.pid_of(self.rqs[cpu].curr);
            self.wake(task, waker, if sync { flags::WF_SYNC } else { 0 });
        }
    }

    /// Lets a running task sleep until it is woken, or for `ns`.
    pub fn step_block(&mut self, name: &str, ns: Option<u64>) -> Result<(), Refused> {
        let (task, cpu) = self.enter_task(name)?;
        if let Some(ns) = ns {
            self.start_sleep(task, cpu, self.now.saturating_add(ns));
        }
        self.block(cpu, task, State::Interruptible);
        self.leave();
        Ok(())
    }

    pub fn step_yield(&mut self, name: &str) -> Result<(), Refused> {
        let (task, cpu) = self.enter_task(name)?;
        // schedule() charges the tasks of other classes.
        if self.class_of(task) == Class::Fair {
            self.update_rq_clock(cpu);
        }
        self.class_yield_task(cpu);
        self.rqs[cpu].need_resched = true;
        self.leave();
        Ok(())
    }

    /// Lets a running task create the task `index` of the workload, which inherits the parent's
    /// attributes.
    pub fn step_fork(&mut self, name: &str, index: u32, thread: bool) -> Result<(), Refused> {
        self.step_call(name, SystemCall::Fork { index, thread })
    }

    pub fn step_exec(&mut self, name: &str) -> Result<(), Refused> {
        self.step_call(name, SystemCall::Exec)
    }

    pub fn step_exit(&mut self, name: &str) -> Result<(), Refused> {
        self.step_call(name, SystemCall::Exit)
    }

    /// Lets a running task make a system call. The task first returns to user mode, so it calls later if
    /// a lazy reschedule request lets another task run instead.
    fn step_call(&mut self, name: &str, call: SystemCall) -> Result<(), Refused> {
        let (task, cpu) = self.enter_task(name)?;
        let rq = &self.rqs[cpu];
        if self.entry.to_user && (rq.need_resched_lazy || rq.need_resched) {
            // Also a task that is inside the kernel because it must not migrate returns to user mode.
            self.rqs[cpu].need_resched = true;
            let stepped = self.stepped.as_deref_mut();
            stepped.expect("begin_stepping() was called").calls.push((task, call));
        } else {
            self.call(task, call);
        }
        self.leave();
        Ok(())
    }

    /// Executes the system calls of tasks that run again.
    fn execute_calls(&mut self) {
        loop {
            let tasks = &self.tasks;
            let stepped = self.stepped.as_deref_mut().expect("begin_stepping() was called");
            let Some(at) = stepped.calls.iter().position(|&(task, _)| tasks[task].on_cpu()) else {
                return;
            };
            let (task, call) = stepped.calls.remove(at);
            self.enter(self.tasks[task].cpu());
            self.entry.to_user = true;
            self.call(task, call);
            self.leave();
        }
    }

    fn call(&mut self, task: TaskId, call: SystemCall) {
        let t = &self.tasks[task];
        match call {
            // A kernel thread has no process that it could copy or replace.
            SystemCall::Fork { .. } | SystemCall::Exec if t.is_kthread() => {}
            SystemCall::Fork { index, thread } => {
                let (policy, slice) = (policy_of(t), t.fair.slice);
                let (cpus, cgroup) = (t.cpus.iter().map(CpuId::nr).collect(), t.cgroup());
                let spec = &mut self.workload.tasks[index as usize];
                (spec.policy, spec.cpus, spec.cgroup) = (policy, Some(cpus), cgroup);
                spec.attributes.slice_ns = (slice > 0).then_some(slice);
                self.fork(index, task, thread);
            }
            SystemCall::Exec => self.exec(task, t.comm()),
            SystemCall::Exit => {
                let ops = self.programs[t.program.program as usize].len();
                let cpu = t.cpu();
                self.tasks[task].program.exit(ops as u32);
                self.step(cpu);
            }
        }
    }

    pub fn step_migrate_disable(&mut self, name: &str) -> Result<(), Refused> {
        let (task, _) = self.enter_task(name)?;
        self.migrate_disable(task);
        self.leave();
        Ok(())
    }

    pub fn step_migrate_enable(&mut self, name: &str) -> Result<(), Refused> {
        let (task, _) = self.enter_task(name)?;
        if self.tasks[task].migration_disabled() > 0 {
            self.migrate_enable(task);
        }
        self.leave();
        Ok(())
    }

    /// Sets the policy and the slice of a task (sched_setattr). The function `change` receives the
    /// current policy and the nice value.
    pub fn step_set(
        &mut self,
        name: &str,
        change: impl FnOnce(SchedPolicy, i32) -> SchedPolicy,
        slice: Option<u64>,
    ) -> Result<(), Refused> {
        let task = self.known(name)?;
        // The call updates the clock even if it changes nothing.
        self.note_clock_update(self.tasks[task].cpu());
        let old = policy_of(&self.tasks[task]);
        let policy = change(old, self.tasks[task].task_struct.static_prio - 120);
        let fair = |policy: SchedPolicy| !matches!(policy, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. });
        // The weight of a dead task can change.
        let dead = self.tasks[task].state() == State::Dead;
        if dead && !(self.class_of(task) == Class::Fair && fair(old) && fair(policy)) {
            return Ok(());
        }
        let current = self.tasks[task].fair.slice(self.domains.base_slice);
        let unchanged = match policy {
            // The nice value of a task that stays SCHED_IDLE does not change.
            SchedPolicy::Idle => matches!(old, SchedPolicy::Idle),
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Ext { .. } => {
                old == policy && slice == Some(current)
            }
            _ => old == policy,
        };
        if unchanged {
            return Ok(());
        }
        ext::enable::run_as_user(self, |m| {
            m.finish_wakeup(task);
            let fair = matches!(
                policy,
                SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Ext { .. }
            );
            m.set_attr(task, policy, fair.then_some(slice.unwrap_or(0)));
            if matches!(old, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. }) && policy == SchedPolicy::Idle {
                // sched_getattr() does not report the nice value of a real-time task. The caller passes the
                // nice value 0, from which Linux calculates the priority, but not the stored nice value.
                m.tasks[task].task_struct.prio = 120;
            }
        });
        Ok(())
    }

    /// Sets the affinity of a task (sched_setaffinity).
    pub fn step_affinity(&mut self, name: &str, cpus: &[u32]) -> Result<(), Refused> {
        let task = self.known(name)?;
        let cpus = CpuSet::from_cpus(self.nr_cpus(), cpus);
        if !cpus.intersects(&self.online_cpus) {
            return Err(Refused::Errno(bpf::errno::EINVAL));
        }
        if self.tasks[task].state() == State::Dead {
            return Ok(());
        }
        ext::enable::run_as_user(self, |m| m.set_cpus_allowed(task, cpus));
        Ok(())
    }

    /// Moves the process of a task to another cgroup.
    pub fn step_move(&mut self, name: &str, action: &Action) -> Result<(), Refused> {
        self.known(name)?;
        self.step_cgroup(action)
    }

    /// Changes a cgroup.
    pub fn step_cgroup(&mut self, action: &Action) -> Result<(), Refused> {
        let result = ext::enable::run_as_user(self, |m| m.try_change(action));
        result.map_err(|errno| Refused::Errno(errno.abs()))
    }

    /// Detaches the sub-scheduler of a cgroup if there is one, as the end of the program that has loaded it
    /// does.
    pub fn step_detach(&mut self, cgroup: u32) {
        ext::sub::detach(self, cgroup);
    }

    pub fn step_hotplug(&mut self, cpu: u32, online: bool) {
        let cpu = self.named_cpu(cpu);
        self.hotplug(cpu, online);
        self.leave();
    }

    /// Returns the time of the next tick.
    pub fn next_tick_at(&self) -> u64 {
        (self.now / self.tick_ns() + 1) * self.tick_ns()
    }

    /// Lets time pass until `until`. The CPUs act one after the other: first they handle the
    /// interrupts that other CPUs have sent, in the order in which these were sent, and then the
    /// timers, in the order of the CPUs.
    pub fn step_until(&mut self, until: u64) {
        let mut due: Vec<Event> = Vec::new();
        loop {
            self.execute_calls();
            self.cancel_sleeps();
            // The thread that ends a policy runs before the next interrupt is delivered.
            if ext::end_subs(self) {
                continue;
            }
            let limit = if due.is_empty() { until } else { self.now };
            if let Some((time, event)) = self.events.pop(limit) {
                self.now = self.now.max(time);
                match event {
                    Event::Step { cpu } => self.step_again(cpu),
                    event => due.push(event),
                }
                continue;
            }
            if due.is_empty() {
                break;
            }
            if let Some(first) = due.iter().position(|event| self.timer_cpu(event).is_none()) {
                let event = due.remove(first);
                let is_handled = matches!(event, Event::HrtickStart { cpu } if !self.rqs[cpu].fair.hrtick_ipi);
                if !is_handled {
                    self.handle(event);
                }
                continue;
            }
            let cpu = due.iter().filter_map(|event| self.timer_cpu(event)).min();
            let (now, later) = due.into_iter().partition(|event| self.timer_cpu(event) == cpu);
            due = later;
            self.handle_timers(now, cpu.expect("a timer is due"));
        }
        self.now = until;
    }

    /// Lets the CPUs handle the interrupts that other CPUs have sent, while a process on CPU 0 waits inside
    /// the kernel. No timer expires.
    pub(crate) fn step_interrupts(&mut self) {
        let mut timers = Vec::new();
        while let Some((time, event)) = self.events.pop(self.now) {
            match event {
                Event::Step { cpu } => self.step_again(cpu),
                event if self.timer_cpu(&event).is_some() => timers.push((time, event)),
                event => self.handle(event),
            }
        }
        for (time, event) in timers {
            self.events.push(time, event);
        }
        self.enter(CpuId::BOOT);
    }

    /// Continues the program of a task, which computes.
    fn step_again(&mut self, cpu: CpuId) {
        let at = self.step_due(cpu);
        if at > self.now {
            self.events.arm_step(cpu, at);
        } else {
            self.handle(Event::Step { cpu });
        }
    }

    /// Handles the timers of a CPU in one interrupt.
    fn handle_timers(&mut self, mut timers: Vec<Event>, cpu: CpuId) {
        self.begin_timer_irq(cpu, &mut timers);
        let mut entered = false;
        for timer in timers {
            // A timer that was cancelled does not begin an interrupt.
            self.entry.irq_from = self.entry.irq_from.filter(|_| entered);
            if !self.interrupt_in_vain(&timer) {
                self.dispatch(timer);
            }
            entered |= self.entry.irq_from.is_some();
        }
        if entered {
            self.end_timer_irq();
            // A task of a script waits inside the kernel, so the interrupt ends before the task honours a
            // lazy request on its way to user mode. Otherwise schedule() is a part of the interrupt.
            if !self.rqs[cpu].need_resched {
                self.finish_timer_irq(cpu);
            }
            self.leave();
            if self.is_in_timer_irq(cpu) {
                self.finish_timer_irq(cpu);
            }
        }
    }

    /// Does what comes after the timers of an interrupt: the softirq SCHED_SOFTIRQ, and the end of the
    /// tick of a CPU that stays idle.
    fn end_timer_irq(&mut self) {
        let stepped = self.stepped.as_deref_mut().expect("begin_stepping() was called");
        let (softirq, stops_tick) = (stepped.softirq.take(), std::mem::take(&mut stepped.stops_tick));
        let cpu = self.this_cpu;
        if let Some(idle) = softirq {
            fair::balance_softirq(self, cpu, idle);
        }
        if stops_tick && self.rqs[cpu].nr_running == 0 {
            fair::nohz_enter_idle(self, cpu);
        }
    }

    /// Returns the CPU of a timer, or `None` if the event is an interrupt of another kind.
    fn timer_cpu(&self, event: &Event) -> Option<CpuId> {
        match *event {
            Event::Tick { cpu, .. } | Event::Hrtick { cpu } | Event::DlServer { cpu, .. } => Some(cpu),
            Event::Wake { task, generation } => {
                let stepped = self.stepped.as_deref().expect("begin_stepping() was called");
                let cpu = stepped.hrtimers.sleep_cpu(task, generation);
                Some(cpu.unwrap_or_else(|| self.wake_cpu(task)))
            }
            Event::CfsPeriod { group, .. } | Event::CfsSlack { group, .. } => {
                Some(self.task_groups.groups[group as usize].bandwidth.cpu)
            }
            Event::BpfTimer { timer, generation } => self.bpf_timer_cpu(timer, generation),
            Event::Watchdog => Some(CpuId::BOOT),
            _ => None,
        }
    }
}

fn policy_of(task: &Task) -> SchedPolicy {
    use crate::layout::{SCHED_BATCH, SCHED_EXT, SCHED_FIFO, SCHED_IDLE, SCHED_RR};
    let nice = task.task_struct.static_prio - 120;
    let rt_priority = task.task_struct.rt_priority;
    match task.policy() {
        SCHED_FIFO => SchedPolicy::Fifo { rt_priority },
        SCHED_RR => SchedPolicy::RoundRobin { rt_priority },
        SCHED_BATCH => SchedPolicy::Batch { nice },
        SCHED_IDLE => SchedPolicy::Idle,
        SCHED_EXT => SchedPolicy::Ext { nice },
        _ => SchedPolicy::Normal { nice },
    }
}
