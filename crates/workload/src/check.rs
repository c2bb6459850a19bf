// SPDX-License-Identifier: GPL-2.0-only
//! Validation of workloads. It finds invalid indices, values out of range, endless loops in which
//! no time passes, unlocking of mutexes that are not held, and waits that no task can end.

use crate::disturbance::{Action, Disturbance};
use crate::program::{Dist, Op, Program, Resource, ResourceId, SchedPolicy, Workload};
use input::Error;
use std::collections::{BTreeMap, BTreeSet};

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
            operands(workload, program, pc, op).map_err(|finding| Finding {
                op: Some((at, pc)),
                ..finding
            })?;
        }
        let in_program = |(pc, finding)| Finding {
            op: Some((at, pc)),
            ..finding
        };
        endless(workload, program).map_err(in_program)?;
        migration(program).map_err(in_program)?;
        locks(workload, program).map_err(in_program)?;
    }
    wakers_exist(workload)
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

/// Checks the parameters of a distribution.
fn dist(dist: &Dist) -> Checked {
    let longest = match dist {
        Dist::Fixed(ns) | Dist::Uniform { hi: ns, .. } | Dist::Pareto { hi: ns, .. } => *ns,
        // Samples of an exponential distribution are up to 64 times the mean.
        Dist::Exponential { mean } => mean.saturating_mul(64),
        Dist::HyperExponential { mean_a, mean_b, .. } => mean_a.max(mean_b).saturating_mul(64),
        Dist::Trace(values) => values.iter().copied().max().unwrap_or(0),
    };
    too_long("a length", longest)?;
    let bad = |message: &str, hint: &str| Err(new_finding(format!("distribution: {message}"), hint));
    match dist {
        Dist::Uniform { lo, hi } if lo > hi => bad("lo is above hi", "swap them"),
        Dist::HyperExponential { permille_a, .. } if *permille_a > 1000 => {
            bad("probability above 1", "use a permille_a of 0 to 1000")
        }
        Dist::Pareto { lo, hi, alpha_milli } if *lo == 0 || lo > hi || *alpha_milli == 0 => {
            bad("bounds or shape out of range", "use 0 < lo <= hi and alpha_milli > 0")
        }
        Dist::Trace(values) if values.is_empty() => bad("empty trace", "give at least one value"),
        _ => Ok(()),
    }
}

/// Returns whether a distribution has samples above 0.
fn takes_time(dist: &Dist) -> bool {
    match dist {
        Dist::Fixed(ns) | Dist::Uniform { hi: ns, .. } | Dist::Exponential { mean: ns } => *ns > 0,
        Dist::HyperExponential { mean_a, mean_b, .. } => *mean_a > 0 || *mean_b > 0,
        Dist::Pareto { hi, .. } => *hi > 0,
        Dist::Trace(values) => values.iter().any(|&ns| ns > 0),
    }
}

/// Checks the operands of one step.
fn operands(workload: &Workload, program: &Program, pc: usize, op: &Op) -> Checked {
    let resource = |id: ResourceId, kind: &str, fits: fn(&Resource) -> bool| match workload.resources.get(id as usize) {
        Some(resource) if fits(resource) => Ok(()),
        Some(resource) => Err(new_finding(
            format!("'{}' is not a {kind}", resource.name()),
            format!("use the name of a {kind}"),
        )),
        None => Err(new_finding(
            format!("the {kind} does not exist"),
            "use the index of a resource in `resources`",
        )),
    };
    let mutex = |id| resource(id, "mutex", |r| matches!(r, Resource::Mutex { .. }));
    let cond = |id| resource(id, "condition", |r| matches!(r, Resource::Cond { .. }));
    let semaphore = |id| resource(id, "semaphore", |r| matches!(r, Resource::Semaphore { .. }));
    let gate = |id| resource(id, "suspend", |r| matches!(r, Resource::Suspend { .. }));
    let channel = |id| resource(id, "channel", |r| matches!(r, Resource::Channel { .. }));
    match op {
        Op::Run(length) | Op::Runtime(length) | Op::Sleep(length) | Op::Interval { length, .. } => dist(length),
        Op::Timer { period, .. } => too_long("a period", *period),
        // Reading or writing a byte of a device takes at most a microsecond.
        Op::Mem { bytes } | Op::Io { bytes } => too_long("an access", bytes.saturating_mul(1000)),
        Op::Lock(id) | Op::Unlock(id) => mutex(*id),
        Op::CondWait { cond: id, mutex: m } | Op::Sync { cond: id, mutex: m } => cond(*id).and_then(|()| mutex(*m)),
        Op::Signal(id) | Op::Broadcast(id) => cond(*id),
        Op::Barrier(id) => resource(*id, "barrier", |r| matches!(r, Resource::Barrier { .. })),
        Op::SemPost(id) | Op::SemWait(id) => semaphore(*id),
        Op::Relay { from, to } => semaphore(*from).and_then(|()| semaphore(*to)),
        Op::Suspend(id) | Op::Resume(id) => gate(*id),
        Op::Recv(id) | Op::Poll(id) => channel(*id),
        Op::Send { channel: id, bytes } => {
            channel(*id)?;
            match &workload.resources[*id as usize] {
                Resource::Channel { name, capacity, .. } if *bytes == 0 || u64::from(*bytes) > *capacity => {
                    Err(new_finding(
                        format!("a message of {bytes} bytes does not fit '{name}'"),
                        format!("use 1 to {capacity} bytes, the capacity"),
                    ))
                }
                _ => Ok(()),
            }
        }
        Op::Fork { task, .. } if *task as usize >= workload.tasks.len() => Err(new_finding(
            "the forked task does not exist",
            "use the index of a task in `tasks`",
        )),
        Op::SetAffinity(Some(cpus)) if cpus.is_empty() => Err(new_finding(
            "the affinity contains no CPU",
            "name at least one CPU, or use None for all",
        )),
        Op::SetPolicy(to) => policy(*to),
        Op::SetCgroup(id) if *id as usize >= workload.cgroups.len() => Err(new_finding(
            "the cgroup does not exist",
            "use the index of a cgroup in `cgroups`",
        )),
        Op::Done { count: 0 } => Err(new_finding("0 operations are completed", "use a `count` of at least 1")),
        Op::LoopInit { counter } | Op::LoopBack { counter, .. } if *counter >= program.counters => {
            Err(new_finding("the loop counter does not exist", "raise `counters`"))
        }
        Op::LoopBack { target, .. } if *target as usize > pc => Err(new_finding(
            "a loop jumps forward",
            "make `target` the loop's step or one before it",
        )),
        Op::LoopBack { times: Some(0), .. } => Err(new_finding(
            "a loop has 0 rounds",
            "use at least 1: the body is executed before the rounds are counted",
        )),
        _ => Ok(()),
    }
}

