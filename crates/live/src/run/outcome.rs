// SPDX-License-Identifier: GPL-2.0-only
//! Converts the log of an executed workload into a result like those of the simulator.

use super::execute::World;
use super::launch::{Ended, Executed};
use super::shared::{Entry, EntryKind, Shared};
use crate::host_kernel as running;
use report::{Run, Summary, TaskCounters};
use std::collections::{BTreeMap, BTreeSet};
use trace::{CpuPosition, Event, Record, Sink};
use workload::{Op, SchedPolicy};

/// Share of the machine's CPU time, in percent. If other programs use more, the user gets a
/// warning.
const OTHERS_PERCENT: u64 = 5;

/// Returns the ids of the tasks that have not exited.
pub fn alive(shared: &Shared) -> BTreeSet<u32> {
    let mut alive = BTreeSet::new();
    for (kind, entry) in shared.entries(0) {
        match kind {
            EntryKind::New => alive.insert(entry.tid),
            EntryKind::Exit => alive.remove(&entry.tid),
            _ => false,
        };
    }
    alive
}

/// Computes the result from the log and from the measurements at the end. The caller adds the
/// samples of the CPUs' loads.
pub fn executed(world: &World, ended: &Ended) -> Executed {
    let places = vec![CpuPosition::default(); world.cpus.len()];
    let mut summary = Summary::new(&places);
    let mut counts = ended.alive.clone();
    let mut before: BTreeMap<u32, TaskCounters> = BTreeMap::new();
    let mut born: BTreeMap<u32, u64> = BTreeMap::new();
    // The threads of each process, and the CPU time of each process that has been reaped.
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut reaped = ended.reaped.clone();
    let mut last = 0;
    let in_time = |entry: &Entry| ended.completed || entry.time <= ended.at_ns;
    let entries = world.shared.entries(0).filter(|(kind, entry)| match kind {
        // Entries with counters of a task are used even if the task exited just after the time
        // limit.
        EntryKind::Exit | EntryKind::Waited | EntryKind::Before | EntryKind::BeforeWaited | EntryKind::Reaped => true,
        _ => in_time(entry),
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(kind, entry)| match kind {
        // Response times start when the task is created, so the record of a new task has the time
        // of its creation.
        EntryKind::New => entry.a,
        _ => entry.time,
    });
    let mut records: Vec<Record> = Vec::new();
    for (kind, entry) in entries {
        let pid = entry.tid;
        let spec = &world.workload.tasks[entry.task as usize];
        if kind != EntryKind::Reaped {
            last = last.max(entry.time);
        }
        let event = match kind {
            EntryKind::Done => Event::Done {
                pid,
                count: entry.a as u32,
                response_ns: entry.b,
            },
            EntryKind::Phase => Event::Phase {
                pid,
                phase: entry.a as u32,
            },
            EntryKind::Reaped => {
                reaped.insert(pid, entry.a);
                continue;
            }
            EntryKind::New => {
                born.insert(pid, entry.a);
                threads.entry(entry.b as u32).or_default().push(pid);
                Event::TaskNew {
                    pid,
                    tgid: pid,
                    parent: 0,
                    prio: prio(spec.policy),
                    comm: spec.comm.clone(),
                }
            }
            EntryKind::Exec => {
                let ops = &world.workload.programs[spec.program as usize].ops;
                let Some(Op::Exec { comm }) = ops.get(entry.a as usize) else {
                    continue;
                };
                let comm = comm.clone();
                Event::TaskRename { pid, comm }
            }
            EntryKind::Waited | EntryKind::BeforeWaited => {
                let counts = if kind == EntryKind::Waited {
                    &mut counts
                } else {
                    &mut before
                };
                let counts = counts.entry(pid).or_default();
                counts.wait_ns += entry.a;
                counts.waits += entry.b >> 32;
                counts.migrations += entry.b & u64::from(u32::MAX);
                continue;
            }
            EntryKind::Exit | EntryKind::Before => {
                let counts = if kind == EntryKind::Exit {
                    &mut counts
                } else {
                    &mut before
                };
                let counts = counts.entry(pid).or_default();
                counts.cpu_ns += entry.a;
                counts.involuntary += entry.b >> 32;
                counts.voluntary += entry.b & u64::from(u32::MAX);
                if kind == EntryKind::Before {
                    continue;
                }
                Event::TaskExit { pid }
            }
        };
        let time = match kind {
            EntryKind::New => entry.a,
            _ => entry.time,
        };
        records.push(Record {
            time,
            cpu: 0,
            after: 0,
            event,
        });
    }
    add_exits(&mut counts, &threads, &reaped);
    for (pid, before) in before {
        counts
            .entry(pid)
            .and_modify(|counted| *counted = since(counted, &before));
    }
    summary.take(&records);
    for (pid, counted) in &counts {
        summary.add_counters(*pid, born.get(pid).copied().unwrap_or(0), *counted);
    }
    for (pid, latency_ns) in world.shared.wakeups() {
        summary.add_wakeup(pid, latency_ns);
    }
    // If all tasks have exited, the time of the last log entry is used. The measured end is less
    // exact, because this process notices the last exit only at its next check.
    let at_ns = if ended.completed && last > 0 { last } else { ended.at_ns };
    let mut result = summary.result(Run {
        policy: running::scheduler(),
        machine: "live".into(),
        workload: world.workload.name.clone(),
        seed: world.seed,
        simulated_ns: at_ns,
        wall_ns: at_ns,
        unit: world.workload.unit.clone(),
        score: world.workload.score,
        completed: ended.completed,
        ..Run::default()
    });
    result.migrations = counts.values().map(|task| task.migrations).sum();
    let mut notes = world.shared.complaints();
    notes.extend(others(&counts, ended));
    Executed {
        result,
        log: records,
        begun: world.shared.begun(),
        cpu_ns: counts.iter().map(|(&pid, counted)| (pid, counted.cpu_ns)).collect(),
        looks: Vec::new(),
        notes,
    }
}

/// Adds the CPU time of exits to the counters. A task reads its own counters before it exits, but the
/// CPU time of its process also contains the exits of all threads. The difference is added to the
/// process's first thread. If this thread is not a task of the workload, it only starts the tasks,
/// and nothing is added.
fn add_exits(counts: &mut BTreeMap<u32, TaskCounters>, threads: &BTreeMap<u32, Vec<u32>>, reaped: &BTreeMap<u32, u64>) {
    for (process, cpu_ns) in reaped {
        let Some(threads) = threads.get(process).filter(|threads| threads.contains(process)) else {
            continue;
        };
        let counted: u64 = threads
            .iter()
            .filter_map(|thread| counts.get(thread))
            .map(|task| task.cpu_ns)
            .sum();
        if let Some(first) = counts.get_mut(process) {
            first.cpu_ns += cpu_ns.saturating_sub(counted);
        }
    }
}

/// Returns how much the counters have grown since `before`.
fn since(counted: &TaskCounters, before: &TaskCounters) -> TaskCounters {
    TaskCounters {
        cpu_ns: counted.cpu_ns.saturating_sub(before.cpu_ns),
        voluntary: counted.voluntary.saturating_sub(before.voluntary),
        involuntary: counted.involuntary.saturating_sub(before.involuntary),
        wait_ns: counted.wait_ns.saturating_sub(before.wait_ns),
        waits: counted.waits.saturating_sub(before.waits),
        migrations: counted.migrations.saturating_sub(before.migrations),
    }
}

/// Returns the kernel's number for a priority; nice 0 is 120.
fn prio(policy: SchedPolicy) -> i32 {
    match policy {
        SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => 120 + nice,
        SchedPolicy::Idle => 120,
        SchedPolicy::Deadline { .. } => 0,
        SchedPolicy::Fifo { rt_priority } | SchedPolicy::RoundRobin { rt_priority } => 99 - rt_priority as i32,
    }
}

/// Returns a warning if other programs also used the machine.
fn others(counts: &BTreeMap<u32, TaskCounters>, ended: &Ended) -> Option<String> {
    let (before, after) = ended.machine;
    let whole = after.total.saturating_sub(before.total);
    let busy = after.busy.saturating_sub(before.busy);
    let own_ns: u64 = counts.values().map(|task| task.cpu_ns).sum();
    // The kernel counts both CPU times in units of 10 ms.
    let others = busy.saturating_sub(own_ns / 10_000_000);
    let percent = (100 * others).checked_div(whole)?;
    (percent >= OTHERS_PERCENT && whole >= 20).then(|| {
        format!("other programs used {percent} % of the machine; the figures are worse than on an idle machine")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_exits_belongs_to_the_first_thread_of_the_process() {
        let task = |cpu_ns| TaskCounters {
            cpu_ns,
            ..TaskCounters::default()
        };
        let mut counts = BTreeMap::from([7, 8, 9, 11, 12].map(|tid| (tid, task(100))));
        // The first thread of process 10 is not a task of the workload.
        let threads = BTreeMap::from([(7, vec![7]), (8, vec![8, 9]), (10, vec![11, 12])]);
        add_exits(
            &mut counts,
            &threads,
            &BTreeMap::from([(7, 130), (8, 250), (10, 900), (13, 5)]),
        );
        let cpu_ns = |tid| counts[&tid].cpu_ns;
        assert_eq!([7, 8, 9, 11, 12].map(cpu_ns), [130, 150, 100, 100, 100]);
        assert_eq!(counts.len(), 5);
    }
}
