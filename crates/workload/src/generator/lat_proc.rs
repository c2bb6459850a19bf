// SPDX-License-Identifier: GPL-2.0-only
//! The generator `lat_proc`: the time to create a process and wait for its exit, like lmbench's
//! lat_proc.
//!
//! - fork: the child exits at once.
//! - exec: the child executes another program first.
//! - shell: the child executes a shell, which forks a child that executes the program, and waits
//!   for it.

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "lat_proc",
    about: "a process that repeatedly creates another one and waits for its exit (lmbench)",
    example: "operation=shell,n=10",
    parameters: parameters! {
        "operation": Choice(&["fork", "exec", "shell"]), "fork",
            "action of the child: exit (fork), execute a program (exec), or execute a shell that executes a program (shell)";
        "n": Count, "1000", ("1", "100000000"), "number of operations";
        "footprint": Bytes, "16k", ("0", "1g"),
            "memory that a process touches: stack, data and page tables";
        "after": Time, "0", ("0", "3600s"),
            "computing time of a parent between its fork and its wait for the child";
    },
    build,
};

const PROGRAM: u32 = 1;
const SHELL: u32 = 2;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let operation = a.choice("operation");
    let fork = |task| Op::Fork { task, thread: false };
    let exec = |comm: &str| Op::Exec { comm: comm.into() };
    // After its fork, a parent goes on for a while before it waits for the child.
    let wait = |b: &mut Builder| {
        if a.get("after") > 0 {
            b.op(Op::Run(Dist::Fixed(a.get("after"))));
        }
        b.op(Op::WaitChildren);
    };
    let mut parent = Builder::default();
    parent.repeat(Some(a.get("n")), |b| {
        b.op(Op::Begin { arrival: false })
            .op(fork(if operation == "shell" { SHELL } else { PROGRAM }));
        wait(b);
        b.op(Op::Done { count: 1 });
    });
    let mut program = Builder::default();
    if operation != "fork" {
        program.op(exec("hello"));
    }
    program.op(Op::Exit);
    let mut shell = Builder::default();
    shell.op(exec("sh")).op(fork(PROGRAM));
    wait(&mut shell);

    let mut workload = empty("operations", None);
    workload.score = Score::TimePerOperation;
    workload.programs = vec![parent.finish(), program.finish()];
    workload.tasks = vec![task("lat_proc", 0, 0), task("lat_proc", PROGRAM, 0)].into();
    if operation == "shell" {
        workload.programs.push(shell.finish());
        workload.tasks.push(task("lat_proc", SHELL, 0));
    }
    for child in &mut workload.tasks[1..] {
        child.spawn = false;
    }
    for task in &mut workload.tasks {
        task.footprint_bytes = a.get("footprint");
    }
    Ok(workload)
}
