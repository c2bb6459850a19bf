// SPDX-License-Identifier: GPL-2.0-only
//! Contradictions in a workload: indices that lead nowhere, values out of range, loops in which no time
//! passes, locks that are not held, waits that nobody ends.

use crate::disturbance::{Action, Disturbance};
use crate::program::{Dist, Op, Policy, Program, Resource, ResourceId, Workload};
use input::Error;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong, and in which step of which program if it is in one.
#[derive(Debug)]
pub(crate) struct Finding {
    pub op: Option<(usize, usize)>,
    pub message: String,
    pub hint: String,
}

/// No time in a workload is longer: 36 years. Sums of a few never overflow.
pub const MAX_NS: u64 = 1 << 60;

type Checked = Result<(), Finding>;

fn wrong(message: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        op: None,
        message: message.into(),
        hint: hint.into(),
    }
}

impl Workload {
    /// Whether a machine can execute this.
    ///
    /// # Errors
    /// The first contradiction found, with the task or program it is in.
    pub fn check(&self) -> Result<(), Error> {
        check(self).map_err(|finding| {
            let place = match finding.op {
                None => self.name.clone(),
                Some((program, op)) => {
                    let comm = self.tasks.iter().find(|t| t.program as usize == program);
                    let comm = comm.map_or("?", |t| t.comm.as_str());
                    format!("{}: task '{comm}', step {op}", self.name)
                }
            };
            Error::at(place, finding.message).hint(finding.hint)
        })
    }

    /// The tasks, by index, that are there at some time: those that are started, and whom they fork.
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
        locks(workload, program).map_err(in_program)?;
    }
    ends_of_waits(workload)
}

fn cgroups(workload: &Workload) -> Checked {
    match workload.cgroups.first() {
        Some(root) if root.path == "/" => {}
        _ => return Err(wrong("the first cgroup is not the root", "cgroup 0 is always \"/\"")),
    }
    for cgroup in &workload.cgroups {
        if !cgroup.path.starts_with('/') {
            return Err(wrong(
                format!("cgroup '{}' has no absolute path", cgroup.path),
                "paths of cgroups start with '/'",
            ));
        }
        if !(1..=10_000).contains(&cgroup.weight) {
            return Err(wrong(
                format!("weight {} of cgroup '{}' is out of range", cgroup.weight, cgroup.path),
                "cpu.weight is 1..=10000, 100 by default",
            ));
        }
    }
    Ok(())
}

/// Disturbances are in the order of time and about cgroups that there are; what is made later is not there before.
fn disturbances(workload: &Workload) -> Checked {
    if !workload.disturbances.is_sorted_by_key(|disturbance| disturbance.at_ns) {
        return Err(wrong("the disturbances are not in the order of time", "sort them"));
    }
    let path = |cgroup: u32| workload.cgroups.get(cgroup as usize).map(|cgroup| cgroup.path.as_str());
    for Disturbance { at_ns, what } in &workload.disturbances {
        too_long("a disturbance's time", *at_ns)?;
        if let Action::Irq { ns, period_ns, .. } = what {
            too_long("an interrupt", *ns.max(period_ns))?;
        }
        match what.cgroup().map(|cgroup| (cgroup, path(cgroup))) {
            Some((_, None)) => return Err(wrong("a disturbance of no cgroup", "cgroup index out of range")),
            Some((0, _)) if !matches!(what, Action::Attach { .. }) => {
                return Err(wrong(
                    "a disturbance of the root cgroup",
                    "it has no weight, no limits and no end: tasks can be attached to it",
                ));
            }
            _ => {}
        }
        if let Action::Make { cgroup } = *what
            && workload.is_made_later(cgroup)
            && let Some(task) = workload.tasks.iter().find(|task| task.spawn && task.cgroup == cgroup)
        {
            let path = path(cgroup).unwrap_or("?");
            return Err(wrong(
                format!("task '{}' starts in cgroup '{path}', which is made later", task.comm),
                "start it elsewhere and attach it, or leave \"mkdir\" out",
            ));
        }
    }
    Ok(())
}

