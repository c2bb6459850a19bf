// SPDX-License-Identifier: GPL-2.0-only
//! Throttling of the queues of task groups that have used up their runtime, and of the tasks on these
//! queues.

use super::enqueue_task;
use crate::layout::PF_EXITING;
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::state::entity::{CfsRqId, GROUP, NONE};
use crate::sched::fair::state::quota::SLICE_NS;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::Transition;

impl Machine {
    /// Throttles a queue, unless the pool has runtime for it. Returns whether the queue is
    /// throttled.
    pub(super) fn throttle_cfs_rq(&mut self, id: CfsRqId) -> bool {
        // A queue that runs takes a slice. Otherwise it takes only enough to have 1 ns, and takes a
        // slice when this runtime is used up.
        let cpu = self.queue_cpu(id);
        let curr = self.cfs(id).curr;
        let runs = curr != NONE && self.se(curr).on_rq;
        if self.assign_cfs_rq_runtime(id, if runs { SLICE_NS } else { 1 }) {
            return false;
        }
        self.bandwidth(id).throttled.push(id);
        self.for_queues_below(id, |m, queue| m.throttle_down(queue));
        self.runtime(id).throttled = true;
        if runs && let Some(curr) = self.fair_curr(cpu) {
            self.throttle_on_return(curr);
        }
        true
    }

    /// Calls a function for a group's queue and for those of the groups below it on the same CPU,
    /// children before their parents.
    fn for_queues_below(&mut self, id: CfsRqId, mut function: impl FnMut(&mut Machine, CfsRqId)) {
        let (cpu, group) = (self.queue_cpu(id), self.task_groups.group_number(id));
        for at in 0..self.task_groups.bottom_up.len() {
            let below = self.task_groups.bottom_up[at];
            if self.task_groups.is_in(below, group) {
                function(self, self.task_groups.id(below, cpu));
            }
        }
    }

    /// Records that this queue or a queue above it is throttled (tg_throttle_down).
    fn throttle_down(&mut self, id: CfsRqId) {
        let runtime = self.runtime(id);
        runtime.throttle_count += 1;
        if runtime.throttle_count == 1 {
            self.stop_pelt_clock(id);
        }
    }

    /// Returns whether this queue or a queue above it is throttled (throttled_hierarchy).
    pub(super) fn throttled_hierarchy(&self, id: CfsRqId) -> bool {
        id >= GROUP && self.task_groups.rq(id).runtime.throttle_count > 0
    }

    /// Checks the throttling of a task when it next returns to user space
    /// (task_throttle_setup_work). A kernel thread or a task that exits never does.
    pub(super) fn throttle_on_return(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        if t.task_struct.flags & PF_EXITING != 0 || t.is_kthread() || t.fair.throttle_work {
            return;
        }
        t.fair.throttle_work = true;
        let cpu = t.cpu();
        if t.on_cpu() && cpu != self.this_cpu {
            // The task has to enter the kernel (kick_process).
            self.interrupt_cpu(cpu, Event::Resched { cpu });
        }
    }

    /// Removes a throttled task from the list of waiting tasks, because it sleeps, or because an
    /// attribute, its group or its CPU changes (dequeue_throttled_task).
    pub(super) fn dequeue_throttled_task(&mut self, cpu: CpuId, task: TaskId, sleeps: bool, migrates: bool) {
        let id = self.task_cfs_rq(cpu, task);
        self.runtime(id).limbo.retain(|&other| other != task);
        self.rqs[cpu].nr_running += 1;
        self.observe(Transition::Queued { task });
        if sleeps {
            self.tasks[task].fair.throttled = false;
        } else if migrates {
            self.detach_cfs_rq(id, task.into());
        }
    }

    /// Returns whether a throttled task that is queued on a CPU stays throttled: its queue there is
    /// throttled as well, and it is not the running task.
    pub(crate) fn stays_throttled(&self, cpu: CpuId, task: TaskId) -> bool {
        self.throttled_hierarchy(self.task_cfs_rq(cpu, task)) && self.rqs[cpu].curr != task
    }

