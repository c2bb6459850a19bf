// SPDX-License-Identifier: GPL-2.0-only
//! The generator `lat_ctx`: processes that pass a token around a ring of pipes, like lmbench's
//! lat_ctx. A process that receives the token first accesses its memory.
//!
//! As in lmbench, the first process forks the others. The token passes once around the ring before
//! the measurement begins, so that all processes are ready.
//!
//! The time per operation is the time of passing the token once. It consists of a switch, the use
//! of a pipe and the accesses to memory. lmbench measures the use of the pipe and the accesses in a
//! single process, and subtracts them. This workload does not subtract them.

use super::arguments::{Arguments, parameters};
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::program::{MEASURED, Op, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "lat_ctx",
    about: "processes that pass a token around a ring of pipes (lmbench)",
    example: "processes=3,size_kb=4,rounds=10",
    parameters: parameters! {
        "processes": Count, "2", ("2", "10000"), "number of processes in the ring";
        "size_kb": Count, "0", ("0", "65536"),
            "memory in KB that each process works through when it has the token";
        "rounds": Count, "1000", ("1", "100000000"),
            "number of times that the token passes around the ring";
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let (processes, bytes): (u32, u64) = (a.small("processes"), a.get("size_kb") * 1024);
    let mut workload = empty("passes", None);
    workload.score = Score::TimePerOperation;
    for process in 0..processes {
        let receive = Op::Recv(process);
        let send = Op::Send {
            channel: (process + 1) % processes,
            bytes: 4,
        };
        let first = process == 0;
        let mut program = Builder::default();
        if first {
            for task in 1..processes {
                program.op(Op::Fork { task, thread: false });
            }
            program.op(send.clone()).op(receive.clone()).op(Op::Phase(MEASURED));
        } else {
            program.op(receive.clone()).op(send.clone());
        }
        program.repeat(Some(a.get("rounds")), |b| {
            if !first {
                b.op(receive.clone());
            }
            if bytes > 0 {
                b.op(Op::Mem { bytes });
            }
            b.op(send).op(Op::Done { count: 1 });
            if first {
                b.op(receive.clone());
            }
        });
        workload.resources.push(channel::pipe(format!("to-{process}")));
        workload.programs.push(program.finish());
        let mut task = task("lat_ctx", process, process);
        task.footprint_bytes = bytes;
        task.spawn = first;
        workload.tasks.push(task);
    }
    Ok(workload)
}
