// SPDX-License-Identifier: GPL-2.0-only
//! The generator `hackbench`: groups of senders and receivers. Each sender writes to every receiver
//! of its group.
//!
//! Each receiver has its own pipe or socket and reads everything that the senders write to it. As
//! in the original, all tasks wait for each other before they begin to send. A process needs a
//! random time to set itself up before that.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Resource, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "hackbench",
    about: "groups of senders and receivers that use pipes or sockets",
    parameters: &[
        Parameter {
            name: "groups",
            unit: Unit::Count,
            default: "10",
            range: ("1", "1000"),
            meaning: "number of groups; each has 2 x `fds` tasks",
        },
        Parameter {
            name: "fds",
            unit: Unit::Count,
            default: "20",
            range: ("1", "100"),
            meaning: "number of senders in a group, and of receivers",
        },
        Parameter {
            name: "loops",
            unit: Unit::Count,
            default: "100",
            range: ("1", "1000000"),
            meaning: "number of messages from each sender to each receiver of its group",
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
            meaning: "kind of channel",
        },
        Parameter {
            name: "as",
            unit: Unit::Choice(&["process", "thread"]),
            default: "process",
            range: ("", ""),
            meaning: "whether tasks are processes or threads",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "2k",
            range: ("0", "1g"),
            meaning: "working set of a task: stack, message and socket structures",
        },
    ],
    build,
};

/// Returns a program that begins with the work of a new process: its first page faults, and closing
/// file descriptors that it does not use. Threads do not need this.
fn setting_up(processes: bool) -> Builder {
    let mut program = Builder::default();
    if processes {
        program.op(Op::Run(Dist::Uniform { lo: 0, hi: 100_000 }));
    }
    program
}

/// Builds the workload. All threads belong to one process, as in the original.
fn build(a: &Arguments) -> Result<Workload, Error> {
    let (groups, fds, loops): (u32, u32, u64) = (a.small("groups"), a.small("fds"), a.get("loops"));
    let bytes: u32 = a.small("bytes");
    let socket = a.choice("via") == "socket";
    let processes = a.choice("as") == "process";
    let start = 0;
    let mut workload = empty("messages", None);
    workload.score = Score::CompletionTime;
    workload.resources.push(Resource::Barrier {
        name: "start".into(),
        participants: groups * fds * 2,
    });
    for group in 0..groups {
        let first = input::index(workload.resources.len());
        let mut sender = setting_up(processes);
        sender.op(Op::Barrier(start)).repeat(Some(loops), |b| {
            for channel in first..first + fds {
                b.op(Op::Send { channel, bytes });
            }
        });
        let sender_program = input::index(workload.programs.len());
        workload.programs.push(sender.finish());
        for index in 0..fds {
            let name = format!("{group}.{index}");
            workload.resources.push(match socket {
                true => channel::unix(name, channel::SOCKET_BYTES, bytes.into()),
                false => channel::pipe(name),
            });
            let mut receiver = setting_up(processes);
            receiver
                .op(Op::Barrier(start))
                .repeat(Some(loops * u64::from(fds)), |b| {
                    b.op(Op::Recv(first + index)).op(Op::Done { count: 1 });
                });
            let program = input::index(workload.programs.len());
            workload.programs.push(receiver.finish());
            for (comm, program) in [("receiver", program), ("sender", sender_program)] {
                let process = if processes {
                    input::index(workload.tasks.len())
                } else {
                    0
                };
                let mut task = task(comm, program, process);
                task.footprint_bytes = a.get("footprint");
                workload.tasks.push(task);
            }
        }
    }
    Ok(workload)
}
