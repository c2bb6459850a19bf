// SPDX-License-Identifier: GPL-2.0-only
//! What a policy could see of the machine at one instant, as plain data.

use crate::hardware::cpuset::CpuSet;
use crate::machine::Machine;
use crate::policy::layout::enums::{SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL};
use crate::sched::class::Class;
use crate::sched::ext::entity::OpsState;
use crate::simulation::id::{IDLE, TaskId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// ns since the run's start.
    pub time: u64,
    pub cpus: Vec<CpuState>,
    /// Those that are not empty.
    pub queues: Vec<Queue>,
    /// Runnable ones and the one that the decision is about, by pid.
    pub tasks: BTreeMap<u32, TaskState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// Pid of what runs there, 0: idle.
    pub curr: u32,
    pub online: bool,
    /// In the mask of idle CPUs that a policy sees: an idle CPU which has been claimed is not.
    pub idle: bool,
    /// Queued tasks of all classes, the running one included.
    pub nr_running: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// The CPU whose queue it is; `None`: any CPU's.
    pub cpu: Option<u32>,
    /// Pids, first to run first.
    pub tasks: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    pub comm: String,
    pub cpu: u32,
    pub weight: u32,
    /// What is left of its slice, ns: of the fair class up to its deadline.
    pub slice: u64,
    /// dsq_vtime, or vruntime of the fair class.
    pub vtime: i64,
    /// Since when it waits to run, ns; `None`: it runs or sleeps.
    pub waiting_since: Option<u64>,
    /// `None`: all.
    pub cpus: Option<CpuSet>,
}

impl Machine {
    /// The state of now; `about` is told of even if it sleeps.
    pub fn snapshot(&self, about: TaskId) -> Snapshot {
        let cpus = (0..self.nr_cpus()).map(|cpu| self.cpu_state(cpu)).collect();
        let tasks = self.tasks.numbered();
        let told = tasks.filter(|(id, task)| task.on_rq || (*id == about && about != IDLE));
        Snapshot {
            time: self.now,
            cpus,
            queues: self.queues(),
            tasks: told.map(|(id, task)| (task.pid, self.task_state(id))).collect(),
        }
    }

    fn cpu_state(&self, cpu: u32) -> CpuState {
        let rq = &self.rqs[cpu as usize];
        let node = self.idle.per_node().then(|| self.spec.topology.cpus[cpu as usize].node);
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
            comm: task.comm.clone(),
            cpu: task.cpu,
            weight: task.weight,
            slice,
            vtime,
            waiting_since: (task.on_rq && !task.on_cpu).then_some(task.waiting_since),
            cpus: (task.nr_cpus_allowed < self.nr_cpus()).then(|| task.cpus.clone()),
        }
    }

    /// The queues of all classes that have waiting tasks.
    fn queues(&self) -> Vec<Queue> {
        let mut queues = Vec::new();
        let waiting = |class: Class, cpu: u32| {
            let tasks = self
                .tasks
                .iter()
                .filter(move |task| task.class == class && task.cpu == cpu);
            tasks.filter(|task| task.on_rq && !task.on_cpu && !task.fair.throttled)
        };
        for cpu in 0..self.nr_cpus() {
            let mut rt: Vec<_> = waiting(Class::Rt, cpu).collect();
            rt.sort_by_key(|task| (task.prio(), task.waiting_since));
            let mut fair: Vec<_> = waiting(Class::Fair, cpu).collect();
            fair.sort_by_key(|task| (task.fair.deadline, task.pid));
            for (name, tasks) in [("realtime", rt), ("fair", fair)] {
                queues.push(Queue {
                    name: format!("{name} queue of CPU {cpu}"),
                    cpu: Some(cpu),
                    tasks: tasks.iter().map(|task| task.pid).collect(),
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
                cpu: local,
                tasks,
            });
        }
        let kept = self.tasks.iter().filter(|task| {
            let queued = task.class == Class::Ext && task.on_rq && !task.on_cpu;
            queued && task.ext.ops_state == OpsState::Queued
        });
        queues.push(Queue {
            name: "kept by the policy in its own queues".to_owned(),
            cpu: None,
            tasks: kept.map(|task| task.pid).collect(),
        });
        queues.retain(|queue| !queue.tasks.is_empty());
        queues
    }
}