fn tasks(workload: &Workload) -> Checked {
    for task in &workload.tasks {
        let in_task = |message: &str| format!("task '{}': {message}", task.comm);
        too_long("a start time", task.start_ns)?;
        if task.program as usize >= workload.programs.len() {
            return Err(wrong(in_task("no such program"), "`program` indexes `programs`"));
        }
        if task.cgroup as usize >= workload.cgroups.len() {
            return Err(wrong(in_task("no such cgroup"), "`cgroup` indexes `cgroups`"));
        }
        policy(task.policy).map_err(|finding| Finding {
            message: in_task(&finding.message),
            ..finding
        })?;
        if let Some(cpus) = &task.cpus {
            if cpus.is_empty() {
                return Err(wrong(in_task("may run on no CPU"), "leave `cpus` out for all CPUs"));
            }
            if task.start_cpu.is_some_and(|cpu| !cpus.contains(&cpu)) {
                return Err(wrong(
                    in_task("starts on a CPU it may not use"),
                    "`start_cpu` is one of `cpus`",
                ));
            }
        }
    }
    if !workload.tasks.iter().any(|task| task.spawn) {
        return Err(wrong(
            "no task is created at the start",
            "at least one task needs an instance",
        ));
    }
    Ok(())
}

/// Ranges as sched_setscheduler(2) and nice(2) have them.
pub(crate) fn policy(policy: Policy) -> Checked {
    match policy {
        Policy::Normal { nice } | Policy::Batch { nice } | Policy::Ext { nice } => {
            if !(-20..=19).contains(&nice) {
                return Err(wrong(format!("nice {nice} is out of range"), "nice is -20..=19"));
            }
        }
        Policy::Fifo { rt_priority } | Policy::RoundRobin { rt_priority } => {
            if !(1..=99).contains(&rt_priority) {
                return Err(wrong(
                    format!("real-time priority {rt_priority} is out of range"),
                    "SCHED_FIFO and SCHED_RR take 1..=99, 99 highest",
                ));
            }
        }
        Policy::Idle | Policy::Deadline => {}
    }
    Ok(())
}

fn resource_values(resource: &Resource) -> Checked {
    match resource {
        Resource::Barrier { name, participants: 0 } => Err(wrong(
            format!("barrier '{name}' has no participants"),
            "it must be used by at least one created task",
        )),
        Resource::Channel { name, capacity: 0, .. } => Err(wrong(
            format!("'{name}' has no capacity"),
            "give it at least one byte; a pipe has 65536",
        )),
        _ => Ok(()),
    }
}

fn too_long(what: &str, ns: u64) -> Checked {
    match ns > MAX_NS {
        true => Err(wrong(
            format!("{what} of {ns} ns is too long"),
            format!("times are at most {MAX_NS} ns, which is 36 years"),
        )),
        false => Ok(()),
    }
}

fn dist(dist: &Dist) -> Checked {
    let longest = match dist {
        Dist::Fixed(ns) | Dist::Uniform { hi: ns, .. } | Dist::Pareto { hi: ns, .. } => *ns,
        // What is drawn is up to 64 times as long.
        Dist::Exponential { mean } => mean.saturating_mul(64),
        Dist::HyperExponential { mean_a, mean_b, .. } => mean_a.max(mean_b).saturating_mul(64),
        Dist::Trace(values) => values.iter().copied().max().unwrap_or(0),
    };
    too_long("a length", longest)?;
    let bad = |what: &str, hint: &str| Err(wrong(format!("distribution: {what}"), hint));
    match dist {
        Dist::Uniform { lo, hi } if lo > hi => bad("lo is above hi", "swap them"),
        Dist::HyperExponential { permille_a, .. } if *permille_a > 1000 => {
            bad("probability above 1", "permille_a is 0..=1000")
        }
        Dist::Pareto { lo, hi, alpha_milli } if *lo == 0 || lo > hi || *alpha_milli == 0 => {
            bad("bounds or shape out of range", "0 < lo <= hi, alpha_milli > 0")
        }
        Dist::Trace(values) if values.is_empty() => bad("empty trace", "give at least one value"),
        _ => Ok(()),
    }
}

