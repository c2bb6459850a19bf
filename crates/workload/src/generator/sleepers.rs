// SPDX-License-Identifier: GPL-2.0-only
//! The generator `sleepers`: many tasks with little work each, which cause many wake-ups.

use super::arguments::{Arguments, parameters};
use super::{Generator, begin, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "sleepers",
    about: "n tasks that repeatedly run for a short time and sleep",
    example: "n=10,run=50us,sleep=1.5ms",
    parameters: parameters! {
        "n": Count, "1000", ("1", "1000000"), "number of tasks";
        "run": Time, "50us", ("0", "3600s"), "computing time of a round";
        "sleep": Time, "50us", ("1ns", "3600s"), "sleep after a round";
        "footprint": Bytes, "0", ("0", "1g"), "working set of a task";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
        ..begin::PARAMETER
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let mut program = Builder::default();
    program.repeat(None, |b| {
        b.op(Op::Run(Dist::Fixed(a.get("run"))))
            .op(Op::Done { count: 1 })
            .op(Op::Sleep(Dist::Fixed(a.get("sleep"))));
    });
    let mut workload = empty("rounds", Some(a.get("duration")));
    workload.programs.push(program.finish());
    let mut sleeper = task("sleeper", 0, 0);
    sleeper.footprint_bytes = a.get("footprint");
    workload.tasks = (0..a.small("n")).map(|process| sleeper.in_process(process)).collect();
    begin::apply(a, &mut workload);
    Ok(workload)
}
