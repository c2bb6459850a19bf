// SPDX-License-Identifier: GPL-2.0-only
//! Validation of workloads. It finds invalid indices, values out of range, endless loops in which
//! no time passes, unlocking of mutexes that are not held, and waits that no task can end.

mod steps;
mod sync;

use crate::disturbance::{Action, Disturbance};
use crate::program::{Op, Resource, SchedPolicy, Workload};
use input::Error;
use std::collections::BTreeSet;

/// An error in a workload. If the error is in a step of a program, `op` contains the index of the
/// program and that of the step.
#[derive(Debug)]
pub(crate) struct Finding {
    pub op: Option<(usize, usize)>,
    pub message: String,
    pub hint: String,
}

/// Longest time in a workload in ns: 36 years. Sums of a few such times cannot overflow.
pub const MAX_NS: u64 = 1 << 60;

/// Maximum number of tasks that a workload starts. On 8192 CPUs, a run needs about 4 KB of memory
/// for each task, of which 1 KB is the mask of allowed CPUs in its task_struct.
pub const MAX_TASKS: usize = 1_000_000;
/// Reason for [`MAX_TASKS`], for error messages.
pub(crate) const WHY_MAX_TASKS: &str = "each takes up to 4 KB of memory";

type Checked = Result<(), Finding>;

fn new_finding(message: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        op: None,
        message: message.into(),
        hint: hint.into(),
    }
}

impl Workload {
    /// Validates the workload, so that a machine can execute it.
    ///
    /// # Errors
    /// Returns the first error found, with the task and step that contain it.
    pub fn check(&self) -> Result<(), Error> {
        check(self).map_err(|finding| {
            let location = match finding.op {
                None => self.name.clone(),
                Some((program, op)) => {
                    let comm = self.tasks.iter().find(|t| t.program as usize == program);
                    let comm = comm.map_or("?", |t| t.comm.as_str());
                    format!("{}: task '{comm}', step {op}", self.name)
                }
            };
            Error::at(location, finding.message).hint(finding.hint)
        })
    }

    /// Returns the indices of all tasks that exist at some time: the tasks that are created at the
    /// start, the tasks that these fork, and so on.
    pub(crate) fn created(&self) -> BTreeSet<u32> {
        let started = self.tasks.iter().zip(0..).filter(|(task, _)| task.spawn);
        let mut left: Vec<u32> = started.map(|(_, index)| index).collect();
        let mut created = BTreeSet::new();
        while let Some(index) = left.pop() {
            if !created.insert(index) {
                continue;
            }
            let program = &self.programs[self.tasks[index as usize].program as usize];
            left.extend(program.ops.iter().filter_map(|op| match op {
                Op::Fork { task, .. } => Some(*task),
                _ => None,
            }));
        }
        created
    }
}

pub(crate) fn check(workload: &Workload) -> Checked {
    cgroups(workload)?;
    tasks(workload)?;
    disturbances(workload)?;
    for resource in &workload.resources {
        resource_values(resource)?;
    }
    for (at, program) in workload.programs.iter().enumerate() {
        for (pc, op) in program.ops.iter().enumerate() {
            steps::operands(workload, program, pc, op).map_err(|finding| Finding {
                op: Some((at, pc)),
                ..finding
            })?;
        }
        let in_program = |(pc, finding)| Finding {
            op: Some((at, pc)),
            ..finding
        };
        steps::endless(workload, program).map_err(in_program)?;
        sync::migration(program).map_err(in_program)?;
        sync::locks(workload, program).map_err(in_program)?;
    }
    sync::wakers_exist(workload)
}

/// Checks the paths and weights of the cgroups.
fn cgroups(workload: &Workload) -> Checked {
    match workload.cgroups.first() {
        Some(root) if root.path == "/" => {}
        _ => {
            return Err(new_finding(
                "the first cgroup is not the root",
                "make cgroup 0 the root, \"/\"",
            ));
        }
    }
    for cgroup in &workload.cgroups {
        if !cgroup.path.starts_with('/') {
            return Err(new_finding(
                format!("the path of cgroup '{}' is not absolute", cgroup.path),
                "start the path with '/'",
            ));
        }
        if !(1..=10_000).contains(&cgroup.weight) {
            return Err(new_finding(
                format!("weight {} of cgroup '{}' is out of range", cgroup.weight, cgroup.path),
                "use a cpu.weight of 1 to 10000; the default is 100",
            ));
        }
    }
    Ok(())
}

