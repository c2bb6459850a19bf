// SPDX-License-Identifier: GPL-2.0-only
//! The generator `open`: an open system. Jobs arrive independently of the load; each computes for
//! its service time and exits.
//!
//! Response times count from the arrival. The task `arrivals` forks a thread for each job, with the
//! highest real-time priority, so that the policy under test has as little influence on the
//! arrivals as possible. The time between two arrivals does not include the cost of the fork.

use super::arguments::{Arguments, parameters};
use super::{Generator, distribution, empty, task};
use crate::builder::Builder;
use crate::program::{Op, SchedPolicy, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "open",
    about: "jobs that arrive independently of the load, compute and exit",
    example: "arrival=M,interarrival=5ms,service=pareto,work=4ms,number=100,duration=1s",
    parameters: parameters! {
        "arrival": distribution::KINDS, "M", "distribution of interarrival times";
        "interarrival": Times, "10ms", ("1us", "3600s"),
            "time between arrivals: the mean, or a list of values for trace";
        "service": distribution::KINDS, "M", "distribution of service times";
        "work": Times, "8ms", ("1ns", "3600s"),
            "computing time of a job: the mean, or a list of values for trace";
        "cv2": Count, "4", ("1", "100"), "squared coefficient of variation of H2";
        "footprint": Bytes, "0", ("0", "1g"), "working set of a job";
        "number": Count, "", ("1", "1000000000"),
            "number of jobs; without it, as many as arrive in `duration`";
        "duration": Time, "10s", ("1us", "86400s"),
            "simulated time; if only `number` is given, the run ends when all jobs are done";
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let cv2 = a.get("cv2");
    let interarrival = distribution::dist(a, a.choice("arrival"), "interarrival", cv2)?;
    let service = distribution::dist(a, a.choice("service"), "work", cv2)?;
    let number = a.optional("number");
    let duration = (number.is_none() || a.is_given("duration")).then(|| a.get("duration"));
    let mut source = Builder::default();
    source.repeat(number, |b| {
        let interval = Op::Interval {
            timer: 0,
            length: interarrival,
        };
        b.op(interval).op(Op::Fork { task: 1, thread: true });
    });
    let mut job = Builder::default();
    job.op(Op::Begin { arrival: true })
        .op(Op::Run(service))
        .op(Op::Done { count: 1 });

    let mut workload = empty("jobs", duration);
    workload.score = Score::MeanResponse;
    workload.programs = vec![source.finish(), job.finish()];
    let mut arrivals = task("arrivals", 0, 0);
    arrivals.policy = SchedPolicy::Fifo { rt_priority: 99 };
    let mut job = task("job", 1, 0);
    job.spawn = false;
    job.footprint_bytes = a.get("footprint");
    workload.tasks = vec![arrivals, job].into();
    Ok(workload)
}
