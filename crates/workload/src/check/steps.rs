// SPDX-License-Identifier: GPL-2.0-only
//! Checks of the steps of a program: their operands, and loops in which no time passes.

use super::{Checked, Finding, new_finding, policy, too_long};
use crate::program::{Dist, Op, Program, Resource, ResourceId, Workload};

/// Checks the operands of one step.
pub(super) fn operands(workload: &Workload, program: &Program, pc: usize, op: &Op) -> Checked {
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

/// Loops with at most this many rounds are accepted even if no time passes in them, because a short
/// burst of steps is probably intended.
const IDLE_ROUNDS: u64 = 10_000;

/// Checks that each loop with more than [`IDLE_ROUNDS`] rounds waits or computes. Steps that take
/// only the time of a system call do not count.
pub(super) fn endless(workload: &Workload, program: &Program) -> Result<(), (usize, Finding)> {
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
