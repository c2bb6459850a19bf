// SPDX-License-Identifier: GPL-2.0-only
//! The generator `schbench`: message threads that wake workers, like schbench. It measures how soon
//! a woken worker runs.
//!
//! A worker reports to its message thread that it is ready, and waits. The message thread takes all
//! reports that have arrived, notes the time, and wakes one worker for each of them, one after the
//! other (xlist_wake_all in schbench.c). The worker then handles a request, which means that it
//! computes, and sleeps for a short time.
//!
//! In schbench's source of today, a worker sleeps before it computes, and the request latency contains
//! the sleep (`pause=before`). The message thread then wakes a worker only for the short time until
//! its sleep, and the timer wakes it for the computation.
//!
//! schbench prints two latencies. The wakeup latency of a worker counts from the time that the
//! message thread noted, so with many workers it consists mainly of the wake-ups of others. The
//! request latency is the time for the computation. The parameter `response` chooses which of them
//! are the response times of the workload.
//!
//! As in schbench, the main thread creates the message threads, and each of them creates its
//! workers. There is no barrier at the start: each worker begins as soon as it has been created.
//!
//! By default, a worker of schbench holds a lock of its CPU while it computes, and spins if a
//! preempted worker has it. This lock is not modelled, so the workload is that of `schbench -L`
//! (--no-locking). With `-M auto`, which `auto_pin` stands for, message thread i runs only on CPU i,
//! and the workers run only on the CPUs without a message thread. A new worker inherits the CPU of
//! its message thread. It sets its own affinity when it first runs there (pin_worker_cpus in
//! schbench's utils.c).

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, semaphore, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "schbench",
    about: "message threads that wake worker threads for requests",
    example: "message_threads=2,workers=3,work=1ms,sleep=10us",
    parameters: parameters! {
        "message_threads": Count, "2", ("1", "1000"), "number of message threads";
        "workers": Count, "16", ("1", "1000"), "number of workers for each message thread";
        "work": Time, "1ms", ("1ns", "3600s"), "computing time of a request";
        "sleep": Time, "100us", ("0", "3600s"), "sleep of a worker after a request";
        "pause": Choice(&["after", "before"]), "after",
            "whether a worker sleeps after it has computed, or before as in schbench since 2023";
        "footprint": Bytes, "256k", ("0", "1g"),
            "working set of a worker: the matrices of schbench (option -F)";
        "auto_pin": Count, "", ("3", "65536"),
            "number of CPUs of the machine, to bind the threads as -M auto does: each message thread to a CPU of its own, and the workers to the rest; without it, threads run anywhere";
        "response": Choice(&["request", "wakeup"]), "request",
            "which of schbench's latencies are the response times";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
    },
    build,
};

/// Builds the workload. All threads belong to one process.
fn build(a: &Arguments) -> Result<Workload, Error> {
    let mut workload = empty("requests", Some(a.get("duration")));
    let (groups, workers): (u32, u32) = (a.small("message_threads"), a.small("workers"));
    let cpus = a.is_given("auto_pin").then(|| a.small::<u32>("auto_pin"));
    if cpus.is_some_and(|cpus| cpus <= groups) {
        let error = a.error("'auto_pin' leaves no CPU for the workers");
        return Err(error.hint("there must be more CPUs than message threads"));
    }
    let thread = |task| Op::Fork { task, thread: true };
    // A message thread and its workers follow each other in the list of tasks.
    let message_thread = |group| 1 + group * (1 + workers);
    let mut main = Builder::default();
    for group in 0..groups {
        main.op(thread(message_thread(group)));
    }
    main.op(Op::WaitChildren);
    workload.programs.push(main.finish());
    workload.tasks.push(task("schbench", 0, 0));
    for group in 0..groups {
        let (ready, request) = (group * 2, group * 2 + 1);
        for name in ["ready", "request"] {
            workload.resources.push(semaphore(format!("{group}.{name}")));
        }
        let mut message = Builder::default();
        let mut worker = Builder::default();
        if let Some(cpus) = cpus {
            message.op(Op::SetAffinity(Some(vec![group])));
            worker.op(Op::SetAffinity(Some((groups..cpus).collect())));
        }
        for worker in 1..=workers {
            message.op(thread(message_thread(group) + worker));
        }
        message.repeat(None, |b| {
            b.op(Op::Relay {
                from: ready,
                to: request,
            });
        });
        worker.repeat(None, |b| {
            b.op(Op::SemPost(ready)).op(Op::SemWait(request));
            let work = Op::Run(Dist::Fixed(a.get("work")));
            let sleep = (a.get("sleep") > 0).then(|| Op::Sleep(Dist::Fixed(a.get("sleep"))));
            let (before, after) = match a.choice("pause") {
                "before" => (sleep, None),
                _ => (None, sleep),
            };
            match a.choice("response") {
                "wakeup" => b.op(Op::BeginPosted).op(Op::Done { count: 1 }).ops(before).op(work),
                _ => b
                    .op(Op::Begin { arrival: false })
                    .ops(before)
                    .op(work)
                    .op(Op::Done { count: 1 }),
            };
            b.ops(after);
        });
        let program = input::index(workload.programs.len());
        workload.programs.extend([message.finish(), worker.finish()]);
        workload.tasks.push(task("message", program, 0));
        workload.tasks.extend((0..workers).map(|_| {
            let mut worker = task("worker", program + 1, 0);
            worker.footprint_bytes = a.get("footprint");
            worker.cpus = cpus.map(|_| vec![group]);
            worker
        }));
    }
    for child in &mut workload.tasks[1..] {
        child.spawn = false;
    }
    Ok(workload)
}
