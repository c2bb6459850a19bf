// SPDX-License-Identifier: GPL-2.0-only
//! The generator `chat`: a chat server under load, modelled on the chat benchmark that succeeded
//! VolanoMark (Hartner, IBM 2000). Users are in rooms. Each message is sent to the server, which
//! sends it to all other users of the room.
//!
//! There are two processes. For each user, the client's main thread opens a connection and creates
//! two threads, one that sends and one that receives. The server's main thread accepts the
//! connection and also creates two threads. When all threads exist, the clients start together and
//! the measurement begins.
//!
//! ```text
//! client-send --socket--> server-recv --semaphore--> server-send --sockets--> client-recv of the 19 other users
//! ```
//!
//! With 20 users in a room, each receiving client has 19 writers. Buffers of sockets are finite, so
//! writers also have to wait. Messages are counted when clients receive them.

use super::arguments::{Arguments, parameters};
use super::{Generator, channel, empty, semaphore, task};
use crate::builder::Builder;
use crate::program::{Dist, MEASURED, Op, Program, SchedPolicy, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "chat",
    about: "a chat server and its clients, with four threads per user (VolanoMark)",
    example: "rooms=2,messages=3,users=4,bytes=1k,buffer=8k,work=1us",
    parameters: parameters! {
        "rooms": Count, "10", ("1", "500"), "number of rooms; each has `users` users";
        "messages": Count, "100", ("1", "1000000"), "number of messages that each user sends";
        "users": Count, "20", ("2", "100"), "number of users in a room";
        "bytes": Bytes, "100", ("1", "4k"), "size of a message";
        "buffer": Bytes, "80k", ("1k", "64m"),
            "capacity of a connection per direction: send buffer and window";
        "work": Time, "5us", ("0", "1s"),
            "mean computing time per sent or received message; samples are 50 % to 150 % of it";
        "footprint": Bytes, "8k", ("0", "1g"),
            "working set of a thread: stack, buffers and connection";
        "nice": Count, "0", ("0", "19"), "nice value of all threads";
    },
    build,
};

/// Semaphore that starts the clients. The main thread posts it once. Each client thread that
/// acquires it posts it again for the next client thread. This models the System V semaphores of
/// Linux 2.4, where a woken task woke the next waiter before it returned to user space.
const START: u32 = 0;
/// Semaphore that counts the connections waiting to be accepted.
const BACKLOG: u32 = 1;
/// Semaphore that is posted when the server has accepted all connections.
const READY: u32 = 2;

/// Numbers of the two processes.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;

/// A user, identified by its number over all rooms. The methods return the user's resources and
/// tasks.
struct User(u32);

impl User {
    const RESOURCES: u32 = 3;
    const THREADS: u32 = 4;

    fn to_server(&self) -> u32 {
        3 + self.0 * User::RESOURCES
    }

    fn to_client(&self) -> u32 {
        self.to_server() + 1
    }

    /// Returns the semaphore that counts the messages which server-recv has passed to server-send.
    fn queue(&self) -> u32 {
        self.to_server() + 2
    }

    /// Returns a step that forks the user's nth thread: client-send, client-recv, server-recv or
    /// server-send. In the list of tasks, the threads of the users follow the two main threads.
    fn thread(&self, nth: u32) -> Op {
        Op::Fork {
            task: 2 + self.0 * User::THREADS + nth,
            thread: true,
        }
    }
}

/// Returns the program of a thread that executes `body` `rounds` times and exits. Client threads
/// first wait for the start.
fn thread(process: u32, rounds: u64, body: impl FnOnce(&mut Builder)) -> Program {
    let mut program = Builder::default();
    if process == CLIENT {
        program.op(Op::SemWait(START)).op(Op::SemPost(START));
    }
    program.repeat(Some(rounds), body);
    program.finish()
}

/// Returns the program of a process's main thread, for `users` users.
fn main_thread(process: u32, users: u32) -> Program {
    let mut program = Builder::default();
    for user in (0..users).map(User) {
        let (connection, first) = match process {
            CLIENT => (Op::SemPost(BACKLOG), 0),
            _ => (Op::SemWait(BACKLOG), 2),
        };
        program.op(connection).op(user.thread(first)).op(user.thread(first + 1));
    }
    if process == CLIENT {
        program
            .op(Op::SemWait(READY))
            .op(Op::Phase(MEASURED))
            .op(Op::SemPost(START));
    } else {
        program.op(Op::SemPost(READY));
    }
    program.op(Op::WaitChildren);
    program.finish()
}

fn build(a: &Arguments) -> Result<Workload, Error> {
    let (rooms, users, messages): (u32, u32, u64) = (a.small("rooms"), a.small("users"), a.get("messages"));
    let (bytes, memory) = (a.small("bytes"), a.get("buffer"));
    let work = a.get("work");
    let work = Op::Run(Dist::Uniform {
        lo: work / 2,
        hi: work + work / 2,
    });
    let mut workload = empty("messages", None);
    workload
        .resources
        .extend([semaphore("start"), semaphore("backlog"), semaphore("ready")]);
    for (comm, process) in [("client", CLIENT), ("server", SERVER)] {
        workload.programs.push(main_thread(process, rooms * users));
        workload.tasks.push(task(comm, process, process));
    }
    let message = |channel| Op::Send { channel, bytes };
    for user in 0..rooms * users {
        workload.resources.extend([
            channel::tcp(format!("{user}.to-server"), memory, bytes.into()),
            channel::tcp(format!("{user}.to-client"), memory, bytes.into()),
            semaphore(format!("{user}.queue")),
        ]);
        let room = user / users;
        let user = User(user);
        let client_send = thread(CLIENT, messages, |b| {
            b.op(work.clone()).op(message(user.to_server()));
        });
        let client_recv = thread(CLIENT, messages * u64::from(users - 1), |b| {
            b.op(Op::Recv(user.to_client()))
                .op(work.clone())
                .op(Op::Done { count: 1 });
        });
        let server_recv = thread(SERVER, messages, |b| {
            b.op(Op::Recv(user.to_server()))
                .op(work.clone())
                .op(Op::SemPost(user.queue()));
        });
        let server_send = thread(SERVER, messages, |b| {
            b.op(Op::SemWait(user.queue()));
            for other in (room * users..(room + 1) * users).filter(|other| *other != user.0) {
                b.op(work.clone()).op(message(User(other).to_client()));
            }
        });
        for (comm, process, program) in [
            ("client-send", CLIENT, client_send),
            ("client-recv", CLIENT, client_recv),
            ("server-recv", SERVER, server_recv),
            ("server-send", SERVER, server_send),
        ] {
            let mut task = task(comm, input::index(workload.programs.len()), process);
            task.spawn = false;
            task.footprint_bytes = a.get("footprint");
            workload.programs.push(program);
            workload.tasks.push(task);
        }
    }
    for task in &mut workload.tasks {
        task.policy = SchedPolicy::Normal { nice: a.small("nice") };
    }
    Ok(workload)
}
