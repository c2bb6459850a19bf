// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of the tasks that wait when a run ends: for a CPU, with the queue on which they
//! wait, or in a deadlock, with the object for which they wait. The former show whether a policy
//! has lost tasks.

use crate::layout::SCHED_IDLE;
use crate::layout::enums::{SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL};
use crate::machine::Machine;
use crate::programs::state::cursor::Stage;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::NO_DSQ;
use crate::sched::ext::state::entity::OpsState;
use crate::sched::state::task::State;
use crate::simulation::id::{IDLE, TaskId};
use crate::watch::state::waiting::*;
use workload::{Channel, Op, Resource};

impl Machine {
    /// Records which tasks wait for a CPU. Throttled tasks are left out.
    pub(crate) fn record_waiting_tasks(&mut self) {
        let ids = self.tasks.ids();
        let mut waiting: Vec<TaskId> = ids
            .filter(|&id| self.is_waiting(id) && !self.tasks[id].on_cpu() && !self.waits_by_design(id))
            .collect();
        waiting.sort_by_key(|&id| (self.tasks[id].waiting_since, self.tasks[id].pid()));
        let first = waiting.iter().take(DESCRIBED);
        self.left_on = first.map(|&id| self.describe_queue(id)).collect();
        self.left_waiting = waiting;
    }

    /// Returns the tasks that waited for a CPU when the run ended, longest wait first. Throttled tasks
    /// are left out.
    pub fn waiting_at_end(&self) -> impl ExactSizeIterator<Item = WaitingTask<'_>> {
        let waiting = self.left_waiting.iter().enumerate();
        waiting.map(|(rank, &id)| {
            let task = &self.tasks[id];
            WaitingTask {
                task,
                since_ns: task.waiting_since,
                has_run: task.off_cpu_at > 0,
                idle_ns: self.checks.idle_while_waiting_ns - task.idle_before_wait,
                kept: self.left_on.get(rank).map(String::as_str),
            }
        })
    }

    /// Returns whether a long wait of a task is no sign of an error. The deadlines of SCHED_IDLE tasks
    /// are so far in the future that the fair class lets them wait for seconds beside busy tasks.
    fn waits_by_design(&self, id: TaskId) -> bool {
        let task = &self.tasks[id];
        task.class == Class::Fair && task.policy() == SCHED_IDLE
    }

    /// Returns the tasks that have not exited, without background work. The run ends in a deadlock,
    /// so each of them waits for something that cannot happen any more.
    pub(crate) fn blocked_tasks(&self) -> Vec<BlockedTask> {
        let alive = self.tasks.numbered();
        let alive = alive.filter(|(_, task)| task.state() != State::Dead && !task.noise);
        let mut blocked: Vec<BlockedTask> = alive
            .map(|(id, task)| BlockedTask {
                pid: task.pid(),
                comm: task.comm(),
                waits_for: self.describe_wait(id),
            })
            .collect();
        blocked.sort_by_key(|task| task.pid);
        blocked
    }

    /// Describes what a sleeping task waits for: the object or the tasks of the current step of its
    /// program.
    fn describe_wait(&self, id: TaskId) -> String {
        let cursor = &self.tasks[id].program;
        let op = self.programs[cursor.program as usize].get(cursor.pc as usize);
        let name = |id: u32| self.workload.resources[id as usize].name();
        let children = self.tasks[id].children;
        match op {
            Some(&Op::Lock(mutex)) => self.describe_mutex(mutex),
            // The task was signalled, and waits for the mutex again.
            Some(&(Op::CondWait { mutex, .. } | Op::Sync { mutex, .. })) if cursor.stage == Stage::Signalled => {
                self.describe_mutex(mutex)
            }
            Some(&(Op::CondWait { cond, .. } | Op::Sync { cond, .. })) => {
                format!("a signal of condition variable {}", name(cond))
            }
            Some(&Op::Barrier(barrier)) => {
                let state = &self.sync.resources[barrier as usize];
                let (arrived, all) = (state.value, state.participants);
                format!("barrier {}, where {arrived} of {all} tasks have arrived", name(barrier))
            }
            Some(&(Op::SemWait(semaphore) | Op::Relay { from: semaphore, .. })) => {
                format!("a post of semaphore {}", name(semaphore))
            }
            Some(&Op::Suspend(gate)) => format!("a resume of {}", name(gate)),
            Some(&(Op::Recv(channel) | Op::Poll(channel))) => {
                format!("a message in {}", self.describe_channel(channel))
            }
            Some(&Op::Send { channel, .. }) => format!("room in {}", self.describe_channel(channel)),
            Some(Op::WaitChildren | Op::WaitChild { .. }) => format!("the exit of a child ({children} left)"),
            _ => "an event that cannot happen".to_owned(),
        }
    }

    fn describe_mutex(&self, id: u32) -> String {
        let name = self.workload.resources[id as usize].name();
        let owner = self.sync.resources[id as usize].owner.unwrap_or(IDLE);
        match self.tasks.get(owner.slot() as usize) {
            Some(owner) => format!("mutex {name}, which {}[{}] holds", owner.comm(), owner.pid()),
            None => format!("mutex {name}"),
        }
    }

    fn describe_channel(&self, id: u32) -> String {
        let resource = &self.workload.resources[id as usize];
        let kind = match resource {
            Resource::Channel {
                kind: Channel::Pipe, ..
            } => "pipe",
            Resource::Channel {
                kind: Channel::Eventfd, ..
            } => "eventfd",
            _ => "socket",
        };
        format!("{kind} {}", resource.name())
    }

    /// Returns a description of the queue that contains a waiting task.
    pub(crate) fn describe_queue(&self, id: TaskId) -> String {
        let task = &self.tasks[id];
        match task.class {
            Class::Rt => return format!("on the real-time queue of CPU {}", task.cpu()),
            Class::Fair => return format!("on the fair queue of CPU {}", task.cpu()),
            Class::Ext | Class::Idle => {}
        }
        let dsqs = &self.ext.dsqs;
        let dsq = dsqs.current(id);
        if dsq == NO_DSQ {
            return match task.ext.ops_state {
                OpsState::Queued => "held by the policy: its last ops.enqueue() inserted it into no DSQ".to_owned(),
                OpsState::Queueing => "in ops.enqueue()".to_owned(),
                OpsState::None => "on no DSQ".to_owned(),
            };
        }
        let name = match dsqs.id(dsq) {
            SCX_DSQ_LOCAL => format!("the local DSQ of CPU {}", task.cpu()),
            SCX_DSQ_BYPASS => format!("the bypass DSQ of CPU {}", task.cpu()),
            SCX_DSQ_GLOBAL => "the global DSQ".to_owned(),
            id => format!("DSQ 0x{id:x}"),
        };
        let ahead = std::iter::successors(dsqs.first(dsq), |&task| dsqs.next(task)).position(|task| task == id);
        format!(
            "on {name}, {} of {} tasks ahead of it",
            ahead.unwrap_or(0),
            dsqs.nr(dsq)
        )
    }
}