/// Checks that disturbances are ordered by time, that their cgroups exist, and that no task starts
/// in a cgroup that is created later.
fn disturbances(workload: &Workload) -> Checked {
    if !workload.disturbances.is_sorted_by_key(|disturbance| disturbance.at_ns) {
        return Err(new_finding(
            "the disturbances are not ordered by time",
            "sort them by their time",
        ));
    }
    let path = |cgroup: u32| workload.cgroups.get(cgroup as usize).map(|cgroup| cgroup.path.as_str());
    for Disturbance { at_ns, action } in &workload.disturbances {
        too_long("a disturbance's time", *at_ns)?;
        if let Action::Irq { ns, period_ns, .. } = action {
            too_long("an interrupt", *ns.max(period_ns))?;
        }
        match action.cgroup().map(|cgroup| (cgroup, path(cgroup))) {
            Some((_, None)) => {
                return Err(new_finding(
                    "a disturbance names a cgroup that does not exist",
                    "use the index of a cgroup in `cgroups`",
                ));
            }
            Some((0, _)) if !matches!(action, Action::Attach { .. }) => {
                return Err(new_finding(
                    "a disturbance changes the root cgroup",
                    "the root has no weight and no limits and cannot be removed; only attach tasks to it",
                ));
            }
            _ => {}
        }
        if let Action::Create { cgroup } = *action
            && workload.is_created_later(cgroup)
            && let Some(task) = workload.tasks.iter().find(|task| task.spawn && task.cgroup == cgroup)
        {
            let path = path(cgroup).unwrap_or("?");
            return Err(new_finding(
                format!("task '{}' starts in cgroup '{path}', which is created later", task.comm),
                "start the task in another cgroup and attach it later, or remove \"mkdir\"",
            ));
        }
    }
    Ok(())
}

/// Checks the tasks: their programs, cgroups, policies and CPUs.
fn tasks(workload: &Workload) -> Checked {
    for (number, task) in (0..).zip(&workload.tasks) {
        let in_task = |message: &str| format!("task '{}': {message}", task.comm);
        too_long("a start time", task.start_ns)?;
        too_long("a timer slack", task.attributes.timer_slack_ns.unwrap_or(0))?;
        if let Some(parent) = task.attributes.parent {
            let exists = workload.tasks.get(parent as usize).is_some_and(|parent| parent.spawn);
            if !exists || parent >= number {
                return Err(new_finding(
                    in_task("its parent is not an earlier task that is created at the start"),
                    "use the index of such a task in `tasks`",
                ));
            }
        }
        if task.program as usize >= workload.programs.len() {
            return Err(new_finding(
                in_task("its program does not exist"),
                "use the index of a program in `programs`",
            ));
        }
        if task.cgroup as usize >= workload.cgroups.len() {
            return Err(new_finding(
                in_task("its cgroup does not exist"),
                "use the index of a cgroup in `cgroups`",
            ));
        }
        policy(task.policy).map_err(|finding| Finding {
            message: in_task(&finding.message),
            ..finding
        })?;
        if let Some(cpus) = &task.cpus {
            if cpus.is_empty() {
                return Err(new_finding(
                    in_task("no CPU is allowed"),
                    "name at least one CPU, or leave `cpus` out to allow all",
                ));
            }
            if task.start_cpu.is_some_and(|cpu| !cpus.contains(&cpu)) {
                return Err(new_finding(
                    in_task("the CPU on which it starts is not allowed"),
                    "make `start_cpu` one of `cpus`",
                ));
            }
        }
    }
    if !workload.tasks.iter().any(|task| task.spawn) {
        return Err(new_finding(
            "no task starts",
            "set \"instance\" of at least one task to 1 or more",
        ));
    }
    Ok(())
}

/// Checks a scheduling policy's parameters against the ranges of sched_setscheduler(2) and nice(2).
pub(crate) fn policy(policy: SchedPolicy) -> Checked {
    match policy {
        SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => {
            if !(-20..=19).contains(&nice) {
                return Err(new_finding(
                    format!("nice {nice} is out of range"),
                    "use a nice value of -20 to 19",
                ));
            }
        }
        SchedPolicy::Fifo { rt_priority } | SchedPolicy::RoundRobin { rt_priority } => {
            if !(1..=99).contains(&rt_priority) {
                return Err(new_finding(
                    format!("real-time priority {rt_priority} is out of range"),
                    "use 1 to 99 for SCHED_FIFO and SCHED_RR; 99 is the highest",
                ));
            }
        }
        SchedPolicy::Idle | SchedPolicy::Deadline { .. } => {}
    }
    Ok(())
}

/// Checks the parameters of a resource.
fn resource_values(resource: &Resource) -> Checked {
    match resource {
        Resource::Barrier { name, participants: 0 } => Err(new_finding(
            format!("barrier '{name}' has no participants"),
            "use it in at least one task that is created",
        )),
        Resource::Channel { name, capacity: 0, .. } => Err(new_finding(
            format!("the capacity of '{name}' is 0"),
            "give it at least one byte; a pipe has 65536",
        )),
        _ => Ok(()),
    }
}

/// Returns an error if a time exceeds [`MAX_NS`].
fn too_long(name: &str, ns: u64) -> Checked {
    match ns > MAX_NS {
        true => Err(new_finding(
            format!("{name} of {ns} ns is too long"),
            format!("use at most {MAX_NS} ns, which is 36 years"),
        )),
        false => Ok(()),
    }
}