/// Whether a use of it takes time at least now and then.
fn takes_time(dist: &Dist) -> bool {
    match dist {
        Dist::Fixed(ns) | Dist::Uniform { hi: ns, .. } | Dist::Exponential { mean: ns } => *ns > 0,
        Dist::HyperExponential { mean_a, mean_b, .. } => *mean_a > 0 || *mean_b > 0,
        Dist::Pareto { hi, .. } => *hi > 0,
        Dist::Trace(values) => values.iter().any(|&ns| ns > 0),
    }
}

fn operands(workload: &Workload, program: &Program, pc: usize, op: &Op) -> Checked {
    let resource = |id: ResourceId, kind: &str, fits: fn(&Resource) -> bool| match workload.resources.get(id as usize) {
        Some(resource) if fits(resource) => Ok(()),
        Some(resource) => Err(wrong(
            format!("'{}' is not a {kind}", resource.name()),
            format!("refer to a {kind}"),
        )),
        None => Err(wrong(format!("no such {kind}"), "resource index out of range")),
    };
    let mutex = |id| resource(id, "mutex", |r| matches!(r, Resource::Mutex { .. }));
    let cond = |id| resource(id, "condition", |r| matches!(r, Resource::Cond { .. }));
    let semaphore = |id| resource(id, "semaphore", |r| matches!(r, Resource::Semaphore { .. }));
    let gate = |id| resource(id, "suspend", |r| matches!(r, Resource::Suspend { .. }));
    let channel = |id| resource(id, "channel", |r| matches!(r, Resource::Channel { .. }));
    match op {
        Op::Run(length) | Op::Runtime(length) | Op::Sleep(length) | Op::Interval { length, .. } => dist(length),
        Op::Timer { period, .. } => too_long("a period", *period),
        // A byte of a device takes no more than a microsecond.
        Op::Mem { bytes } | Op::Io { bytes } => too_long("an access", bytes.saturating_mul(1000)),
        Op::Lock(id) | Op::Unlock(id) => mutex(*id),
        Op::CondWait { cond: id, mutex: m } | Op::Sync { cond: id, mutex: m } => cond(*id).and_then(|()| mutex(*m)),
        Op::Signal(id) | Op::Broadcast(id) => cond(*id),
        Op::Barrier(id) => resource(*id, "barrier", |r| matches!(r, Resource::Barrier { .. })),
        Op::SemPost(id) | Op::SemWait(id) => semaphore(*id),
        Op::Suspend(id) | Op::Resume(id) => gate(*id),
        Op::Recv(id) => channel(*id),
        Op::Send { channel: id, bytes } => {
            channel(*id)?;
            match &workload.resources[*id as usize] {
                Resource::Channel { name, capacity, .. } if *bytes == 0 || u64::from(*bytes) > *capacity => Err(wrong(
                    format!("a message of {bytes} bytes does not fit '{name}'"),
                    format!("its capacity is {capacity} bytes, the least is 1"),
                )),
                _ => Ok(()),
            }
        }
        Op::Fork { task, .. } if *task as usize >= workload.tasks.len() => {
            Err(wrong("fork of no task", "`task` indexes `tasks`"))
        }
        Op::SetAffinity(Some(cpus)) if cpus.is_empty() => Err(wrong("affinity to no CPU", "None stands for all CPUs")),
        Op::SetPolicy(to) => policy(*to),
        Op::SetCgroup(id) if *id as usize >= workload.cgroups.len() => {
            Err(wrong("no such cgroup", "cgroup index out of range"))
        }
        Op::Done { count: 0 } => Err(wrong("nothing done", "`count` is at least 1")),
        Op::LoopInit { counter } | Op::LoopBack { counter, .. } if *counter >= program.counters => {
            Err(wrong("no such loop counter", "raise `counters`"))
        }
        Op::LoopBack { target, .. } if *target as usize > pc => {
            Err(wrong("a loop jumps forward", "`target` is at or before the step"))
        }
        Op::LoopBack { times: Some(0), .. } => Err(wrong(
            "a loop of no rounds",
            "its body has been done once when the count is looked at",
        )),
        _ => Ok(()),
    }
}

