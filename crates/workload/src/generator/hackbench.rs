// SPDX-License-Identifier: GPL-2.0-only
//! The generator `hackbench`: groups of senders and receivers. Each sender writes to every receiver
//! of its group.
//!
//! Each receiver has its own pipe or socket and reads everything that the senders write to it. As
//! in the original, one process forks all others. They wait until all of them are ready ([`Gate`]).

use super::arguments::{Arguments, parameters};
use super::begin::Gate;
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "hackbench",
    about: "groups of senders and receivers that use pipes or sockets",
    example: "groups=1,fds=3,loops=5,via=pipe,as=thread,bytes=1k",
    parameters: parameters! {
        "groups": Count, "10", ("1", "1000"), "number of groups; each has 2 x `fds` tasks";
        "fds": Count, "20", ("1", "100"), "number of senders in a group, and of receivers";
        "loops": Count, "100", ("1", "1000000"),
            "number of messages from each sender to each receiver of its group";
        "bytes": Bytes, "100", ("1", "4k"), "size of a message";
        "via": Choice(&["socket", "pipe"]), "socket", "kind of channel";
        "as": Choice(&["process", "thread"]), "process", "whether tasks are processes or threads";
        "footprint": Bytes, "2k", ("0", "1g"),
            "working set of a task: stack, message and socket structures";
    },
    build,
};

/// Returns the beginning of a child's program. A new process first has page faults and closes file
/// descriptors that it does not use. Threads do not need this.
fn child(gate: Gate, processes: bool) -> Builder {
    let mut program = Builder::default();
    if processes {
        program.op(Op::Run(Dist::Uniform { lo: 0, hi: 100_000 }));
    }
    program.ops(gate.wait());
    program
}

/// Builds the workload. All threads belong to one process, as in the original.
fn build(a: &Arguments) -> Result<Workload, Error> {
    let (groups, fds, loops): (u32, u32, u64) = (a.small("groups"), a.small("fds"), a.get("loops"));
    let bytes: u32 = a.small("bytes");
    let socket = a.choice("via") == "socket";
    let processes = a.choice("as") == "process";
    let mut workload = empty("messages", None);
    workload.score = Score::CompletionTime;
    let gate = Gate::new(&mut workload.resources);
    let parent = gate.parent(1..1 + groups * fds * 2, !processes);
    workload.programs.push(parent.finish());
    workload.tasks.push(task("hackbench", 0, 0));
    for group in 0..groups {
        let first = input::index(workload.resources.len());
        for index in 0..fds {
            let name = format!("{group}.{index}");
            workload.resources.push(match socket {
                true => channel::unix(name, channel::SOCKET_BYTES, bytes.into()),
                false => channel::pipe(name),
            });
            let mut receiver = child(gate, processes);
            receiver.repeat(Some(loops * u64::from(fds)), |b| {
                b.op(Op::Recv(first + index)).op(Op::Done { count: 1 });
            });
            let program = input::index(workload.programs.len());
            workload.programs.push(receiver.finish());
            workload.tasks.push(task("receiver", program, 0));
        }
        let mut sender = child(gate, processes);
        sender.repeat(Some(loops), |b| {
            for channel in first..first + fds {
                b.op(Op::Send { channel, bytes });
            }
        });
        let program = input::index(workload.programs.len());
        workload.programs.push(sender.finish());
        workload.tasks.extend((0..fds).map(|_| task("sender", program, 0)));
    }
    for task in &mut workload.tasks {
        task.footprint_bytes = a.get("footprint");
    }
    for child in &mut workload.tasks[1..] {
        child.spawn = false;
    }
    Ok(workload)
}
