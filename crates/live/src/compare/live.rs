// SPDX-License-Identifier: GPL-2.0-only
//! The live side of `live compare`: executes a workload on this machine and records the kernel's
//! scheduler events. The events of the workload's tasks are counted in the same way as those of a
//! simulated run.

use crate::record::{self, Recorded, Recorder};
use crate::run::{self, Executed, Meanwhile};
use input::error::Error;
use report::why::{Scan, Side};
use report::{Run, RunResult, Summary};
use std::collections::{BTreeMap, BTreeSet};
use trace::{CpuPosition, Event, Header, Record, Sink, TaskState};
use workload::Workload;

/// Workload with which the time to record one event is measured. Its processes pass a message back
/// and forth, so they spend nearly all their time on context switches and wake-ups.
const EVENT_WORKLOAD: &str = "lat_ctx:processes=2,rounds=4000";

/// Results of executing the workload on this machine.
pub struct Live {
    pub result: RunResult,
    pub recorded: Option<RecordedRun>,
    /// Output of the program, if the live side is a program.
    pub printed: Option<String>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// The recording of the second execution of the workload; see [`run`].
pub struct RecordedRun {
    pub header: Header,
    /// All records, from the start of the recording on.
    pub records: Vec<Record>,
    /// Length of the workload in ns.
    pub length_ns: u64,
    /// Time in ns by which recording one event lengthens a run; 0 if it was not measured.
    pub event_ns: u64,
}

impl RecordedRun {
    /// Counts the events of the tasks whose names are in `names`.
    pub fn scan(&self, names: BTreeSet<String>) -> Side {
        Scan::new(self.header.clone(), Some(names))
            .longest(self.length_ns)
            .without_recording(self.event_ns)
            .of(&self.records)
    }
}

/// Executes the workload twice.
///
/// The first execution is not recorded, because recording makes every context switch slower. It
/// measures the score, the throughput, the response times and the duration. The second execution is
/// recorded and measures all other figures. Without tracefs there is no second execution, and the
/// numbers of switches come from /proc. If `measure_events` is set, the time of recording an event
/// is measured and subtracted from the wake-up latencies.
///
/// # Errors
/// The workload cannot be executed, or too much of the recording was lost.
pub fn run(workload: &Workload, limit: u64, seed: u64, recorded: bool, measure_events: bool) -> Result<Live, Error> {
    let (mut result, mut notes) = run::execute(workload.clone(), Some(limit), seed)?;
    let mut of = None;
    if recorded {
        match record_run(workload, limit, seed, &mut notes) {
            Ok((counted, mut run)) => {
                result = RunResult {
                    simulated_ns: result.simulated_ns,
                    wall_ns: result.wall_ns,
                    score: result.score,
                    throughput: result.throughput,
                    response_ns: result.response_ns,
                    busy_percent: result.busy_percent,
                    ..counted
                };
                if measure_events {
                    run.event_ns = event_ns(seed)?;
                    run.scan(names(workload)).correct_latencies(&mut result);
                }
                of = Some(run);
            }
            Err(error) => notes.push(format!(
                "the switch counts come from /proc and miss switches from idle, because recording failed: {error}"
            )),
        }
    }
    Ok(Live {
        result,
        recorded: of,
        printed: None,
        notes,
    })
}

/// Measures the time in ns by which recording one event lengthens a run.
///
/// # Errors
/// The workload cannot be executed or recorded.
pub(super) fn event_ns(seed: u64) -> Result<u64, Error> {
    let workload = workload::load(EVENT_WORKLOAD, &[])?;
    let limit = 10_000_000_000;
    let (unrecorded, _) = run::execute(workload.clone(), Some(limit), seed)?;
    let (_, run) = record_run(&workload, limit, seed, &mut Vec::new())?;
    let events = run.scan(names(&workload)).overview.events;
    let longer = run.length_ns.saturating_sub(unrecorded.simulated_ns);
    Ok(longer.checked_div(events).unwrap_or(0))
}

/// Returns the names (comm) of a workload's tasks.
pub(super) fn names(workload: &Workload) -> BTreeSet<String> {
    workload.tasks.iter().map(|task| task.comm.clone()).collect()
}

/// Executes the workload while recording, and counts the events of its tasks.
fn record_run(
    workload: &Workload,
    limit: u64,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<(RunResult, RecordedRun), Error> {
    let mut recorder = Recorder::start(4 * windtunnel::live::BUFFER_KIB)?;
    let mut drained = Ok(());
    let files = recorder.files();
    let work = &mut || {
        if drained.is_ok() {
            drained = recorder.drain();
        }
    };
    let executed = run::execute_while(workload.clone(), Some(limit), seed, Meanwhile { files, work })?;
    drained?;
    let Recorded { recording, lost } = recorder.stop()?;
    let Executed { result, log, begun, .. } = executed;
    if lost > 0 {
        notes.push(format!("{lost} events were lost: counts are too low"));
    }
    let (places, hz) = record::places()?;
    let start = recording.start;
    let pids = log
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
    let records = record::merged(recording.records, start, log.collect());
    let counted = Counted {
        pids: &pids,
        from: begun.saturating_sub(start),
        length: result.simulated_ns.min(limit),
        hz,
        run: Run {
            policy: result.policy,
            machine: result.machine,
            workload: result.workload,
            seed,
            wall_ns: result.wall_ns,
            unit: workload.unit.clone(),
            score: workload.score,
            completed: result.score.is_some(),
            ..Run::default()
        },
    };
    Ok(count(records, places, counted))
}

/// The tasks and the time that [`count`] counts.
pub(super) struct Counted<'a> {
    pub pids: &'a BTreeSet<u32>,
    /// Start in ns after the start of the recording.
    pub from: u64,
    /// Length in ns.
    pub length: u64,
    pub hz: u32,
    /// Properties of the run, except its length.
    pub run: Run,
}

/// Counts the events of some tasks of a recording.
pub(super) fn count(records: Vec<Record>, places: Vec<CpuPosition>, counted: Counted) -> (RunResult, RecordedRun) {
    let Counted {
        pids,
        from,
        length,
        hz,
        run,
    } = counted;
    let mut summary = Summary::new(&places);
    summary.take(&own(&records, pids, from, length));
    let detours = Detours::count(&records, pids, from, length);
    let recorded = RecordedRun {
        header: Header {
            machine: run.machine.clone(),
            cpus: places,
            workload: run.workload.clone(),
            policy: run.policy.clone(),
            seed: run.seed,
            hz,
            ..Header::default()
        },
        records,
        length_ns: length,
        event_ns: 0,
    };
    let mut result = summary.result(Run {
        simulated_ns: length,
        ..run
    });
    result.context_switches = result.context_switches.saturating_sub(detours.switches);
    result.preemptions = result.preemptions.saturating_sub(detours.preemptions);
    (result, recorded)
}

/// Events that tasks of other programs add to the events of the workload's tasks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Detours {
    switches: u64,
    preemptions: u64,
}