impl Resource {
    pub fn name(&self) -> &str {
        match self {
            Resource::Mutex { name, .. }
            | Resource::Cond { name }
            | Resource::Barrier { name, .. }
            | Resource::Semaphore { name, .. }
            | Resource::Suspend { name }
            | Resource::Channel { name, .. } => name,
        }
    }
}

/// Rounds without time that are still taken for a meant burst.
const IDLE_ROUNDS: u64 = 10_000;

/// Each long loop must wait or compute; what only takes the time of a system call does not count.
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
                wrong(
                    "a loop without end in which no time passes",
                    "let it run, sleep or wait for something, or give it a small number of rounds",
                ),
            ));
        }
    }
    Ok(())
}

/// A program is straight but for its loops, so what it holds is known at each step.
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
                wrong(
                    format!("'{}' is locked twice by the same task", name(*id)),
                    "it would wait for itself; unlock it first",
                )
            }),
            Op::Unlock(id) => {
                (!held.remove(id)).then(|| wrong(format!("'{}' is unlocked but not held", name(*id)), "lock it first"))
            }
            Op::CondWait { mutex, .. } | Op::Sync { mutex, .. } => (!held.contains(mutex)).then(|| {
                wrong(
                    format!("waits with mutex '{}', which it does not hold", name(*mutex)),
                    "lock it before and unlock it after, as with pthread_cond_wait",
                )
            }),
            Op::LoopBack { target, times, .. } => {
                let differs = at_step[*target as usize].symmetric_difference(&held).next();
                match (differs, times) {
                    (Some(id), _) => Some(wrong(
                        format!("'{}' is not held alike in each round of a loop", name(*id)),
                        "lock and unlock it in the same round",
                    )),
                    // What follows is never reached.
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
            wrong(
                format!("the task ends while it holds '{}'", name(*id)),
                "unlock it: nobody else can",
            ),
        )),
        None => Ok(()),
    }
}

/// Who waits must have somebody who can end it.
fn ends_of_waits(workload: &Workload) -> Checked {
    let used: BTreeSet<u32> = workload.tasks.iter().map(|t| t.program).collect();
    let mut waits: BTreeMap<ResourceId, (usize, usize)> = BTreeMap::new();
    let mut sends: BTreeMap<ResourceId, (usize, usize)> = BTreeMap::new();
    let mut wakes: BTreeSet<ResourceId> = BTreeSet::new();
    for &program in &used {
        for (pc, op) in workload.programs[program as usize].ops.iter().enumerate() {
            let place = (program as usize, pc);
            match op {
                Op::CondWait { cond: id, .. } | Op::Suspend(id) | Op::SemWait(id) => {
                    waits.entry(*id).or_insert(place);
                }
                Op::Recv(id) => {
                    waits.entry(*id).or_insert(place);
                }
                Op::Sync { cond, .. } => {
                    wakes.insert(*cond);
                }
                Op::Send { channel, .. } => {
                    sends.entry(*channel).or_insert(place);
                    wakes.insert(*channel);
                }
                Op::Signal(id) | Op::Broadcast(id) | Op::Resume(id) | Op::SemPost(id) => {
                    wakes.insert(*id);
                }
                _ => {}
            }
        }
    }
    for (id, &place) in &waits {
        let resource = &workload.resources[*id as usize];
        let (who, hint) = match resource {
            Resource::Channel { .. } => ("no task sends to", "add a send"),
            Resource::Semaphore { value: 1.., .. } => continue,
            Resource::Semaphore { .. } => ("no task posts", "add a sem_post or a start value"),
            Resource::Suspend { .. } => ("no task resumes", "add a resume"),
            _ => ("no task signals or resumes", "add a signal, broad, sync or resume"),
        };
        if !wakes.contains(id) {
            return Err(Finding {
                op: Some(place),
                message: format!("waits for '{}', but {who} it", resource.name()),
                hint: hint.into(),
            });
        }
    }
    for (id, &place) in &sends {
        if !waits.contains_key(id) {
            return Err(Finding {
                op: Some(place),
                message: format!(
                    "sends to '{}', from which no task receives",
                    workload.resources[*id as usize].name()
                ),
                hint: "add a recv: the sender would stop when it is full".into(),
            });
        }
    }
    Ok(())
}
