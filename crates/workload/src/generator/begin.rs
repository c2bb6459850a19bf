// SPDX-License-Identifier: GPL-2.0-only
//! The start of a workload: a parent task forks all others. Each child waits until all children are
//! ready.
//!
//! ```text
//! parent: fork, fork, ...   read `ready` once per child   write `wake`   wait for the children
//! child:  set up            write `ready`, poll `wake`                   its work
//! ```
//!
//! The measurement begins just before the parent writes to `wake`.

use super::arguments::{Arguments, Parameter, Unit};
use super::{channel, task};
use crate::builder::Builder;
use crate::program::{MEASURED, Op, Resource, ResourceId, TaskId, Workload};
use std::collections::BTreeSet;

/// The parameter `begin` of generators that do not model a real program.
pub const PARAMETER: Parameter = Parameter {
    name: "begin",
    unit: Unit::Choice(&["start", "fork"]),
    default: "start",
    range: ("", ""),
    meaning: "start: all tasks exist at time 0; fork: a parent forks them, and the measurement begins when all are ready",
};

/// The two pipes with which a parent and its children wait for each other.
#[derive(Clone, Copy)]
pub struct Gate {
    /// Pipe to which each child writes when it is ready.
    ready: ResourceId,
    /// Pipe to which the parent writes one byte when all children are ready. The children poll this
    /// pipe.
    wake: ResourceId,
}

impl Gate {
    /// Adds the two pipes to the resources of a workload.
    pub fn new(resources: &mut Vec<Resource>) -> Gate {
        let ready = input::index(resources.len());
        resources.extend([channel::pipe("ready".into()), channel::pipe("wake".into())]);
        Gate { ready, wake: ready + 1 }
    }

    /// Returns the steps with which a child waits until all children are ready.
    pub fn wait(self) -> [Op; 2] {
        let channel = self.ready;
        [Op::Send { channel, bytes: 1 }, Op::Poll(self.wake)]
    }

    /// Returns the program of the task that forks `children`, as threads or as processes.
    pub fn parent(self, children: impl ExactSizeIterator<Item = TaskId>, thread: bool) -> Builder {
        let mut program = Builder::default();
        let rounds = children.len() as u64;
        for task in children {
            program.op(Op::Fork { task, thread });
        }
        program
            .repeat(Some(rounds), |b| {
                b.op(Op::Recv(self.ready));
            })
            .op(Op::Phase(MEASURED))
            .op(Op::Send {
                channel: self.wake,
                bytes: 1,
            })
            .op(Op::WaitChildren);
        program
    }
}

/// Applies the parameter `begin` to a workload in which no task forks, and in which each task has its
/// own process.
pub fn apply(a: &Arguments, workload: &mut Workload) {
    if a.choice("begin") == "fork" {
        fork_all(workload, false);
    }
}

/// Makes a workload begin with a parent that forks all tasks. The tasks must all be threads of one
/// process, or each must have its own process. No task may fork.
///
/// # Errors
/// The reason why the workload cannot begin in this way.
pub fn by_fork(workload: &mut Workload) -> Result<(), &'static str> {
    if workload
        .programs
        .iter()
        .any(|program| program.ops.iter().any(|op| matches!(op, Op::Fork { .. })))
    {
        return Err("its tasks fork");
    }
    if workload.tasks.iter().any(|task| !task.spawn) {
        return Err("some of its tasks do not exist from the start");
    }
    let processes: BTreeSet<u32> = workload.tasks.iter().map(|task| task.process).collect();
    let is_one = processes.len() == 1 && workload.tasks.len() > 1;
    if !is_one && processes.len() < workload.tasks.len() {
        return Err("it has several processes with several tasks");
    }
    fork_all(workload, is_one);
    Ok(())
}

fn fork_all(workload: &mut Workload, thread: bool) {
    let gate = Gate::new(&mut workload.resources);
    for program in &mut workload.programs {
        let wait = gate.wait();
        for op in &mut program.ops {
            if let Op::LoopBack { target, .. } = op {
                *target += input::index(wait.len());
            }
        }
        program.ops.splice(..0, wait);
    }
    let children = 0..input::index(workload.tasks.len());
    for child in &mut workload.tasks {
        child.spawn = false;
    }
    let program = input::index(workload.programs.len());
    let process = match thread {
        true => workload.tasks.first().map_or(0, |task| task.process),
        false => children.end,
    };
    workload.programs.push(gate.parent(children, thread).finish());
    workload.tasks.push(task("parent", program, process));
}
