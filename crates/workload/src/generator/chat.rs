// SPDX-License-Identifier: GPL-2.0-only
//! A chat server under load, as VolanoMark: rooms of users, each message sent to the server and from there to all
//! other users of the room.
//!
//! A user is four threads: client send and receive, server send and receive, joined by a socket each way. Buffers of
//! sockets are finite, so writers wait as well as readers. Within the server, a user's outgoing messages are a queue in
//! memory without a bound, a semaphore here: what passes it costs a futex. Messages count where clients receive them.
//! Left out: connecting; all threads wait for each other and begin together.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::error::Error;
use crate::program::{Dist, Op, Policy, Program, Resource, Workload};

pub const GENERATOR: Generator = Generator {
    name: "chat",
    about: "a chat server and its clients: rooms of users, four threads each (VolanoMark)",
    parameters: &[
        Parameter {
            name: "rooms",
            unit: Unit::Count,
            default: "10",
            range: ("1", "500"),
            meaning: "rooms of `users`; 4 threads a user",
        },
        Parameter {
            name: "messages",
            unit: Unit::Count,
            default: "100",
            range: ("1", "1000000"),
            meaning: "messages that each user sends",
        },
        Parameter {
            name: "users",
            unit: Unit::Count,
            default: "20",
            range: ("2", "100"),
            meaning: "users of a room",
        },
        Parameter {
            name: "bytes",
            unit: Unit::Bytes,
            default: "100",
            range: ("1", "4k"),
            meaning: "size of a message",
        },
        Parameter {
            name: "buffer",
            unit: Unit::Bytes,
            default: "208k",
            range: ("1k", "64m"),
            meaning: "memory of a socket's buffer; a message takes its data and sk_buff",
        },
        Parameter {
            name: "work",
            unit: Unit::Time,
            default: "5us",
            range: ("0", "1s"),
            meaning: "work of each thread for each message",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "0",
            range: ("0", "1g"),
            meaning: "working set of a thread",
        },
        Parameter {
            name: "nice",
            unit: Unit::Count,
            default: "0",
            range: ("0", "19"),
            meaning: "nice value of all threads",
        },
    ],
    build,
};

const START: u32 = 0;

/// The two processes.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;

/// What belongs to a user, by its number over all rooms.
struct User(u32);

impl User {
    const RESOURCES: u32 = 3;

    fn to_server(&self) -> u32 {
        1 + self.0 * User::RESOURCES
    }

    fn to_client(&self) -> u32 {
        self.to_server() + 1
    }

    /// Messages in the server that are for this user.
    fn queue(&self) -> u32 {
        self.to_server() + 2
    }
}

/// A thread that begins with the others, does `body` `rounds` times and exits.
fn thread(rounds: u64, body: impl FnOnce(&mut Builder)) -> Program {
    let mut program = Builder::default();
    program.op(Op::Barrier(START)).repeat(Some(rounds), body);
    program.finish()
}

fn build(a: &Arguments) -> Result<Workload, Error> {
    let (rooms, users, messages) = (a.get("rooms") as u32, a.get("users") as u32, a.get("messages"));
    let (bytes, memory) = (a.get("bytes"), a.get("buffer"));
    let work = Op::Run(Dist::Fixed(a.get("work")));
    let mut workload = empty("messages", None);
    workload.resources.push(Resource::Barrier {
        name: "start".into(),
        participants: rooms * users * 4,
    });
    let message = |channel| Op::Send {
        channel,
        bytes: bytes as u32,
    };
    let received = messages * u64::from(users - 1);
    for user in 0..rooms * users {
        workload
            .resources
            .push(channel::socket(format!("{user}.to-server"), memory, bytes));
        workload
            .resources
            .push(channel::socket(format!("{user}.to-client"), memory, bytes));
        workload.resources.push(Resource::Semaphore {
            name: format!("{user}.queue"),
            value: 0,
        });
        let room = user / users;
        let user = User(user);
        let client_send = thread(messages, |b| {
            b.op(work.clone()).op(message(user.to_server()));
        });
        let server_recv = thread(messages, |b| {
            b.op(Op::Recv(user.to_server())).op(work.clone());
            for other in (room * users..(room + 1) * users).filter(|other| *other != user.0) {
                b.op(Op::SemPost(User(other).queue()));
            }
        });
        let server_send = thread(received, |b| {
            b.op(Op::SemWait(user.queue()))
                .op(work.clone())
                .op(message(user.to_client()));
        });
        let client_recv = thread(received, |b| {
            b.op(Op::Recv(user.to_client()))
                .op(work.clone())
                .op(Op::Done { count: 1 });
        });
        for (comm, process, program) in [
            ("client-send", CLIENT, client_send),
            ("client-recv", CLIENT, client_recv),
            ("server-recv", SERVER, server_recv),
            ("server-send", SERVER, server_send),
        ] {
            let mut task = task(comm, workload.programs.len() as u32, process);
            task.footprint_bytes = a.get("footprint");
            task.policy = Policy::Normal {
                nice: a.get("nice") as i32,
            };
            workload.programs.push(program);
            workload.tasks.push(task);
        }
    }
    Ok(workload)
}
