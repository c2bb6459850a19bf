// SPDX-License-Identifier: GPL-2.0-only
//! Changes of a task's affinity, scheduling policy and nice value (kernel/sched/syscalls.c).

use crate::layout::cpumask;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::slices::custom_slice;
use crate::sched::state::task::{State, Task};
use crate::sched::{ext, fair, rt};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, TaskId};
use crate::watch::state::observed::Transition;
use std::rc::Rc;
use trace::MigrateReason;
use workload::SchedPolicy;

impl Machine {
    /// Sets the affinity of a task (sched_setaffinity). If the task may no longer use its CPU, it
    /// moves immediately.
    ///
    /// An affinity without an online CPU is ignored. Linux returns EINVAL in this case.
    pub(crate) fn set_cpus_allowed(&mut self, task: TaskId, cpus: CpuSet) {
        if !cpus.intersects(&self.online_cpus) || cpus == *self.tasks[task].cpus {
            return;
        }
        self.await_task(task);
        self.finish_wakeup(task);
        let cpu = self.tasks[task].cpu();
        let allowed = cpus.contains(cpu);
        let to = self.any_and_distribute(&cpus);
        self.set_cpus_mask(task, cpus);
        if self.tasks[task].migration_disabled() > 0 {
            // The task moves when it enables migration again. Before, the stopper interrupts it in
            // vain.
            if !allowed {
                self.tasks[task].rare.migration_pending = Some(to);
                if self.tasks[task].on_cpu() {
                    self.run_stopper(cpu, |_| ());
                }
            }
            return;
        }
        if self.is_cpu_allowed(task, cpu) {
            return;
        }
        let t = &self.tasks[task];
        if t.on_cpu() {
            self.tasks[task].rare.migration_pending = Some(to);
            self.migrate_running(task, to, MigrateReason::Affinity);
        } else if t.on_rq() {
            self.move_queued_task(task, to, MigrateReason::Affinity);
        } else if t.fair.delayed {
            fair::move_delayed(self, task, to, MigrateReason::Affinity);
        }
        // A sleeping task moves when it wakes up.
    }

    /// Returns an online CPU of a mask that contains one. Successive calls on a CPU go through the CPUs
    /// in turn (cpumask_any_and_distribute).
    fn any_and_distribute(&mut self, cpus: &CpuSet) -> CpuId {
        let usable = || cpus.iter().filter(|&cpu| self.online_cpus.contains(cpu));
        let last = self.rqs[self.this_cpu].distribute_cpu_mask_prev;
        let next = usable().find(|&cpu| cpu > last).or_else(|| usable().next());
        let cpu = next.expect("the mask contains an online CPU");
        self.rqs[self.this_cpu].distribute_cpu_mask_prev = cpu;
        cpu
    }

    /// Keeps the running task on its CPU (migrate_disable). The calls nest.
    pub(crate) fn migrate_disable(&mut self, task: TaskId) {
        self.tasks[task].task_struct.migration_disabled += 1;
    }

    /// Ends a section in which the running task stays on its CPU (migrate_enable). If the task's
    /// affinity has changed in the meantime, the task may have to move.
    pub(crate) fn migrate_enable(&mut self, task: TaskId) {
        self.await_task(task);
        let s = &mut *self.tasks[task].task_struct;
        if s.migration_disabled != 1 {
            // The check of the workload guarantees that each end has a beginning.
            s.migration_disabled = s.migration_disabled.saturating_sub(1);
            return;
        }
        let own = self.cpus_mask(task).addr() as *mut cpumask;
        if self.tasks[task].task_struct.cpus_ptr != own {
            let cpus = Rc::clone(&self.tasks[task].cpus);
            if cpus.intersects(&self.online_cpus) {
                self.any_and_distribute(&cpus);
            }
            self.change_queued(task, 0, |m| {
                m.tasks[task].task_struct.cpus_ptr = own;
                m.class_set_cpus_allowed(task);
            });
        }
        self.tasks[task].task_struct.migration_disabled = 0;
        let cpu = self.tasks[task].cpu();
        let pending = self.tasks[task].rare.migration_pending;
        if !self.is_cpu_allowed(task, cpu) {
            let to = match pending.filter(|&to| self.is_cpu_allowed(task, to)) {
                Some(to) => to,
                None => self.select_fallback_rq(task, cpu),
            };
            self.migrate_running(task, to, MigrateReason::Affinity);
        } else if pending.is_some() {
            self.tasks[task].rare.migration_pending = None;
        }
    }

