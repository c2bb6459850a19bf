// SPDX-License-Identifier: GPL-2.0-only
//! The generator `closed`: a closed system, in which a fixed number of tasks compute and think
//! (sleep) in turn.
//!
//! With `start_cpu`, all tasks are created on one CPU. With `placement=7/0`, seven tasks are
//! created on CPU 0 and none on CPU 1. In both cases, the policy must distribute the tasks. `bound`
//! models how a real system creates a task on a given CPU: the task is first bound to that CPU and,
//! when it runs, sets its affinity to all CPUs.

use super::arguments::{Arguments, parameters};
use super::{Generator, begin, distribution, empty, task};
use crate::builder::Builder;
use crate::check::MAX_TASKS;
use crate::program::{Dist, Op, SchedPolicy, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "closed",
    about: "n tasks that compute and sleep in turn",
    example: "placement=4/3/0,compute=10ms/20ms,compute_dist=trace,think=5ms,think_dist=H2,cv2=4",
    parameters: parameters! {
        "n": Count, "8", ("1", "100000"), "number of tasks";
        "compute": Times, "10ms", ("1ns", "3600s"),
            "computing time of a round: the mean, or a list of values for trace";
        "compute_dist": distribution::KINDS, "D", "distribution of the computing time";
        "think": Times, "0", ("0", "3600s"),
            "sleep after a round: the mean, or a list of values for trace; 0 means none";
        "think_dist": distribution::KINDS, "D", "distribution of the sleep";
        "cv2": Count, "4", ("1", "100"), "squared coefficient of variation of H2";
        "rounds": Count, "", ("1", "1000000000"),
            "number of rounds after which a task exits; without it, tasks never exit";
        "nice": Counts, "", ("0", "19"),
            "nice values that are assigned to the tasks in turn, such as 0/5; tasks are then named closed0, closed1, ...";
        "start_cpu": Count, "", ("0", "65535"),
            "CPU on which all tasks are created; without it, they are distributed over all CPUs";
        "placement": Counts, "", ("0", "100000"),
            "number of tasks created on CPU 0, CPU 1, ..., such as 7/0; further tasks are distributed; n defaults to the sum";
        "bound": Choice(&["no", "yes"]), "no",
            "yes: tasks with a start CPU are bound to it until they first run";
        "footprint": Bytes, "0", ("0", "1g"), "working set of a task";
        "touch": Count, "", ("0", "1000000"),
            "MB of its working set that a task touches per s of work; without it, the machine's rate";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
        ..begin::PARAMETER
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let cv2 = a.get("cv2");
    let compute = distribution::dist(a, a.choice("compute_dist"), "compute", cv2)?;
    let think = distribution::dist(a, a.choice("think_dist"), "think", cv2)?;
    let bound = a.choice("bound") == "yes";
    let mut program = Builder::default();
    if bound {
        program.op(Op::SetAffinity(None));
    }
    program.repeat(a.optional("rounds"), |b| {
        b.op(Op::Begin { arrival: false })
            .op(Op::Run(compute))
            .op(Op::Done { count: 1 });
        if think != Dist::Fixed(0) {
            b.op(Op::Sleep(think));
        }
    });
    let mut workload = empty("rounds", Some(a.get("duration")));
    workload.programs.push(program.finish());
    let nice = if a.is_given("nice") { a.list("nice") } else { Vec::new() };
    let mut nice = nice
        .into_iter()
        .map(|nice| i32::try_from(nice).unwrap_or(i32::MAX))
        .cycle();
    for (process, start_cpu) in (0..).zip(start_cpus(a)?) {
        let mut task = task("closed", 0, process);
        if let Some(nice) = nice.next() {
            task.comm = format!("closed{process}");
            task.policy = SchedPolicy::Normal { nice };
        }
        task.start_cpu = start_cpu;
        task.cpus = start_cpu.filter(|_| bound).map(|cpu| vec![cpu]);
        task.footprint_bytes = a.get("footprint");
        task.touch_mbps = a.is_given("touch").then(|| a.small("touch"));
        workload.tasks.push(task);
    }
    begin::apply(a, &mut workload);
    Ok(workload)
}

/// Returns the CPU on which each task is created.
fn start_cpus(a: &Arguments) -> Result<Vec<Option<u32>>, Error> {
    if !a.is_given("placement") {
        let cpu = a.is_given("start_cpu").then(|| a.small("start_cpu"));
        return Ok(vec![cpu; a.small("n")]);
    }
    if a.is_given("start_cpu") {
        let error = a.error("'placement' and 'start_cpu' are both given");
        return Err(error.hint("use only one of them"));
    }
    let placement = a.list("placement");
    let placed: u64 = placement.iter().sum();
    let n = if a.is_given("n") || placed == 0 {
        a.get("n")
    } else {
        placed
    };
    if placed > n {
        let message = format!("'placement' places {placed} tasks, but there are {n}");
        return Err(a.error(message).hint(format!("leave n out, or give n={placed}")));
    }
    // Each number is limited, but the sum of many numbers can still be too large.
    let n = usize::try_from(n).ok().filter(|&n| n <= MAX_TASKS).ok_or_else(|| {
        let message = format!("'placement' places {placed} tasks, more than {MAX_TASKS}");
        a.error(message).hint("use fewer or smaller numbers")
    })?;
    let mut cpus = Vec::new();
    for (cpu, &tasks) in (0..).zip(&placement) {
        cpus.extend((0..tasks).map(|_| Some(cpu)));
    }
    cpus.resize(n, None);
    Ok(cpus)
}
