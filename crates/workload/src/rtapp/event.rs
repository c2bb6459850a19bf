// SPDX-License-Identifier: GPL-2.0-only
//! The events of a phase.
//!
//! As in rt-app, a key is an event if it begins with the event's name, so `run0` and `run_heavy`
//! are both `run`. `suspend` and `resume` work as in rt-app: `suspend` waits for the condition of
//! that name, and `resume` broadcasts it, both under the mutex of that name. A resume is lost if no
//! task waits for it.

use super::file::{File, INT_MAX};
use super::json::{Member, Value};
use super::resources::{Kind, Resources};
use crate::program::{Dist, Op};
use input::{Error, Position, suggest};

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Run,
    Runtime,
    Sleep,
    Timer,
    Mem,
    Iorun,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broad,
    Sync,
    Barrier,
    Suspend,
    Resume,
    Yield,
    Fork,
    SemPost,
    SemWait,
    Send,
    Recv,
    Poll,
    Begin,
    Done,
    MigrateDisable,
    MigrateEnable,
}

/// Names of the events. A key has the first event in this list with whose name it begins. A name
/// must therefore precede names that are its prefixes (`runtime` precedes `run`). The events from
/// `sem_post` on are extensions of rt-app's format.
const EVENTS: &[(&str, Event)] = &[
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("sleep", Event::Sleep),
    ("timer", Event::Timer),
    ("mem", Event::Mem),
    ("iorun", Event::Iorun),
    ("lock", Event::Lock),
    ("unlock", Event::Unlock),
    ("wait", Event::Wait),
    ("signal", Event::Signal),
    ("broad", Event::Broad),
    ("sync", Event::Sync),
    ("barrier", Event::Barrier),
    ("suspend", Event::Suspend),
    ("resume", Event::Resume),
    ("yield", Event::Yield),
    ("fork", Event::Fork),
    ("sem_post", Event::SemPost),
    ("sem_wait", Event::SemWait),
    ("send", Event::Send),
    ("recv", Event::Recv),
    ("poll", Event::Poll),
    ("begin", Event::Begin),
    ("done", Event::Done),
    ("migrate_disable", Event::MigrateDisable),
    ("migrate_enable", Event::MigrateEnable),
];

/// Returns the event of a key.
pub fn find(key: &str) -> Option<Event> {
    EVENTS
        .iter()
        .find(|(name, _)| key.starts_with(name))
        .map(|(_, event)| *event)
}

/// Returns the names of all events, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|(name, _)| *name)
}

/// Contents of a timer event.
pub struct Timer<'n> {
    pub name: &'n str,
    pub at: Position,
    pub period_ns: u64,
    pub absolute: bool,
}

/// Reads a timer event.
pub fn timer<'n>(file: File, member: &'n Member) -> Result<Timer<'n>, Error> {
    let fields = file.fields(member, &["ref", "period", "mode"])?;
    let name = fields.need(file, member, "ref")?;
    let absolute = match fields.get("mode") {
        None => false,
        Some(mode) => match file.string(mode)? {
            "absolute" => true,
            "relative" => false,
            other => {
                return Err(file
                    .error(mode.node.at, format!("there is no timer mode \"{other}\""))
                    .hint(suggest::hint(other, &["relative", "absolute"])));
            }
        },
    };
    Ok(Timer {
        name: file.name(name)?,
        at: name.node.at,
        period_ns: file.usec(fields.need(file, member, "period")?)?,
        absolute,
    })
}

/// The parts of a file that events can refer to.
pub struct Context<'a> {
    pub file: File<'a>,
    pub resources: &'a mut Resources,
    /// Names of the tasks in the order of the file. Forks contain indices into this list.
    pub tasks: &'a [&'a str],
    /// Name of the task that contains the event.
    pub task: &'a str,
    /// Number of instances of the task.
    pub instances: u32,
    /// Timers of the task: name, and whether it is absolute.
    pub timers: &'a [(String, bool)],
}

