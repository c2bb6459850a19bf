// SPDX-License-Identifier: GPL-2.0-only
//! Reports each change of a task's or CPU's state to everything that watches the machine.
//!
//! Checks, invariants, decisions and the record of a switch are updated here and nowhere else. So
//! code in `sched` cannot update one of them and forget another.

use super::check::AffinityGroup;
use super::decision::DecisionKind;
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use trace::{Event, TaskState};

/// A change of state.
pub(crate) enum Transition {
    /// A task became runnable and waits.
    Queued { task: TaskId },
    /// A waiting task left its queue without running.
    Dequeued { task: TaskId },
    /// A waiting task left its queue because its cgroup has used up its runtime.
    Throttled { task: TaskId },
    /// A CPU switched from task `prev`, which is now in state `prev_state`, to `next`.
    Switched {
        cpu: CpuId,
        prev: TaskId,
        prev_state: TaskState,
        next: TaskId,
    },
    /// The task's set of allowed CPUs is about to change to that of `group`.
    AffinityChanges { task: TaskId, group: AffinityGroup },
    /// A CPU came online and is idle.
    Online { cpu: CpuId },
    /// A CPU starts to go offline; its tasks still have to leave.
    GoesOffline { cpu: CpuId },
    /// A CPU is offline, and no task is left on it.
    Offline { cpu: CpuId },
    /// The run is over.
    End,
}

impl Machine {
    /// Reports a change of state. Inlined, so that each caller contains only its own match arm.
    #[inline(always)]
    pub(crate) fn observe(&mut self, transition: Transition) {
        let now = self.now;
        match transition {
            Transition::Queued { task } => {
                self.checks.queued(now, self.tasks[task].affinity);
                self.watch_queued(task);
            }
            Transition::Dequeued { task } => self.checks.dequeued(now, self.tasks[task].affinity),
            Transition::Throttled { task } => {
                self.checks.dequeued(now, self.tasks[task].affinity);
                self.watch_throttled(task);
            }
            Transition::Switched {
                cpu,
                prev,
                prev_state,
                next,
            } => self.observe_switch(cpu, prev, prev_state, next),
            Transition::AffinityChanges { task, group } => {
                self.watch_affinity(task);
                let t = &self.tasks[task];
                if t.on_rq && !t.on_cpu {
                    self.checks.dequeued(now, t.affinity);
                    self.checks.queued(now, group);
                }
            }
            Transition::Online { cpu } => {
                self.checks.online(now, cpu, true);
                self.watch_online(cpu, true);
                self.trace(cpu, Event::Hotplug { online: true });
            }
            Transition::GoesOffline { cpu } => self.trace(cpu, Event::Hotplug { online: false }),
            Transition::Offline { cpu } => {
                self.checks.online(now, cpu, false);
                self.watch_online(cpu, false);
            }
            Transition::End => {
                self.checks.finish(now);
                self.watch_end();
            }
        }
    }

    #[inline]
    fn observe_switch(&mut self, cpu: CpuId, prev: TaskId, prev_state: TaskState, next: TaskId) {
        let group = |task: TaskId| self.tasks[task].affinity;
        let prev_waits = (prev != IDLE && self.is_waiting(prev)).then(|| group(prev));
        let next_group = (next != IDLE).then(|| group(next));
        self.checks.switched(self.now, cpu, prev_waits, next_group);
        self.watch_switch(cpu, prev, next);
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
