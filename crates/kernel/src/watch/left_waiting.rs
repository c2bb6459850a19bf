// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of the tasks that wait for a CPU and of the queues on which they wait. They show
//! whether a policy (BPF scheduler) has lost tasks.

use crate::layout::enums::{SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::NO_DSQ;
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::TaskId;
use crate::watch::state::waiting::*;

impl Machine {
    /// Returns the tasks that wait for a CPU, longest wait first. Throttled tasks are left out.
    pub(crate) fn waiting_tasks(&self) -> Vec<WaitingTask> {
        let ids = self.tasks.ids();
        let mut waiting: Vec<TaskId> = ids
            .filter(|&id| self.is_waiting(id) && !self.tasks[id].on_cpu())
            .collect();
        waiting.sort_by_key(|&id| (self.tasks[id].waiting_since, self.tasks[id].pid()));
        let described = |(rank, id): (usize, TaskId)| {
            let task = &self.tasks[id];
            WaitingTask {
                pid: task.pid(),
                comm: task.comm(),
                since_ns: task.waiting_since,
                kept: (rank < DESCRIBED).then(|| self.describe_queue(id)),
            }
        };
        waiting.into_iter().enumerate().map(described).collect()
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