/// Returns the steps of one event.
pub fn ops(cx: &mut Context, event: Event, member: &Member) -> Result<Vec<Op>, Error> {
    let file = cx.file;
    let bytes = || file.int(member, " bytes", 0..=INT_MAX);
    let length = || file.usec(member).map(Dist::Fixed);
    Ok(match event {
        Event::Run => vec![Op::Run(length()?)],
        Event::Runtime => vec![Op::Runtime(length()?)],
        Event::Sleep => vec![Op::Sleep(length()?)],
        Event::Mem => vec![Op::Mem { bytes: bytes()? }],
        Event::Iorun => vec![Op::Io { bytes: bytes()? }],
        Event::Timer => {
            let timer = timer(file, member)?;
            let index = cx.timers.iter().position(|(name, _)| name == timer.name);
            let index = index.expect("all timers of a task have been collected");
            vec![Op::Timer {
                timer: input::index(index),
                period: timer.period_ns,
                absolute: cx.timers[index].1,
            }]
        }
        Event::Lock => vec![Op::Lock(cx.resources.get(Kind::Mutex, file.name(member)?))],
        Event::Unlock => vec![Op::Unlock(cx.resources.get(Kind::Mutex, file.name(member)?))],
        Event::Signal => vec![Op::Signal(cx.resources.get(Kind::Wait, file.name(member)?))],
        Event::Broad => vec![Op::Broadcast(cx.resources.get(Kind::Wait, file.name(member)?))],
        Event::Wait | Event::Sync => {
            let fields = file.fields(member, &["ref", "mutex"])?;
            let cond = file.name(fields.need(file, member, "ref")?)?;
            let mutex = file.name(fields.need(file, member, "mutex")?)?;
            let cond = cx.resources.get(Kind::Wait, cond);
            let mutex = cx.resources.get(Kind::Mutex, mutex);
            if event == Event::Wait {
                vec![Op::CondWait { cond, mutex }]
            } else {
                vec![Op::Sync { cond, mutex }]
            }
        }
        Event::Barrier => {
            let id = cx.resources.get(Kind::Barrier, file.name(member)?);
            cx.resources.join_barrier(id, cx.instances);
            vec![Op::Barrier(id)]
        }
        Event::Suspend | Event::Resume => {
            // Without a value, the name is that of the task itself, as in workgen.
            let name = match (&member.node.value, event) {
                (Value::Missing, Event::Suspend) => cx.task,
                _ => file.name(member)?,
            };
            let cond = cx.resources.get(Kind::Wait, name);
            let mutex = cx.resources.get(Kind::Mutex, name);
            let between = if event == Event::Suspend {
                Op::CondWait { cond, mutex }
            } else {
                Op::Broadcast(cond)
            };
            vec![Op::Lock(mutex), between, Op::Unlock(mutex)]
        }
        Event::Yield | Event::MigrateDisable | Event::MigrateEnable => {
            if !matches!(member.node.value, Value::Missing | Value::Null | Value::String(_)) {
                let found = member.node.value.kind();
                let name = EVENTS
                    .iter()
                    .find(|(_, known)| *known == event)
                    .map_or("", |(name, _)| *name);
                return Err(file
                    .error(member.node.at, format!("\"{name}\" takes a string, found {found}"))
                    .hint("use an empty string: \"\""));
            }
            vec![match event {
                Event::MigrateDisable => Op::MigrateDisable,
                Event::MigrateEnable => Op::MigrateEnable,
                _ => Op::Yield,
            }]
        }
        Event::Fork => {
            let name = file.name(member)?;
            let Some(task) = cx.tasks.iter().position(|task| *task == name) else {
                return Err(file
                    .error(member.node.at, format!("the forked task \"{name}\" does not exist"))
                    .hint(suggest::hint(name, cx.tasks)));
            };
            let task = input::index(task);
            // rt-app's forks create threads.
            vec![Op::Fork { task, thread: true }]
        }
        Event::SemPost => vec![Op::SemPost(cx.resources.get(Kind::Semaphore, file.name(member)?))],
        Event::SemWait => vec![Op::SemWait(cx.resources.get(Kind::Semaphore, file.name(member)?))],
        Event::Send => {
            let fields = file.fields(member, &["ref", "bytes"])?;
            let channel = fields.need(file, member, "ref")?;
            let bytes = fields.need(file, member, "bytes")?;
            let channel = cx.resources.channel(file, channel.node.at, file.name(channel)?)?;
            let bytes = file.int(bytes, " bytes", 1..=INT_MAX)?;
            vec![Op::Send { channel, bytes }]
        }
        Event::Recv => {
            let channel = cx.resources.channel(file, member.node.at, file.name(member)?)?;
            vec![Op::Recv(channel)]
        }
        Event::Poll => {
            let channel = cx.resources.channel(file, member.node.at, file.name(member)?)?;
            vec![Op::Poll(channel)]
        }
        Event::Begin => match file.string(member)? {
            "" => vec![Op::Begin { arrival: false }],
            "arrival" => vec![Op::Begin { arrival: true }],
            other => {
                return Err(file
                    .error(member.node.at, format!("\"{other}\" is not the beginning of a request"))
                    .hint("use \"\" for the current time, or \"arrival\" for the creation of the task"));
            }
        },
        Event::Done => vec![Op::Done {
            count: file.int(member, " operations", 1..=INT_MAX)?,
        }],
    })
}