impl Detours {
    /// Counts the detours of the CPUs: the times when a CPU runs another program between two tasks of
    /// the workload. In the events of [`own`], a detour consists of a switch to idle and a switch from
    /// idle. Without the other program there would be one switch. If a preempted task continues after
    /// the detour, there would be no switch.
    fn count(records: &[Record], pids: &BTreeSet<u32>, from: u64, length: u64) -> Detours {
        let mine = |pid: u32| pids.contains(&pid);
        let mut detours = Detours::default();
        // The task that ran before the detour of each CPU, and its state after it.
        let mut left: BTreeMap<u32, (u32, TaskState)> = BTreeMap::new();
        let records = records.iter().filter(|record| record.time >= from);
        for record in records.take_while(|record| record.time - from <= length) {
            let Event::Switch { prev, prev_state, next } = record.event else {
                continue;
            };
            if mine(prev) && next != 0 && !mine(next) {
                left.insert(record.cpu, (prev, prev_state));
            } else if next == 0 || mine(prev) {
                left.remove(&record.cpu);
            } else if mine(next)
                && let Some((task, state)) = left.remove(&record.cpu)
            {
                match (task == next, state) {
                    (true, TaskState::Running) => {
                        detours.switches += 2;
                        detours.preemptions += 1;
                    }
                    // The task slept, so the CPU would have been idle.
                    (true, _) => {}
                    (false, _) => detours.switches += 1,
                }
            }
        }
        detours
    }
}

/// Selects the events of the workload's tasks between the start and the end of the workload. A CPU
/// counts as idle while it runs a task of another program.
fn own(records: &[Record], pids: &BTreeSet<u32>, from: u64, length: u64) -> Vec<Record> {
    let mine = |pid: u32| pids.contains(&pid);
    let records = records.iter().filter(|record| record.time >= from).cloned();
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
        let log = vec![record(1100, new(7)), record(1220, done.clone())];
        let records = record::merged(recording.records, 1000, log);
        let own = own(&records, &BTreeSet::from([7]), 100, 500);
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

    #[test]
    fn switches_to_other_programs_and_back_are_counted() {
        let switch = |time, cpu, prev, prev_state, next| Record {
            time,
            cpu,
            after: 0,
            event: Event::Switch { prev, prev_state, next },
        };
        let (runnable, asleep) = (TaskState::Running, TaskState::Interruptible);
        let records = [
            // Two other programs run before task 7 continues: 2 switches and 1 preemption.
            switch(110, 0, 7, runnable, 20),
            switch(120, 0, 20, asleep, 21),
            switch(130, 0, 21, asleep, 7),
            // Another program runs before task 8: 1 switch.
            switch(140, 0, 7, asleep, 20),
            switch(150, 0, 20, asleep, 8),
            // The task sleeps and continues, or the CPU becomes idle: no detour.
            switch(160, 0, 8, asleep, 20),
            switch(170, 0, 20, asleep, 8),
            switch(180, 0, 8, runnable, 20),
            switch(190, 0, 20, asleep, 0),
            switch(200, 0, 0, runnable, 8),
            // A detour of another CPU, and one that ends after the workload.
            switch(210, 0, 8, runnable, 20),
            switch(220, 1, 7, runnable, 21),
            switch(230, 1, 21, asleep, 7),
            switch(700, 0, 20, asleep, 8),
        ];
        let detours = Detours {
            switches: 5,
            preemptions: 2,
        };
        assert_eq!(Detours::count(&records, &BTreeSet::from([7, 8]), 100, 500), detours);
    }
}