    /// Restricts the mask that a policy sees to the CPU of a task with migration disabled. Called when
    /// the task's CPU begins schedule() (migrate_disable_switch).
    #[cold]
    pub(crate) fn migrate_disable_switch(&mut self, task: TaskId) {
        if let Some(single) = self.layout.cpumask_of(self.tasks[task].cpu())
            && !self.has_narrowed_mask(task)
            && self.tasks[task].state() != State::Dead
        {
            self.change_queued(task, 0, |m| {
                m.tasks[task].task_struct.cpus_ptr = single.addr() as *mut cpumask;
                m.class_set_cpus_allowed(task);
            });
        }
    }

    /// Returns whether the mask that a policy and the balancer see has only the task's CPU.
    pub(crate) fn has_narrowed_mask(&self, task: TaskId) -> bool {
        self.tasks[task].task_struct.cpus_ptr as u64 != self.cpus_mask(task).addr()
    }

    /// Sets the affinity of the task with this pid, if there is one, on behalf of a user outside of
    /// the simulated workload. No simulated CPU is charged for this.
    ///
    /// # Panics
    /// If `cpus` is a set of the CPUs of a machine with a different number of CPUs.
    pub fn sched_setaffinity(&mut self, pid: u32, cpus: CpuSet) {
        assert_eq!(cpus.nr_cpus(), self.nr_cpus(), "the set is for a different machine");
        if let Some(task) = self.find_task(pid) {
            ext::enable::run_as_user(self, |m| m.set_cpus_allowed(task, cpus));
        }
    }

    /// Sets the affinity mask without moving the task (do_set_cpus_allowed).
    pub(crate) fn set_cpus_mask(&mut self, task: TaskId, cpus: CpuSet) {
        self.change_queued(task, 0, |m| {
            let (group, cpus) = m.checks.group(cpus);
            m.observe(Transition::AffinityChanges { task, group });
            let t = &mut m.tasks[task];
            t.affinity = group;
            t.task_struct.nr_cpus_allowed = cpus.weight() as i32;
            t.cpus = cpus;
            m.cpus_mask(task).copy_from(m.tasks[task].cpus.words());
            m.class_set_cpus_allowed(task);
        });
    }

    /// Sets the scheduling policy and the nice value of a task (sched_setscheduler, setpriority).
    pub(crate) fn set_policy(&mut self, task: TaskId, policy: SchedPolicy) {
        self.set_attr(task, policy, None);
    }

