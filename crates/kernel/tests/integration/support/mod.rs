// SPDX-License-Identifier: GPL-2.0-only
//! Small machines and workloads for tests, and drawings of their schedules.

use kernel::{Ended, Machine, Options};
use machine::MachineSpec;
use trace::{Draw, DrawOptions, Event, Record, TaskState};
use workload::{Dist, Op};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// Returns a machine on which kernel work takes no time, so that the times in schedules are exact.
pub fn free(cpus: u32) -> MachineSpec {
    costly(cpus).free()
}

/// Returns a machine with default costs and 1000 ticks per second. It has one LLC with `cpus` cores
/// of one thread each.
pub fn costly(cpus: u32) -> MachineSpec {
    MachineSpec::smp(cpus)
}

pub use workload::Tasks;

/// Returns the options of a run whose policy is checked by the sanitizer if `on` is set.
pub fn sanitizer(on: bool) -> Options {
    Options {
        sanitizer: on,
        ..Options::default()
    }
}

/// Returns a step of a task's program that works for `ms` on a CPU of capacity 1024.
pub fn run_ms(ms: u64) -> Op {
    Op::Run(Dist::Fixed(ms * MS))
}

/// Returns a step of a task's program that sleeps for `ms`.
pub fn sleep_ms(ms: u64) -> Op {
    Op::Sleep(Dist::Fixed(ms * MS))
}

/// Returns a program that repeats `ops` without end.
pub fn forever(mut ops: Vec<Op>) -> Vec<Op> {
    ops.push(Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    });
    ops
}

/// Returns a program that alternates between running for `run` ns and sleeping for `sleep` ns.
pub fn sleeper(run: u64, sleep: u64) -> Vec<Op> {
    forever(vec![Op::Run(Dist::Fixed(run)), Op::Sleep(Dist::Fixed(sleep))])
}

/// Runs the tasks until the time `until` in ns. Returns a drawing of the schedule in which each
/// column stands for `step` ns, all trace records, and the reason why the run ended.
pub fn draw(spec: MachineSpec, tasks: Tasks, until: u64, step: u64) -> (String, Vec<Record>, Ended) {
    let cpus = spec.topology.nr_cpus() as usize;
    let mut machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut records = Vec::new();
    let ended = machine.run(until, &mut records);
    let options = DrawOptions {
        from: 0,
        to: until,
        step,
        width: 120,
        list: false,
    };
    let mut drawing = Draw::new(options, cpus).expect("the options are valid");
    trace::Sink::take(&mut drawing, &records);
    (drawing.finish(machine.now), records, ended)
}

/// Time in ns at which the runs of the function `run` end.
pub const END: u64 = 1_000 * MS;

/// Runs tasks on a machine on which kernel work takes no time.
pub fn run(cpus: u32, tasks: Tasks) -> (Vec<Record>, Ended) {
    let (_, records, ended) = draw(free(cpus), tasks, END, MS);
    (records, ended)
}

/// Returns the times at which a task started to run, in ms.
pub fn starts(records: &[Record], pid: u32) -> Vec<u64> {
    let start = |r: &&Record| matches!(r.event, Event::Switch { next, .. } if next == pid);
    records.iter().filter(start).map(|r| r.time / MS).collect()
}

/// Returns the times at which a task stopped running, in ms, and the task's state at these times.
pub fn stops(records: &[Record], pid: u32) -> Vec<(u64, TaskState)> {
    let stop = |r: &Record| match r.event {
        Event::Switch { prev, prev_state, .. } if prev == pid => Some((r.time / MS, prev_state)),
        _ => None,
    };
    records.iter().filter_map(stop).collect()
}

/// Returns the time at which a task stopped running for the last time, in ns.
pub fn stop_ns(records: &[Record], pid: u32) -> u64 {
    let stop = |r: &&Record| matches!(r.event, Event::Switch { prev, .. } if prev == pid);
    records.iter().rfind(stop).expect("the task has run").time
}

/// Returns the wake-up latencies of a task in ns. Each is the time from sched_waking to the switch
/// to the task. The two times are those of the clocks of the CPUs that recorded the events.
pub fn waits(records: &[Record], task: u32) -> Vec<u64> {
    let mut woken_at = None;
    let mut waits = Vec::new();
    for record in records {
        match record.event {
            Event::Waking { pid, .. } if pid == task => woken_at = Some(record.local_time()),
            Event::Switch { next, .. } if next == task => {
                waits.extend(woken_at.take().map(|at| record.local_time() - at));
            }
            _ => {}
        }
    }
    waits
}
