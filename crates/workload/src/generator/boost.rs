// SPDX-License-Identifier: GPL-2.0-only
//! The generator `boost`: an interactive and a computing task on one CPU that receive requests at
//! the same times. It measures whether a policy prefers a task that has waited, depending on the
//! resource for which it waited (Happe, Groenda, Reussner: Scheduling Policies in SMP Environments,
//! 2008).
//!
//! The interactive task waits for its requests at a timer (resource `none`), at a semaphore that
//! another task posts, or at a socket to which another task writes. It has the lower priority, so
//! it gets the CPU first only if the policy boosts it. The response time is measured for its
//! requests, from the wake-up.

use super::arguments::{Arguments, parameters};
use super::{Generator, channel, empty, semaphore, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Program, SchedPolicy, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "boost",
    about: "an interactive and a computing task that receive requests at the same times",
    example: "resource=network,interactive=1ms,compute=5ms,spare=4ms,requests=3,nice=2,cpu=1",
    parameters: parameters! {
        "resource": Choice(&["none", "semaphore", "network"]), "none",
            "resource for which the interactive task waits: a timer (none), a semaphore or a socket";
        "interactive": Time, "20ms", ("1us", "3600s"), "computing time of an interactive request";
        "compute": Time, "500ms", ("1us", "3600s"), "computing time of the other task's request";
        "spare": Time, "480ms", ("1ms", "3600s"), "idle time between requests";
        "apart": Time, "0", ("0", "3600s"),
            "the interactive request arrives at a random time up to half of this before or after the other";
        "requests": Count, "20", ("1", "1000000"), "number of requests of each task";
        "nice": Count, "1", ("0", "19"),
            "nice value of the interactive task; the computing task has 0";
        "cpu": Count, "0", ("0", "65535"), "the CPU of both tasks";
    },
    build,
};

const RESOURCE: u32 = 0;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let work = |name: &str| Op::Run(Dist::Fixed(a.get(name)));
    // Response times count from the wake-up, so both tasks must be waiting again when the next
    // requests arrive. The period is long enough for that.
    let period = a.get("interactive") + a.get("compute") + a.get("spare");
    let arrival = Op::Interval {
        timer: 0,
        length: Dist::Fixed(period),
    };
    let rounds = |ops: &[Op]| -> Program {
        let mut program = Builder::default();
        program.repeat(Some(a.get("requests")), |b| {
            b.ops(ops.iter().cloned());
        });
        program.finish()
    };
    let mut workload = empty("requests", None);
    workload.score = Score::MeanResponse;
    let (wait, provide) = match a.choice("resource") {
        "semaphore" => {
            workload.resources.push(semaphore("semaphore"));
            (Op::SemWait(RESOURCE), Some(Op::SemPost(RESOURCE)))
        }
        "network" => {
            const BYTES: u32 = 100;
            let socket = channel::tcp("network".into(), channel::TCP_BYTES, BYTES.into());
            workload.resources.push(socket);
            let send = Op::Send {
                channel: RESOURCE,
                bytes: BYTES,
            };
            (Op::Recv(RESOURCE), Some(send))
        }
        _ => (arrival.clone(), None),
    };
    let apart = a.get("apart");
    let chance = (apart > 0).then_some(Op::Sleep(Dist::Uniform { lo: 0, hi: apart }));
    let mut interactive = vec![wait];
    if provide.is_none() {
        interactive.extend(chance.clone());
    }
    interactive.extend([Op::BeginWoken, work("interactive"), Op::Done { count: 1 }]);
    workload.programs = vec![rounds(&interactive), rounds(&[arrival.clone(), work("compute")])];
    let mut interactive = task("interactive", 0, 0);
    interactive.policy = SchedPolicy::Normal { nice: a.small("nice") };
    let mut compute = task("compute", 1, 1);
    compute.start_ns = apart / 2;
    workload.tasks = vec![interactive, compute].into();
    let cpu = a.small("cpu");
    for task in &mut workload.tasks {
        task.cpus = Some(vec![cpu]);
    }
    if let Some(provide) = provide {
        let source = [Some(arrival), chance, Some(provide)];
        workload
            .programs
            .push(rounds(&source.into_iter().flatten().collect::<Vec<_>>()));
        let mut source = task("source", 2, 2);
        source.policy = SchedPolicy::Fifo { rt_priority: 99 };
        workload.tasks.push(source);
    }
    Ok(workload)
}