    /// Sets the scheduling policy of a task, and the length of its slices in ns unless `slice` is
    /// `None` (sched_setattr).
    pub(crate) fn set_attr(&mut self, task: TaskId, policy: SchedPolicy, slice: Option<u64>) {
        self.await_task(task);
        let slice = slice.map_or(self.tasks[task].fair.slice, custom_slice);
        self.task_groups.custom_slices |= slice != 0;
        if !ext::check_setscheduler(self, task, policy) {
            return;
        }
        let cpu = self.tasks[task].cpu();
        let old_class = self.tasks[task].class;
        let old_prio = self.tasks[task].prio();
        let class = ext::class_for_policy(self, Task::policy_number(policy).0);
        // A task whose priority stays keeps its position.
        let moves = if self.tasks[task].prio_with(policy) == old_prio {
            0
        } else {
            flags::MOVE
        };
        let changes = if class == old_class { 0 } else { flags::CLASS };
        self.change_queued(task, moves | changes, |m| {
            m.tasks[task].set_params(policy);
            m.tasks[task].fair.slice = slice;
            if class != old_class {
                m.class_switched_from(old_class, cpu, task);
            }
            ext::params_changed(m, task);
            if class != old_class {
                m.tasks[task].class = class;
                ext::switching_class(m, task, old_class);
            }
            fair::reweight(m, task, old_class);
        });
        if self.tasks[task].class == old_class {
            self.class_prio_changed(cpu, task, old_prio);
        } else {
            self.class_changed(task, old_class);
        }
        rt::balance_callback(self, cpu);
        let (pid, prio) = (self.tasks[task].pid(), self.tasks[task].prio());
        if prio != old_prio {
            self.trace(self.this_cpu, trace::Event::Prio { pid, prio });
        }
    }

    /// Sets the length of a task's slices (sched_setattr() with sched_runtime). The current slice
    /// keeps its end.
    pub(crate) fn set_slice(&mut self, task: TaskId, ns: u64) {
        self.await_task(task);
        let slice = custom_slice(ns);
        if self.tasks[task].fair.slice == slice {
            return;
        }
        self.task_groups.custom_slices = true;
        self.change_queued(task, 0, |m| {
            m.tasks[task].fair.slice = slice;
            ext::params_changed(m, task);
        });
    }

    /// Informs a task's new class that the task comes from the class `from`, and reschedules if
    /// necessary (sched_change_end).
    pub(crate) fn class_changed(&mut self, task: TaskId, from: Class) {
        let cpu = self.tasks[task].cpu();
        self.class_switched_to(cpu, task);
        let t = &self.tasks[task];
        // If the new class is the real-time class, it may have pushed the task to another CPU.
        if t.on_rq() && t.cpu() == cpu {
            let demoted = t.on_cpu() && t.class > from;
            self.wakeup_preempt(cpu, task, 0);
            if demoted {
                self.resched_curr(cpu);
            }
        }
    }

    /// Applies `change` to a task. A queued task is dequeued before the change and queued again
    /// after it (the kernel's sched_change pattern). The same is true of a delayed sleeper, unless
    /// its class changes: then it leaves its queue. A running task is handled as if it stopped
    /// before the change and started again after it. `flags` has [`flags::MOVE`] if the task loses its
    /// position in the queue, and [`flags::CLASS`] if it changes its class.
    pub(crate) fn change_queued(&mut self, task: TaskId, flags: u32, change: impl FnOnce(&mut Machine)) {
        let cpu = self.tasks[task].cpu();
        self.rqs[cpu].clock_updated = self.now;
        if flags & flags::CLASS != 0 {
            fair::finish_delayed(self, task);
        }
        let running = self.tasks[task].on_cpu() && !self.rqs[cpu].stopping;
        let queued = self.tasks[task].on_rq();
        let delayed = self.tasks[task].fair.delayed;
        if queued || running || delayed {
            self.charge_before_dequeueing(cpu, task);
        }
        if delayed {
            fair::save_delayed(self, cpu, task);
        } else if queued {
            self.class_dequeue_task(cpu, task, flags::SAVE | flags::NOCLOCK | flags);
        }
        if running {
            self.class_put_prev_task(cpu, task, task);
        }
        let prio = self.tasks[task].prio();
        change(self);
        if delayed {
            fair::restore_delayed(self, cpu, task);
        } else if queued {
            // A task that becomes less important goes to the head of the queue of its priority.
            let demoted = self.tasks[task].prio() > prio;
            let head = if demoted { flags::HEAD } else { 0 };
            self.charge_before_queueing(cpu, task);
            self.class_enqueue_task(cpu, task, flags::RESTORE | flags::NOCLOCK | flags | head);
        }
        if running {
            self.class_set_curr_task(cpu, task);
        }
    }
}
