// SPDX-License-Identifier: GPL-2.0-only
//! The commands of scripts, which make a task do something or change it.

use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext;
use crate::sched::state::task::{State, Task};
use crate::sched::tracepoint::state::Hook;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::stepping::rows::Row;
use crate::watch::state::stepped::SystemCall;
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

impl Machine {
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
        if self.is_in_fork(task) {
            return;
        }
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
    pub(super) fn execute_calls(&mut self) {
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

    /// Lets the kicks of a program take effect that was executed at a tracepoint in a system call of `task`.
    /// The task can lose its CPU inside the program, which must not migrate. The system call continues when
    /// the task runs again. Returns whether that is so (irqentry_exit_cond_resched).
    pub(crate) fn preempt_program(&mut self, task: TaskId, hook: Hook, child: Option<TaskId>) -> bool {
        let cpu = self.this_cpu;
        ext::irq_work(self);
        if task == IDLE || !self.rqs[cpu].need_resched {
            return false;
        }
        self.migrate_disable(task);
        self.schedule(cpu);
        if self.rqs[cpu].curr == task {
            self.migrate_enable(task);
            return false;
        }
        let stepped = self.stepped.as_deref_mut().expect("a script is executed");
        stepped.calls.push((task, SystemCall::Rest { hook, child }));
        true
    }

    /// Returns whether the parent of a new task has lost its CPU in fork(). The parent is going to wake the
    /// task, so earlier wake-ups have no effect.
    fn is_in_fork(&self, task: TaskId) -> bool {
        let creates =
            |&(_, call): &(TaskId, SystemCall)| matches!(call, SystemCall::Rest { child, .. } if child == Some(task));
        self.stepped
            .as_deref()
            .is_some_and(|stepped| stepped.calls.iter().any(creates))
    }

    /// Returns whether a task has lost the present CPU inside a program at this tracepoint. Linux then
    /// executes no second instance of the program on this CPU (bpf_prog_get_recursion_context).
    pub(crate) fn program_is_suspended(&self, hook: Hook) -> bool {
        let suspended = |&(task, call): &(TaskId, SystemCall)| match call {
            SystemCall::Rest { hook: of, .. } => of == hook && self.tasks[task].cpu() == self.this_cpu,
            _ => false,
        };
        self.stepped
            .as_deref()
            .is_some_and(|stepped| stepped.calls.iter().any(suspended))
    }

    fn call(&mut self, task: TaskId, call: SystemCall) {
        let t = &self.tasks[task];
        match call {
            SystemCall::Rest { child, .. } => {
                self.migrate_enable(task);
                if let Some(child) = child {
                    self.wake_up_new_task(child, false);
                }
            }
            // A kernel thread has no process that it could copy or replace.
            SystemCall::Fork { .. } | SystemCall::Exec if t.is_kthread() => {}
            SystemCall::Fork { index, thread } => {
                let (policy, slice) = (policy_of(t), t.fair.requested_slice());
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
        // The weight of a dead task can change, and its load leaves with the fair class.
        let dead = self.tasks[task].state() == State::Dead;
        if dead && !(self.class_of(task) == Class::Fair && fair(old)) {
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

    /// Takes a CPU offline or brings it online. Linux waits while a task of the CPU must not migrate. A script
    /// refuses the command instead. The last CPU stays online, because no task of a script runs on CPU 0.
    pub fn step_hotplug(&mut self, cpu: u32, online: bool) -> Result<(), Refused> {
        let cpu = self.named_cpu(cpu);
        let last = self.online_cpus.iter().filter(|&cpu| cpu != CpuId::BOOT).count() == 1;
        if !online && (last || self.has_pinned_tasks(cpu)) {
            return Err(Refused::Errno(bpf::errno::EBUSY));
        }
        self.hotplug(cpu, online);
        self.leave();
        Ok(())
    }
}