    /// Adds a throttled task that changed to the list of waiting tasks of its queue, if that queue is
    /// throttled. Otherwise the task is no longer throttled. Returns whether it is
    /// (enqueue_throttled_task).
    pub(super) fn enqueue_throttled_task(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if self.stays_throttled(cpu, task) {
            let id = self.task_cfs_rq(cpu, task);
            self.runtime(id).limbo.insert(0, task);
            self.rqs[cpu].nr_running -= 1;
            self.observe(Transition::Throttled { task });
            return true;
        }
        self.tasks[task].fair.throttled = false;
        false
    }

    /// Ends the throttling of a queue. Queues the waiting tasks of the group and its descendants
    /// whose queues on this CPU are no longer throttled (unthrottle_cfs_rq).
    pub(super) fn unthrottle_cfs_rq(&mut self, id: CfsRqId) {
        let cpu = self.queue_cpu(id);
        self.update_curr_of(id);
        if self.bandwidth(id).quota.is_some() && self.runtime(id).remaining <= 0 {
            return;
        }
        self.runtime(id).throttled = false;
        self.bandwidth(id).throttled.retain(|&other| other != id);
        self.lock(LockId::Rq(cpu));
        self.for_queues_below(id, |m, queue| m.unthrottle_up(cpu, queue));
        if self.cfs(id).load == 0 && self.task_groups.rq(id).on_list {
            // The load of an empty queue decays with the queues above it.
            let mut above = self.cfs_rq_of(cpu, id);
            while above >= GROUP {
                self.task_groups.add_leaf(above);
                above = self.cfs_rq_of(cpu, above);
            }
        }
        if self.rqs[cpu].curr == IDLE && self.rqs[cpu].fair.cfs.h_nr_queued > 0 {
            self.resched_curr(cpu);
        }
        self.unlock(LockId::Rq(cpu));
    }

    /// Queues the waiting tasks of a queue, unless it is still throttled (tg_unthrottle_up).
    fn unthrottle_up(&mut self, cpu: CpuId, id: CfsRqId) {
        self.update_curr_of(id);
        let runtime = self.runtime(id);
        runtime.throttle_count -= 1;
        if runtime.throttle_count > 0 {
            return;
        }
        self.start_pelt_clock(id);
        let waiting = std::mem::take(&mut self.runtime(id).limbo);
        for (at, &task) in waiting.iter().enumerate() {
            // Another group of the hierarchy may have used up its runtime meanwhile.
            if self.throttled_hierarchy(id) {
                let limbo = &mut self.runtime(id).limbo;
                limbo.splice(0..0, waiting[at..].iter().copied());
                return;
            }
            self.tasks[task].fair.throttled = false;
            self.rqs[cpu].nr_running += 1;
            self.observe(Transition::Queued { task });
            self.update_curr(cpu);
            enqueue_task(self, cpu, task, flags::WAKEUP);
        }
        if !self.task_groups.is_decayed(id) {
            self.task_groups.add_leaf(id);
        }
    }

    /// Asks the CPU of a queue to unthrottle it (unthrottle_cfs_rq_async). Returns the queue if this CPU
    /// has to do so itself. Machines that do not execute scripts save the IPI.
    pub(super) fn unthrottle_async(&mut self, id: CfsRqId) -> Option<CfsRqId> {
        let cpu = self.queue_cpu(id);
        if cpu == self.this_cpu {
            return Some(id);
        }
        let stepped = self.stepped.as_deref_mut().expect("only scripts need the IPI");
        let is_sent = stepped.unthrottled.iter().any(|&(to, _)| to == cpu);
        stepped.unthrottled.push((cpu, id));
        if !is_sent {
            self.interrupt_cpu(cpu, Event::CfsUnthrottle { cpu });
        }
        None
    }

    /// Takes over the throttling of the groups above a new group (sync_throttle).
    pub(super) fn sync_throttle(&mut self, cpu: CpuId, id: CfsRqId) {
        let above = self.cfs_rq_of(cpu, id);
        if above >= GROUP && self.throttled_hierarchy(above) {
            self.runtime(id).throttle_count = self.task_groups.rq(above).runtime.throttle_count;
            self.stop_pelt_clock(id);
        }
    }
}
