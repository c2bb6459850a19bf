// SPDX-License-Identifier: GPL-2.0-only
//! Passes each change of the state of a task or a CPU to all code that watches the machine.
//!
//! The checks, the invariants, the log of decisions and the trace record of a switch are updated
//! only here, so the code in `sched` cannot update one and forget the others.

use crate::machine::Machine;
use crate::simulation::cpuset::AffinityGroup;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::watch::state::observed::{DecisionKind, Transition};
use trace::{Event, TaskState};

impl Machine {
    /// Passes a change of state to everything that watches the machine. This function is inlined,
    /// so that each caller contains only the code for its own kind of change.
    #[inline(always)]
    pub(crate) fn observe(&mut self, transition: Transition) {
        let now = self.now;
        match transition {
            Transition::Queued { task } => {
                let group = self.note_wait(task);
                self.checks.queued(now, group);
                self.tasks[task].idle_before_wait = self.checks.idle_while_waiting_ns;
                self.watch_queued(task);
            }
            Transition::Dequeued { task } => self.checks.dequeued(now, self.tasks[task].waiting_group),
            Transition::Throttled { task } => {
                self.checks.dequeued(now, self.tasks[task].waiting_group);
                self.watch_throttled(task);
            }
            Transition::Switched {
                cpu,
                prev,
                prev_state,
                next,
                stopped,
            } => {
                self.count_switch(cpu, if stopped { IDLE } else { prev }, next);
                self.observe_switch(cpu, prev, prev_state, next);
            }
            Transition::Stopped { cpu, task } => self.count_switch(cpu, task, IDLE),
            Transition::Continued { cpu, task } => self.count_switch(cpu, IDLE, task),
            Transition::AffinityChanges { task, group } => {
                self.watch_affinity(task);
                let waits = self.is_waiting(task);
                let t = &mut self.tasks[task];
                // The new affinity of a task with migration disabled applies later.
                if waits && !t.on_cpu() && t.migration_disabled() == 0 {
                    self.checks.dequeued(now, t.waiting_group);
                    self.checks.queued(now, group);
                    t.waiting_group = group;
                }
            }
            Transition::Online { cpu } => {
                self.checks.online(now, cpu, true);
                self.watch_online(cpu, true);
                self.trace(cpu, Event::Hotplug { online: true });
            }
            Transition::Offline { cpu } => {
                self.checks.online(now, cpu, false);
                self.watch_online(cpu, false);
                self.trace(cpu, Event::Hotplug { online: false });
            }
            Transition::End => {
                self.checks.finish(now);
                self.watch_end();
            }
        }
    }

    /// Records which CPUs can run a task that begins to wait, and returns the group of these CPUs.
    #[inline]
    fn note_wait(&mut self, task: TaskId) -> AffinityGroup {
        let t = &mut self.tasks[task];
        t.waiting_group = t.usable_group();
        t.waiting_group
    }

    /// Updates the checks when a CPU switches from task `prev` to task `next`.
    #[inline(always)]
    fn count_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        // A task that the stopper has moved already waits on its new CPU.
        let here = prev != IDLE && self.tasks[prev].cpu() == cpu;
        let prev_waits = (here && self.is_waiting(prev)).then(|| self.note_wait(prev));
        let next_group = (next != IDLE).then(|| self.tasks[next].waiting_group);
        self.checks.switched(self.now, cpu, prev_waits, next_group);
        if prev_waits.is_some() {
            self.tasks[prev].idle_before_wait = self.checks.idle_while_waiting_ns;
        }
    }

    #[inline(always)]
    fn observe_switch(&mut self, cpu: CpuId, prev: TaskId, prev_state: TaskState, next: TaskId) {
        self.watch_switch(cpu, prev, next);
        if self.details {
            self.record_slowdown(cpu, prev, self.rqs[cpu].debt());
        }
        let (prev, next_pid) = (self.pid_of(prev), self.pid_of(next));
        self.trace(
            cpu,
            Event::Switch {
                prev,
                prev_state,
                next: next_pid,
            },
        );
        if next != IDLE {
            self.record_decision(|_| DecisionKind::Run { pid: next_pid, prev });
        }
    }
}
