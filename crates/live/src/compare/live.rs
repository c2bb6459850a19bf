// SPDX-License-Identifier: GPL-2.0-only
//! The live side of `live compare`: executes and records a workload on this machine. The events of
//! the workload's tasks are counted like those of a simulated run.

use crate::record::{self, Recorded, Recorder};
use crate::run::{self, Executed};
use report::{Run, RunResult, Summary};
use std::collections::BTreeSet;
use trace::{Event, Record, Sink, TaskState};
use windtunnel::error::Error;
use workload::Workload;

/// Executes the workload twice and returns the result with warnings for the user.
///
/// The first execution is not recorded, because recording makes every context switch slower. It
/// measures the score, the throughput, the response times and the duration. The second execution is
/// recorded and gives all other figures. Without tracefs there is no recording, and the switch
/// counts come from /proc.
///
/// # Errors
/// The workload cannot be executed, or too much of the recording was lost.
pub fn run(workload: &Workload, limit: u64, seed: u64, recorded: bool) -> Result<(RunResult, Vec<String>), Error> {
    let (mut result, mut notes) = run::execute(workload.clone(), Some(limit), seed)?;
    if !recorded {
        return Ok((result, notes));
    }
    match record_run(workload, limit, seed, &mut notes) {
        Ok(counted) => {
            result = RunResult {
                simulated_ns: result.simulated_ns,
                wall_ns: result.wall_ns,
                score: result.score,
                throughput: result.throughput,
                response_ns: result.response_ns,
                busy_percent: result.busy_percent,
                ..counted
            };
        }
        Err(error) => notes.push(format!(
            "the switch counts come from /proc and miss switches from idle, because recording failed: {error}"
        )),
    }
    Ok((result, notes))
}

/// Executes the workload while recording, and counts the events of its tasks.
fn record_run(workload: &Workload, limit: u64, seed: u64, notes: &mut Vec<String>) -> Result<RunResult, Error> {
    let mut recorder = Recorder::start(4 * record::BUFFER_KIB)?;
    let mut drained = Ok(());
    let executed = run::execute_while(workload.clone(), Some(limit), seed, &mut || {
        if drained.is_ok() {
            drained = recorder.drain();
        }
    })?;
    drained?;
    let recorded = recorder.stop()?;
    let Executed { result, log, begun, .. } = executed;
    if recorded.lost > 0 {
        notes.push(format!("{} events were lost: counts are too low", recorded.lost));
    }
    let (places, _) = record::places()?;
    let mut summary = Summary::new(&places);
    summary.take(&own(recorded, log, begun, result.simulated_ns));
    Ok(summary.result(Run {
        policy: result.policy,
        machine: result.machine,
        workload: result.workload,
        seed,
        simulated_ns: result.simulated_ns,
        wall_ns: result.wall_ns,
        unit: workload.unit.clone(),
        score: workload.score,
        completed: result.score.is_some(),
        ..Run::default()
    }))
}

/// Selects the events of the workload's tasks between the start and the end of the workload. When a
/// CPU runs another program's task, it counts as idle.
fn own(recorded: Recorded, log: Vec<Record>, begun: u64, length: u64) -> Vec<Record> {
    let start = recorded.recording.start;
    let pids: BTreeSet<u32> = log
        .iter()
        .filter_map(|record| match record.event {
            Event::TaskNew { pid, .. } => Some(pid),
            _ => None,
        })
        .collect();
    let log = log.into_iter().map(|record| Record {
        time: record.time + begun,
        ..record
    });
    let records = record::merged(recorded.recording.records, start, log.collect());
    let from = begun.saturating_sub(start);
    let mine = |pid: u32| pids.contains(&pid);
    let records = records.into_iter().filter(|record| record.time >= from);
    records
        .filter_map(|mut record| {
            record.time -= from;
            record.event = match record.event {
                Event::Switch { prev, prev_state, next } if mine(prev) || mine(next) => Event::Switch {
                    prev: if mine(prev) { prev } else { 0 },
                    prev_state: if mine(prev) { prev_state } else { TaskState::Running },
                    next: if mine(next) { next } else { 0 },
                },
                Event::Switch { .. } => return None,
                Event::TaskNew { pid, .. }
                | Event::TaskRename { pid, .. }
                | Event::TaskExit { pid }
                | Event::Waking { pid, .. }
                | Event::Wakeup { pid, .. }
                | Event::Migrate { pid, .. }
                    if !mine(pid) =>
                {
                    return None;
                }
                event => event,
            };
            Some(record)
        })
        .take_while(|record| record.time <= length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::recording::Recording;

    #[test]
    fn other_tasks_become_idle_time_and_events_outside_the_run_are_dropped() {
        let record = |time, event| Record {
            time,
            cpu: 0,
            after: 0,
            event,
        };
        let switch = |prev, next| Event::Switch {
            prev,
            prev_state: TaskState::Interruptible,
            next,
        };
        let recording = Recording {
            records: vec![
                record(0, switch(0, 7)),
                record(150, switch(9, 7)),
                record(200, switch(7, 8)),
                record(250, switch(8, 9)),
                record(260, Event::Waking { pid: 9, waker: 8 }),
                record(700, switch(9, 7)),
            ],
            start: 1000,
            ..Recording::default()
        };
        let new = |pid| Event::TaskNew {
            pid,
            tgid: pid,
            parent: 0,
            prio: 120,
            comm: "own".into(),
        };
        let done = Event::Done {
            pid: 7,
            count: 1,
            response_ns: 3,
        };
        let log = vec![record(0, new(7)), record(120, done.clone())];
        let own = own(Recorded { recording, lost: 0 }, log, 1100, 500);
        let comm = "own".into();
        let want = [
            record(0, Event::TaskRename { pid: 7, comm }),
            record(
                50,
                Event::Switch {
                    prev: 0,
                    prev_state: TaskState::Running,
                    next: 7,
                },
            ),
            record(100, switch(7, 0)),
            record(120, done),
        ];
        assert_eq!(own, want);
    }
}