/// Checks that each `migrate_enable` ends a section that a `migrate_disable` began, and that loops
/// contain whole sections.
fn migration(program: &Program) -> Result<(), (usize, Finding)> {
    /// Greatest depth of nested sections.
    const MAX_DEPTH: u32 = 1000;
    let mut depth: u32 = 0;
    let mut depths = Vec::with_capacity(program.ops.len());
    for (pc, op) in program.ops.iter().enumerate() {
        depths.push(depth);
        match op {
            Op::MigrateDisable if depth == MAX_DEPTH => {
                let message = format!("migration is disabled more than {MAX_DEPTH} times");
                return Err((pc, new_finding(message, "add migrate_enable")));
            }
            Op::MigrateDisable => depth += 1,
            Op::MigrateEnable if depth == 0 => {
                let message = "migration is enabled, but it was not disabled";
                return Err((pc, new_finding(message, "add migrate_disable before it, or remove it")));
            }
            Op::MigrateEnable => depth -= 1,
            Op::LoopBack { target, .. } if depths.get(*target as usize) != Some(&depth) => {
                let message = "a round of a loop changes whether migration is disabled";
                return Err((
                    pc,
                    new_finding(message, "use migrate_disable and migrate_enable in pairs"),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Loops with at most this many rounds are accepted even if no time passes in them, because a short
/// burst of steps is probably intended.
const IDLE_ROUNDS: u64 = 10_000;

/// Checks that each loop with more than [`IDLE_ROUNDS`] rounds waits or computes. Steps that take
/// only the time of a system call do not count.
fn endless(workload: &Workload, program: &Program) -> Result<(), (usize, Finding)> {
    let passes = |op: &Op| match op {
        Op::Run(length) | Op::Runtime(length) | Op::Sleep(length) | Op::Interval { length, .. } => takes_time(length),
        Op::Timer { period, .. } => *period > 0,
        Op::Mem { bytes } => *bytes > 0,
        Op::Barrier(id) => !matches!(
            workload.resources.get(*id as usize),
            Some(Resource::Barrier { participants: 1, .. })
        ),
        Op::Io { .. }
        | Op::CondWait { .. }
        | Op::Sync { .. }
        | Op::SemWait(_)
        | Op::Relay { .. }
        | Op::Suspend(_)
        | Op::Send { .. }
        | Op::Recv(_)
        | Op::Yield
        | Op::WaitChildren
        | Op::WaitChild { .. }
        | Op::Exec { .. }
        | Op::Exit => true,
        _ => false,
    };
    for (pc, op) in program.ops.iter().enumerate() {
        let Op::LoopBack { times, target, .. } = op else {
            continue;
        };
        if times.is_some_and(|times| times <= IDLE_ROUNDS) {
            continue;
        }
        if !program.ops[*target as usize..pc].iter().any(passes) {
            return Err((
                pc,
                new_finding(
                    "an endless loop in which no time passes",
                    "add a run, a sleep or a wait, or limit the number of rounds",
                ),
            ));
        }
    }
    Ok(())
}

/// Checks that mutexes are locked and unlocked in pairs. This is possible because programs have no
/// branches except loops, so it is known which mutexes a task holds at each step.
fn locks(workload: &Workload, program: &Program) -> Result<(), (usize, Finding)> {
    let name = |id: ResourceId| workload.resources[id as usize].name();
    let mut held: BTreeSet<ResourceId> = BTreeSet::new();
    let mut at_step: Vec<BTreeSet<ResourceId>> = Vec::new();
    if !program
        .ops
        .iter()
        .any(|op| matches!(op, Op::Lock(_) | Op::Unlock(_) | Op::CondWait { .. } | Op::Sync { .. }))
    {
        return Ok(());
    }
    for (pc, op) in program.ops.iter().enumerate() {
        at_step.push(held.clone());
        let finding = match op {
            Op::Lock(id) => (!held.insert(*id)).then(|| {
                new_finding(
                    format!("'{}' is locked by a task that already holds it", name(*id)),
                    "unlock it first, because the task would wait for itself",
                )
            }),
            Op::Unlock(id) => (!held.remove(id))
                .then(|| new_finding(format!("'{}' is unlocked but not held", name(*id)), "lock it first")),
            Op::CondWait { mutex, .. } | Op::Sync { mutex, .. } => (!held.contains(mutex)).then(|| {
                new_finding(
                    format!("waits with mutex '{}', which the task does not hold", name(*mutex)),
                    "lock the mutex before and unlock it after, as for pthread_cond_wait",
                )
            }),
            Op::LoopBack { target, times, .. } => {
                let differs = at_step[*target as usize].symmetric_difference(&held).next();
                match (differs, times) {
                    (Some(id), _) => Some(new_finding(
                        format!("'{}' is not held in every round of a loop", name(*id)),
                        "lock and unlock it within the same round",
                    )),
                    // The loop is endless, so the steps after it are never executed.
                    (None, None) => return Ok(()),
                    (None, Some(_)) => None,
                }
            }
            _ => None,
        };
        if let Some(finding) = finding {
            return Err((pc, finding));
        }
    }
    match held.first() {
        Some(id) => Err((
            program.ops.len(),
            new_finding(
                format!("the task ends while it holds '{}'", name(*id)),
                "unlock it, because no other task can",
            ),
        )),
        None => Ok(()),
    }
}

/// Checks that for each wait there is a task that can end it, and that each channel to which tasks
/// send has a task that receives.
fn wakers_exist(workload: &Workload) -> Checked {
    let used: BTreeSet<u32> = workload.tasks.iter().map(|t| t.program).collect();
    let mut waits: BTreeMap<ResourceId, (usize, usize)> = BTreeMap::new();
    let mut polls: BTreeMap<ResourceId, (usize, usize)> = BTreeMap::new();
    let mut sends: BTreeMap<ResourceId, (usize, usize)> = BTreeMap::new();
    let mut wakes: BTreeSet<ResourceId> = BTreeSet::new();
    for &program in &used {
        for (pc, op) in workload.programs[program as usize].ops.iter().enumerate() {
            let step = (program as usize, pc);
            match op {
                Op::CondWait { cond: id, .. } | Op::Suspend(id) | Op::SemWait(id) => {
                    waits.entry(*id).or_insert(step);
                }
                Op::Recv(id) => {
                    waits.entry(*id).or_insert(step);
                }
                Op::Relay { from, to } => {
                    waits.entry(*from).or_insert(step);
                    wakes.insert(*to);
                }
                Op::Poll(id) => {
                    polls.entry(*id).or_insert(step);
                }
                Op::Sync { cond, .. } => {
                    wakes.insert(*cond);
                }
                Op::Send { channel, .. } => {
                    sends.entry(*channel).or_insert(step);
                    wakes.insert(*channel);
                }
                Op::Signal(id) | Op::Broadcast(id) | Op::Resume(id) | Op::SemPost(id) => {
                    wakes.insert(*id);
                }
                _ => {}
            }
        }
    }
    for (id, &step) in waits.iter().chain(&polls) {
        let resource = &workload.resources[*id as usize];
        let (missing, hint) = match resource {
            Resource::Channel { .. } => ("no task sends to", "add a send"),
            Resource::Semaphore { value: 1.., .. } => continue,
            Resource::Semaphore { .. } => ("no task posts", "add a sem_post or a start value"),
            Resource::Suspend { .. } => ("no task resumes", "add a resume"),
            _ => ("no task signals or resumes", "add a signal, broad, sync or resume"),
        };
        if !wakes.contains(id) {
            return Err(Finding {
                op: Some(step),
                message: format!("waits for '{}', but {missing} it", resource.name()),
                hint: hint.into(),
            });
        }
    }
    for (id, &step) in &sends {
        if !waits.contains_key(id) && !polls.contains_key(id) {
            return Err(Finding {
                op: Some(step),
                message: format!(
                    "sends to '{}', but no task receives from it",
                    workload.resources[*id as usize].name()
                ),
                hint: "add a recv, because the sender would block when it is full".into(),
            });
        }
    }
    Ok(())
}
