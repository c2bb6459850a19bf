// SPDX-License-Identifier: GPL-2.0-only
//! A closed system: a fixed number of tasks, each computing and thinking in turn. With `start_cpu` all are
//! created on one CPU (the 7/0 placement of the SMP study), and it is up to the policy to spread them.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, distribution, empty, task};
use crate::builder::Builder;
use crate::error::Error;
use crate::program::{Dist, Op, Workload};

pub const GENERATOR: Generator = Generator {
    name: "closed",
    about: "n tasks that compute and think in turn",
    parameters: &[
        Parameter {
            name: "n",
            unit: Unit::Count,
            default: "8",
            range: ("1", "100000"),
            meaning: "tasks",
        },
        Parameter {
            name: "compute",
            unit: Unit::Times,
            default: "10ms",
            range: ("1ns", "3600s"),
            meaning: "work of a round, mean or values",
        },
        Parameter {
            name: "compute_dist",
            unit: distribution::KINDS,
            default: "D",
            range: ("", ""),
            meaning: "its distribution",
        },
        Parameter {
            name: "think",
            unit: Unit::Times,
            default: "0",
            range: ("0", "3600s"),
            meaning: "sleep after a round, mean or values; 0: none",
        },
        Parameter {
            name: "think_dist",
            unit: distribution::KINDS,
            default: "D",
            range: ("", ""),
            meaning: "its distribution",
        },
        Parameter {
            name: "cv2",
            unit: Unit::Count,
            default: "4",
            range: ("1", "100"),
            meaning: "squared coefficient of variation, for H2",
        },
        Parameter {
            name: "start_cpu",
            unit: Unit::Count,
            default: "",
            range: ("0", "65535"),
            meaning: "create all tasks on this CPU; default: round robin over all",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "0",
            range: ("0", "1g"),
            meaning: "working set of a task",
        },
        Parameter {
            name: "duration",
            unit: Unit::Time,
            default: "1s",
            range: ("1us", "86400s"),
            meaning: "simulated time",
        },
    ],
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let cv2 = a.get("cv2");
    let compute = distribution::dist(a, a.choice("compute_dist"), "compute", cv2)?;
    let think = distribution::dist(a, a.choice("think_dist"), "think", cv2)?;
    let mut program = Builder::default();
    program.repeat(None, |b| {
        b.op(Op::Begin { arrival: false })
            .op(Op::Run(compute))
            .op(Op::Done { count: 1 });
        if think != Dist::Fixed(0) {
            b.op(Op::Sleep(think));
        }
    });
    let mut workload = empty("rounds", Some(a.get("duration")));
    workload.programs.push(program.finish());
    for process in 0..a.get("n") as u32 {
        let mut task = task("closed", 0, process);
        task.start_cpu = a.optional("start_cpu").map(|cpu| cpu as u32);
        task.footprint_bytes = a.get("footprint");
        workload.tasks.push(task);
    }
    Ok(workload)
}
