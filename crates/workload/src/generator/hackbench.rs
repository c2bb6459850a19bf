// SPDX-License-Identifier: GPL-2.0-only
//! hackbench: groups of senders and receivers, each sender writing to each receiver of its group.
//!
//! Every receiver has one pipe or socket of its own and reads all that its group's senders write. All tasks
//! wait for each other before they begin, as they do for the starting shot of the original; how long a process takes
//! to come to that is chance.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Resource, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "hackbench",
    about: "groups of senders and receivers over pipes or sockets",
    parameters: &[
        Parameter {
            name: "groups",
            unit: Unit::Count,
            default: "10",
            range: ("1", "1000"),
            meaning: "groups of 2 x `fds` tasks",
        },
        Parameter {
            name: "fds",
            unit: Unit::Count,
            default: "20",
            range: ("1", "100"),
            meaning: "senders, and receivers, of a group",
        },
        Parameter {
            name: "loops",
            unit: Unit::Count,
            default: "100",
            range: ("1", "1000000"),
            meaning: "messages from each sender to each receiver of its group",
        },
        Parameter {
            name: "bytes",
            unit: Unit::Bytes,
            default: "100",
            range: ("1", "4k"),
            meaning: "size of a message",
        },
        Parameter {
            name: "via",
            unit: Unit::Choice(&["socket", "pipe"]),
            default: "socket",
            range: ("", ""),
            meaning: "what messages go through",
        },
        Parameter {
            name: "as",
            unit: Unit::Choice(&["process", "thread"]),
            default: "process",
            range: ("", ""),
            meaning: "what tasks are",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "2k",
            range: ("0", "1g"),
            meaning: "working set of a task: stack, message, its sockets' heads",
        },
    ],
    build,
};

/// What a process does before it is ready: its first page faults, closing the ends it does not use. A thread need not.
fn setting_up(processes: bool) -> Builder {
    let mut program = Builder::default();
    if processes {
        program.op(Op::Run(Dist::Uniform { lo: 0, hi: 100_000 }));
    }
    program
}

/// Threads are all of one process, as in the original.
fn build(a: &Arguments) -> Result<Workload, Error> {
    let (groups, fds, loops, bytes) = (a.get("groups"), a.get("fds"), a.get("loops"), a.get("bytes"));
    let socket = a.choice("via") == "socket";
    let processes = a.choice("as") == "process";
    let start = 0;
    let mut workload = empty("messages", None);
    workload.score = Score::CompletionTime;
    workload.resources.push(Resource::Barrier {
        name: "start".into(),
        participants: (groups * fds * 2) as u32,
    });
    for group in 0..groups {
        let first = workload.resources.len() as u32;
        let mut sender = setting_up(processes);
        sender.op(Op::Barrier(start)).repeat(Some(loops), |b| {
            for channel in first..first + fds as u32 {
                b.op(Op::Send {
                    channel,
                    bytes: bytes as u32,
                });
            }
        });
        let sender_program = workload.programs.len() as u32;
        workload.programs.push(sender.finish());
        for index in 0..fds {
            let name = format!("{group}.{index}");
            workload.resources.push(match socket {
                true => channel::unix(name, channel::SOCKET_BYTES, bytes),
                false => channel::pipe(name),
            });
            let mut receiver = setting_up(processes);
            receiver.op(Op::Barrier(start)).repeat(Some(loops * fds), |b| {
                b.op(Op::Recv(first + index as u32)).op(Op::Done { count: 1 });
            });
            let program = workload.programs.len() as u32;
            workload.programs.push(receiver.finish());
            for (comm, program) in [("receiver", program), ("sender", sender_program)] {
                let process = if processes { workload.tasks.len() as u32 } else { 0 };
                let mut task = task(comm, program, process);
                task.footprint_bytes = a.get("footprint");
                workload.tasks.push(task);
            }
        }
    }
    Ok(workload)
}
