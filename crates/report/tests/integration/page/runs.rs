// SPDX-License-Identifier: GPL-2.0-only
//! Synthetic runs with data for every part of a page.

use report::html::{Predicted, Run, Scan};
use report::{ExitRecord, RunResult, Summary};
use trace::{CpuPosition, Event, Header, MigrateReason, Record, Sink, TaskState, Tee};

/// Parameters of a synthetic run. Tasks run in turn for `turn_ns` each, and are woken `late_ns`
/// before their turns.
pub struct Shape {
    pub policy: &'static str,
    pub nr_cpus: u32,
    pub tasks: u32,
    pub switches: u32,
    pub turn_ns: u64,
    pub late_ns: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            policy: "steal",
            nr_cpus: 12,
            tasks: 40,
            switches: 6_000,
            turn_ns: 20_000,
            late_ns: 3_000,
        }
    }
}

pub fn header(shape: &Shape) -> Header {
    let position = |cpu: u32| CpuPosition {
        core: cpu,
        llc: cpu / 3,
        node: cpu / 6,
    };
    Header {
        machine: "made-up".to_owned(),
        cpus: (0..shape.nr_cpus).map(position).collect(),
        workload: "closed:n=40,compute=250ms".to_owned(),
        policy: shape.policy.to_owned(),
        seed: 1,
        hz: 1000,
        ops: vec!["select_cpu".to_owned(), "enqueue".to_owned()],
        locks: Vec::new(),
    }
}

/// Passes the records of the run in batches to a sink, their consumer. Returns the time at which
/// the run ends.
pub fn play(shape: &Shape, sink: &mut dyn Sink) -> u64 {
    let mut on = vec![0; shape.nr_cpus as usize];
    let names = ["server", "client", "kworker/"];
    let created = |pid: u32| Event::TaskNew {
        pid,
        tgid: pid,
        parent: 1,
        prio: if pid.is_multiple_of(4) { 125 } else { 120 },
        comm: format!("{}{pid}", names[pid as usize % 3]),
    };
    let record = |time, cpu, event| Record {
        time,
        cpu,
        after: 0,
        event,
    };
    let tasks: Vec<Record> = (1..=shape.tasks).map(|pid| record(0, 0, created(pid))).collect();
    sink.take(&tasks);
    let mut time = 0;
    for turn in 0..shape.switches {
        let cpu = turn % shape.nr_cpus;
        time = u64::from(turn) * shape.turn_ns / u64::from(shape.nr_cpus) + shape.late_ns;
        // Tasks 1 and 2 alternate on CPU 0 and run nowhere else.
        let next = match cpu {
            0 => 1 + turn / shape.nr_cpus % 2,
            _ if turn.is_multiple_of(7) => 0,
            _ => 3 + turn * 17 % (shape.tasks - 2),
        };
        let mut batch = Vec::new();
        if next > 2 && !on.contains(&next) {
            batch.push(record(time - shape.late_ns, cpu, Event::Waking { pid: next, waker: 0 }));
            let (pid, target, new) = (next, cpu, false);
            batch.push(record(time - shape.late_ns, cpu, Event::Wakeup { pid, target, new }));
        } else if on.contains(&next) && next != 0 {
            continue;
        }
        if turn.is_multiple_of(5) && next > 2 {
            let (pid, from, reason) = (next, (cpu + 5) % shape.nr_cpus, MigrateReason::Balance);
            batch.push(record(
                time,
                cpu,
                Event::Migrate {
                    pid,
                    from,
                    to: cpu,
                    reason,
                },
            ));
            batch.push(record(time, cpu, Event::Balance { moved: 1 + turn % 3 }));
        }
        let (op, insns) = ((turn % 2) as u16, 40 + turn % 300);
        batch.push(record(
            time,
            cpu,
            Event::Callback {
                op,
                insns,
                after: 0,
                ns: 0,
            },
        ));
        let (pid, count, response_ns) = (next, 1, 250_000_000 + u64::from(turn % 4) * 1_000_000);
        batch.push(record(
            time,
            cpu,
            Event::Done {
                pid,
                count,
                response_ns,
            },
        ));
        let prev = std::mem::replace(&mut on[cpu as usize], next);
        let prev_state = if cpu == 0 {
            TaskState::Running
        } else {
            TaskState::Interruptible
        };
        batch.push(record(time, cpu, Event::Switch { prev, prev_state, next }));
        sink.take(&batch);
    }
    time + shape.turn_ns
}

pub fn run(shape: &Shape, segments: usize) -> Run {
    let header = header(shape);
    let (mut scan, mut summary) = (Scan::new(&header, segments), Summary::new(&header.cpus));
    let end = play(shape, &mut Tee::new().with(&mut scan).with(&mut summary));
    scan.finish(end);
    let result = summary.result(report::Run {
        policy: header.policy.clone(),
        machine: header.machine.clone(),
        workload: header.workload.clone(),
        seed: 1,
        simulated_ns: end,
        unit: "rounds".to_owned(),
        ops: header.ops,
        ..report::Run::default()
    });
    let label = "4 tasks share a CPU".to_owned();
    let predicted = vec![Predicted { ns: 250_000_000, label }];
    Run {
        result,
        scan,
        predicted,
        lacks: Vec::new(),
        explained: Vec::new(),
        why: "windtunnel why steal -m made-up".to_owned(),
    }
}

/// Changes a run into one whose policy failed.
pub fn failed(mut run: Run) -> Run {
    run.result = RunResult {
        status: report::Status::Ejected,
        exit: Some(ExitRecord {
            kind: "SCX_EXIT_ERROR_STALL".to_owned(),
            reason: "runnable task stall".to_owned(),
            message: "client2[2] failed to run for 30.001s".to_owned(),
            source: Some("steal.bpf.c:120".to_owned()),
            ..ExitRecord::default()
        }),
        ..run.result
    };
    run
}
