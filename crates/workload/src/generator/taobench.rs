// SPDX-License-Identifier: GPL-2.0-only
//! The generator `taobench`: a caching database with a pool of workers under open load, like
//! TaoBench of DCPerf.
//!
//! ```text
//! clients --request--> fast threads: look up --hit--> response
//!                                            --miss--> slow threads: wait for the backend, response
//! ```
//!
//! Requests arrive at random times, whatever the server does. The task `clients` stands for the
//! network: it has the highest real-time priority, so that the policy under test has as little
//! influence on the arrivals as possible. All fast threads take requests from one queue. Of the
//! requests that a fast thread takes, every nth one is a miss. The response time of a hit counts
//! from its arrival, that of a miss from the time at which the fast thread passed it on.

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, semaphore, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, SchedPolicy, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "taobench",
    about: "a caching database with fast and slow threads under open load (DCPerf)",
    example: "fast=2,slow=3,interarrival=50us,duration=20ms",
    parameters: parameters! {
        "fast": Count, "16", ("1", "10000"), "number of threads that look up requests";
        "slow": Count, "48", ("1", "10000"),
            "number of threads that handle misses (TaoBench has three for each fast thread)";
        "interarrival": Time, "10us", ("100ns", "1s"),
            "mean time between two requests; exponentially distributed";
        "hit": Time, "20us", ("1ns", "1s"),
            "mean computing time of a look-up; exponentially distributed";
        "miss_every": Count, "10", ("1", "1000000"),
            "one of this many requests is a miss (TaoBench aims at 90 % hits)";
        "backend": Time, "200us", ("0", "1s"),
            "mean time that a miss waits for the backend; exponentially distributed";
        "miss": Time, "40us", ("1ns", "1s"),
            "mean computing time of a miss after the wait; exponentially distributed";
        "footprint": Bytes, "64k", ("0", "1g"),
            "working set of a thread: its part of the hash table and items";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
    },
    build,
};

/// Semaphore whose value is the number of requests that no fast thread has taken yet.
const REQUESTS: u32 = 0;
/// Semaphore whose value is the number of misses that no slow thread has taken yet.
const MISSES: u32 = 1;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let mut workload = empty("requests", Some(a.get("duration")));
    workload.resources = vec![semaphore("requests"), semaphore("misses")];
    let exponential = |name| Dist::Exponential { mean: a.get(name) };
    let mut clients = Builder::default();
    clients.repeat(None, |b| {
        b.op(Op::Interval {
            timer: 0,
            length: exponential("interarrival"),
        })
        .op(Op::SemPost(REQUESTS));
    });
    let look_up = |b: &mut Builder| {
        b.op(Op::SemWait(REQUESTS))
            .op(Op::BeginPosted)
            .op(Op::Run(exponential("hit")));
    };
    let mut fast = Builder::default();
    fast.repeat(None, |b| {
        if a.get("miss_every") > 1 {
            b.repeat(Some(a.get("miss_every") - 1), |b| {
                look_up(b);
                b.op(Op::Done { count: 1 });
            });
        }
        look_up(b);
        b.op(Op::SemPost(MISSES));
    });
    let mut slow = Builder::default();
    slow.repeat(None, |b| {
        b.op(Op::SemWait(MISSES)).op(Op::BeginPosted);
        if a.get("backend") > 0 {
            b.op(Op::Sleep(exponential("backend")));
        }
        b.op(Op::Run(exponential("miss"))).op(Op::Done { count: 1 });
    });
    workload.programs = vec![clients.finish(), fast.finish(), slow.finish()];
    let mut clients = task("clients", 0, 0);
    clients.policy = SchedPolicy::Fifo { rt_priority: 99 };
    workload.tasks.push(clients);
    for (comm, program, number) in [("fast", 1, "fast"), ("slow", 2, "slow")] {
        for _ in 0..a.get(number) {
            let mut thread = task(comm, program, 1);
            thread.footprint_bytes = a.get("footprint");
            workload.tasks.push(thread);
        }
    }
    Ok(workload)
}
