// SPDX-License-Identifier: GPL-2.0-only
//! The generators `sysbench_threads` and `sysbench_mutex`, after the tests `threads` and `mutex` of
//! sysbench 1.0.
//!
//! In the test `threads`, an event of a thread acquires a mutex, yields the CPU and releases the
//! mutex, 1000 times. The mutexes take turns from event to event (threads_next_event in
//! sb_threads.c).
//!
//! In the test `mutex`, each thread executes one event: again and again it counts in a loop and
//! then increments a number under a mutex that it has chosen at random (mutex_execute_event in
//! sb_mutex.c). The choices here come from a fixed sequence of [`SEQUENCE`] mutexes for each
//! thread, which the thread repeats.

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Resource, Score, Workload};
use input::Error;

/// Number of mutexes in the sequence that a thread of `sysbench_mutex` repeats.
const SEQUENCE: u64 = 32;

pub const THREADS: Generator = Generator {
    name: "sysbench_threads",
    about: "threads that acquire a mutex, yield and release it (sysbench threads)",
    example: "threads=3,locks=2,yields=5,duration=10ms",
    parameters: parameters! {
        "threads": Count, "64", ("1", "10000"),
            "number of threads (--threads; sysbench's default is 1)";
        "locks": Count, "8", ("1", "1000"), "number of mutexes (--thread-locks)";
        "yields": Count, "1000", ("1", "1000000"),
            "number of times that an event acquires its mutex (--thread-yields)";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time (--time)";
    },
    build: build_threads,
};

pub const MUTEX: Generator = Generator {
    name: "sysbench_mutex",
    about: "threads that increment numbers, each under its mutex (sysbench mutex)",
    example: "threads=3,mutexes=4,locks=70,work=1us",
    parameters: parameters! {
        "threads": Count, "64", ("1", "10000"),
            "number of threads (--threads; sysbench's default is 1)";
        "mutexes": Count, "4096", ("1", "100000"), "number of mutexes (--mutex-num)";
        "locks": Count, "50000", ("1", "1000000000"),
            "number of times that each thread acquires a mutex (--mutex-locks)";
        "work": Time, "3333ns", ("1ns", "1s"),
            "time of the loop before a mutex: 10000 rounds (--mutex-loops) of one cycle at 3 GHz";
    },
    build: build_mutex,
};

fn mutexes(workload: &mut Workload, nr: u32) {
    workload.resources.extend((0..nr).map(|i| Resource::Mutex {
        name: format!("mutex-{i}"),
        priority_inheritance: false,
    }));
}

fn build_threads(a: &Arguments) -> Result<Workload, Error> {
    let mut workload = empty("events", Some(a.get("duration")));
    let (threads, locks): (u32, u32) = (a.small("threads"), a.small("locks"));
    mutexes(&mut workload, locks);
    for first in 0..locks.min(threads) {
        let mut program = Builder::default();
        program.repeat(None, |b| {
            for event in 0..locks {
                let mutex = (first + event) % locks;
                b.op(Op::Begin { arrival: false })
                    .repeat(Some(a.get("yields")), |b| {
                        b.op(Op::Lock(mutex)).op(Op::Yield).op(Op::Unlock(mutex));
                    })
                    .op(Op::Done { count: 1 });
            }
        });
        workload.programs.push(program.finish());
    }
    workload.tasks = (0..threads).map(|i| task("sysbench", i % locks, 0)).collect();
    Ok(workload)
}

fn build_mutex(a: &Arguments) -> Result<Workload, Error> {
    let mut workload = empty("acquisitions", None);
    workload.score = Score::CompletionTime;
    let (threads, nr): (u32, u32) = (a.small("threads"), a.small("mutexes"));
    mutexes(&mut workload, nr);
    let acquire = |b: &mut Builder, thread: u32, i: u64| {
        let mutex = scramble(u64::from(thread) * SEQUENCE + i) % u64::from(nr);
        let mutex = u32::try_from(mutex).expect("the remainder is below the number of mutexes");
        b.op(Op::Run(Dist::Fixed(a.get("work"))))
            .op(Op::Lock(mutex))
            .op(Op::Unlock(mutex))
            .op(Op::Done { count: 1 });
    };
    for thread in 0..threads {
        let mut program = Builder::default();
        let (rounds, rest) = (a.get("locks") / SEQUENCE, a.get("locks") % SEQUENCE);
        if rounds > 0 {
            program.repeat(Some(rounds), |b| (0..SEQUENCE).for_each(|i| acquire(b, thread, i)));
        }
        (0..rest).for_each(|i| acquire(&mut program, thread, i));
        workload.programs.push(program.finish());
        workload.tasks.push(task("sysbench", thread, 0));
    }
    Ok(workload)
}

/// Returns a number that looks random (the finalizer of the generator SplitMix64).
fn scramble(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
