// SPDX-License-Identifier: GPL-2.0-only
//! Exit of tasks, and the references that a policy holds to dead tasks (do_exit, finish_task_switch).

use crate::layout;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::state::task::State;
use crate::sched::{ext, fair, tracepoint};
use crate::simulation::id::{IDLE, TaskId};

impl Machine {
    /// Begins the exit of the running task (do_exit). In a kernel with CONFIG_SCHED_AUTOGROUP, which
    /// distributions set, the task is queued again, and its CPU reschedules
    /// (sched_autogroup_exit_task). This is so even if autogroups are off. Another task can therefore
    /// run before the exiting one is dead. schedule() finally switches to another task and frees the
    /// exited task.
    pub(crate) fn exit_task(&mut self, task: TaskId) {
        self.tasks[task].task_struct.flags |= layout::PF_EXITING;
        let pid = self.tasks[task].pid();
        tracepoint::sched_process_exit(self, task);
        // The task gives up its address space (exit_mm).
        self.tasks[task].task_struct.mm = std::ptr::null_mut();
        self.reparent_children(task);
        self.trace(self.this_cpu, trace::Event::TaskExit { pid });
        self.change_queued(task, flags::MOVE, |m| {
            if m.class_of(task) == Class::Fair {
                fair::change_group(m, task, m.tasks[task].cgroup());
            }
        });
        self.resched_curr(self.this_cpu);
    }

    /// Removes a dead task (finish_task_switch). The task's slot is reused when the policy holds no
    /// reference to the task.
    pub(crate) fn release_task(&mut self, task: TaskId) {
        fair::task_dead(self, task);
        ext::task_dead(self, task);
        fair::sched_cache::release_task(self, task);
        let t = &self.tasks[task];
        self.pids[t.pid() as usize] = IDLE;
        self.threads.remove(&t.sort_key());
        let is_noise = t.noise;
        self.nr_alive -= 1;
        self.noise.nr_tasks -= u32::from(is_noise);
        self.free_if_gone(task);
    }

    /// Drops a reference that the policy holds to a task. Returns false if the policy holds no
    /// reference to it.
    #[must_use]
    pub(crate) fn put_task(&mut self, task: TaskId) -> bool {
        let had = self.layout.put_task(task);
        if had {
            self.free_if_gone(task);
        }
        had
    }

    /// Frees the slot and the BPF task storage of a task if the task is dead and the policy holds
    /// no reference to it.
    fn free_if_gone(&mut self, task: TaskId) {
        if self.is_unreferenced(task) {
            ext::free_task_storage(self, task);
            if self.stepped.is_none() {
                // The commands of a script can name dead tasks.
                self.free_tasks.push(task);
            }
        }
    }

    /// Returns whether a task is dead and has no references. No new reference to such a task can be
    /// acquired (`rcu_users` is 0).
    pub(crate) fn is_unreferenced(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.state() == State::Dead && self.pids[t.pid() as usize] == IDLE && !self.layout.is_task_referenced(task)
    }

    /// Drops all references to tasks that the policy still holds when it ends.
    pub(crate) fn drop_all_references(&mut self) {
        for task in self.layout.drop_all_references() {
            if self.is_unreferenced(task) {
                self.free_tasks.push(task);
            }
        }
    }
}
