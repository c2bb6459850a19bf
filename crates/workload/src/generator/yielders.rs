// SPDX-License-Identifier: GPL-2.0-only
//! The generator `yield`: tasks that only call sched_yield. It measures the cost of one call of the
//! scheduler.

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::program::{Op, Score, Workload};
use input::Error;

/// The literature calls the same generator `loop_yield`.
pub const LOOP_YIELD: Generator = Generator {
    name: "loop_yield",
    ..GENERATOR
};

pub const GENERATOR: Generator = Generator {
    name: "yield",
    about: "n tasks that only call sched_yield",
    example: "n=2",
    parameters: parameters! {
        "n": Count, "2", ("1", "100000"), "number of tasks";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let mut program = Builder::default();
    program.repeat(None, |b| {
        b.op(Op::Yield).op(Op::Done { count: 1 });
    });
    let mut workload = empty("yields", Some(a.get("duration")));
    workload.score = Score::SwitchesPerSecond;
    workload.programs.push(program.finish());
    let yielder = task("yield", 0, 0);
    workload.tasks = (0..a.small("n")).map(|process| yielder.in_process(process)).collect();
    Ok(workload)
}
