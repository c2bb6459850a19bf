// SPDX-License-Identifier: GPL-2.0-only
//! Takes a [`Snapshot`] of the state of the machine.

use crate::layout::enums::{SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::watch::state::decision::{CpuState, Queue, Snapshot, TaskState};

impl Machine {
    /// Returns a snapshot of the current state. It contains the task with the pid `about` even if
    /// this task is sleeping.
    pub fn snapshot(&self, about: Option<u32>) -> Snapshot {
        let about = about.and_then(|pid| self.find_task(pid));
        let cpus = self.cpus().map(|cpu| self.cpu_state(cpu)).collect();
        let tasks = self.tasks.numbered();
        let included = tasks.filter(|(id, task)| task.on_rq() || Some(*id) == about);
        Snapshot {
            time: self.now,
            cpus,
            queues: self.queues(),
            tasks: included.map(|(id, task)| (task.pid(), self.task_state(id))).collect(),
        }
    }

    fn cpu_state(&self, cpu: CpuId) -> CpuState {
        let rq = &self.rqs[cpu];
        let node = self.idle.per_node().then(|| self.spec.topology.cpus[cpu.index()].node);
        let idle = if self.ext.has_policy() && self.idle.enabled() {
            self.idle.cpumask(node).contains(cpu)
        } else {
            rq.curr == IDLE
        };
        CpuState {
            curr: self.pid_of(rq.curr),
            online: rq.online,
            idle,
            nr_running: rq.nr_running,
        }
    }

    fn task_state(&self, id: TaskId) -> TaskState {
        let task = &self.tasks[id];
        let fair = task.class == Class::Fair;
        let scx = self.scx_entity(id);
        let (slice, vtime) = if fair {
            let left = task.fair.deadline - task.fair.vruntime;
            (left.max(0) as u64, task.fair.vruntime)
        } else {
            (scx.slice, scx.dsq_vtime as i64)
        };
        TaskState {
            comm: task.comm(),
            cpu: task.cpu().nr(),
            weight: task.weight(),
            slice,
            vtime,
            waiting_since: (task.on_rq() && !task.on_cpu()).then_some(task.waiting_since),
            cpus: Some(task.usable_cpus()).filter(|cpus| cpus.weight() < self.nr_cpus()),
        }
    }

    /// Returns all queues of all classes that are not empty.
    fn queues(&self) -> Vec<Queue> {
        let mut queues = Vec::new();
        let waiting = |class: Class, cpu: CpuId| {
            let tasks = self
                .tasks
                .iter()
                .filter(move |task| task.class == class && task.cpu() == cpu);
            tasks.filter(|task| task.on_rq() && !task.on_cpu() && !task.fair.throttled)
        };
        for cpu in self.cpus() {
            let mut rt: Vec<_> = waiting(Class::Rt, cpu).collect();
            rt.sort_by_key(|task| (task.prio(), task.waiting_since));
            let mut fair: Vec<_> = waiting(Class::Fair, cpu).collect();
            fair.sort_by_key(|task| (task.fair.deadline, task.pid()));
            for (name, tasks) in [("realtime", rt), ("fair", fair)] {
                queues.push(Queue {
                    name: format!("{name} queue of CPU {cpu}"),
                    cpu: Some(cpu.nr()),
                    tasks: tasks.iter().map(|task| task.pid()).collect(),
                });
            }
        }
        let dsqs = &self.ext.dsqs;
        for dsq in dsqs.all() {
            let mut tasks = Vec::new();
            let mut at = dsqs.first(dsq);
            while let Some(task) = at {
                tasks.push(self.pid_of(task));
                at = dsqs.next(task);
            }
            let local = dsqs.local_cpu(dsq);
            let name = match (local, dsqs.id(dsq)) {
                (Some(cpu), _) => format!("local DSQ of CPU {cpu}"),
                (None, SCX_DSQ_GLOBAL) => "global DSQ".to_owned(),
                (None, SCX_DSQ_BYPASS) => "bypass DSQ".to_owned(),
                (None, id) => format!("DSQ {id:#x}"),
            };
            queues.push(Queue {
                name,
                cpu: local.map(CpuId::nr),
                tasks,
            });
        }
        let held = self.tasks.iter().filter(|task| {
            let queued = task.class == Class::Ext && task.on_rq() && !task.on_cpu();
            queued && task.ext.ops_state == OpsState::Queued
        });
        queues.push(Queue {
            name: "held by the policy in its own queues".to_owned(),
            cpu: None,
            tasks: held.map(|task| task.pid()).collect(),
        });
        queues.retain(|queue| !queue.tasks.is_empty());
        queues
    }
}
