// SPDX-License-Identifier: GPL-2.0-only
//! Checks of synchronization: sections and mutexes that must be entered and left in pairs, and waits
//! that another task must end.

use super::{Checked, Finding, new_finding};
use crate::program::{Op, Program, Resource, ResourceId, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that each `migrate_enable` ends a section that a `migrate_disable` began, and that loops
/// contain whole sections.
pub(super) fn migration(program: &Program) -> Result<(), (usize, Finding)> {
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

/// Checks that mutexes are locked and unlocked in pairs. This is possible because programs have no
/// branches except loops, so it is known which mutexes a task holds at each step.
pub(super) fn locks(workload: &Workload, program: &Program) -> Result<(), (usize, Finding)> {
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
pub(super) fn wakers_exist(workload: &Workload) -> Checked {
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
