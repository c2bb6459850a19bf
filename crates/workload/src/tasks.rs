// SPDX-License-Identifier: GPL-2.0-only
//! A builder of workloads that adds one task at a time. Tests use it.

use crate::generator::{empty, task};
use crate::program::{Op, Program, Resource, Workload};
use crate::task_specs::TaskSpec;

/// A workload under construction. For example: `Tasks::default().add("a", ops).with(|task|
/// task.cpus = Some(vec![0]))`.
#[derive(Clone, Debug)]
pub struct Tasks {
    pub workload: Workload,
}

impl Default for Tasks {
    /// Returns a workload without tasks and with only the root cgroup.
    fn default() -> Tasks {
        Tasks {
            workload: empty("", None),
        }
    }
}

impl Tasks {
    /// Sets the resources that tasks share.
    #[must_use]
    pub fn resources(mut self, resources: Vec<Resource>) -> Tasks {
        self.workload.resources = resources;
        self
    }

    /// Adds a task with nice 0 that may use all CPUs, is created at the start and has a process of
    /// its own.
    #[must_use]
    pub fn add(mut self, comm: &str, ops: Vec<Op>) -> Tasks {
        let counter = |op: &Op| match op {
            Op::LoopInit { counter } | Op::LoopBack { counter, .. } => counter + 1,
            _ => 0,
        };
        let counters = ops.iter().map(counter).max().unwrap_or(0);
        let number = input::index(self.workload.tasks.len());
        let program = input::index(self.workload.programs.len());
        self.workload.programs.push(Program { ops, counters });
        self.workload.tasks.push(task(comm, program, number));
        self
    }

    /// Adds `n` tasks. Their names are `comm` and a number.
    #[must_use]
    pub fn add_many(self, n: u32, comm: &str, ops: &[Op]) -> Tasks {
        (0..n).fold(self, |tasks, i| tasks.add(&format!("{comm}{i}"), ops.to_vec()))
    }

    /// Changes the task that was added last.
    ///
    /// # Panics
    /// If no task was added.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut TaskSpec)) -> Tasks {
        change(self.workload.tasks.last_mut().expect("a task was added before"));
        self
    }

    /// Changes all tasks added so far.
    #[must_use]
    pub fn with_all(mut self, change: impl Fn(&mut TaskSpec)) -> Tasks {
        self.workload.tasks.iter_mut().for_each(change);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Dist;

    #[test]
    fn tasks_have_their_programs_and_enough_counters() {
        let round = Op::LoopBack {
            counter: 2,
            times: Some(3),
            target: 0,
        };
        let tasks = Tasks::default().add("a", vec![Op::Run(Dist::Fixed(1)), round]);
        let tasks = tasks.add_many(2, "b", &[Op::Yield]).with(|task| task.start_ns = 7);
        let workload = tasks.with_all(|task| task.start_cpu = Some(1)).workload;
        workload.check().expect("the workload is valid");
        let counters: Vec<u32> = workload.programs.iter().map(|program| program.counters).collect();
        assert_eq!(counters, [3, 0, 0]);
        let added: Vec<_> = workload
            .tasks
            .iter()
            .map(|t| (t.comm.as_str(), t.program, t.start_ns))
            .collect();
        assert!(workload.tasks.iter().all(|task| task.start_cpu == Some(1)));
        assert_eq!(added, [("a", 0, 0), ("b0", 1, 0), ("b1", 2, 7)]);
    }
}
