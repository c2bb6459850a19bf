// SPDX-License-Identifier: GPL-2.0-only
//! The events of a phase.
//!
//! As in rt-app, a key is an event if it begins with the event's name, so `run0` and `run_heavy`
//! are both `run`. `suspend` and `resume` work as in rt-app: `suspend` waits for the condition that
//! has the name of its task (see [`Context::suspended`]), and `resume` broadcasts the condition that
//! its string names. Both do so under the mutex of the same name. A resume is lost if no task waits
//! for it.

use super::file::{File, INT_MAX};
use super::json::{Member, Value};
use super::resources::{ResourceKind, Resources};
use crate::program::{Dist, Op};
use input::{Error, Position, suggest};
use std::collections::BTreeSet;

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

/// Events of rt-app that are not modelled, and the modelled event with whose name they begin. Each
/// row has a description and a replacement.
const NOT_MODELLED: &[(&str, &str, &str)] = &[(
    "memrun",
    "reads, writes or pointer chases in a buffer",
    "use \"run\" with the time that the accesses take and the key \"footprint\" for the size of the buffer, or \"mem\" \
     with a number of bytes to write",
)];

pub fn find(key: &str) -> Option<Event> {
    row(key).map(|(_, event)| *event)
}

fn row(key: &str) -> Option<&'static (&'static str, Event)> {
    EVENTS.iter().find(|(name, _)| key.starts_with(name))
}

/// Refuses an event that is not modelled. `member` is the key, which begins with the name of an
/// event.
pub fn check(file: File, member: &Member) -> Result<(), Error> {
    let key = member.key.as_str();
    match NOT_MODELLED.iter().find(|(name, ..)| key.starts_with(name)) {
        Some((name, what, hint)) => Err(file
            .error(
                member.at,
                format!("the event \"{name}\" of rt-app ({what}) is not modelled"),
            )
            .hint(*hint)),
        None => Ok(()),
    }
}

/// Explains an error in the value of an event whose key is not the event's name, but only begins
/// with it. The key is probably the name of an event that does not exist: `memcpy` is not `mem`. A
/// key such as `mem1` or `mem_a` is a usual name of `mem`.
fn explain(file: File, member: &Member, error: Error) -> Error {
    let key = member.key.as_str();
    let Some((name, _)) = row(key) else { return error };
    if !key[name.len()..].starts_with(|c: char| c.is_ascii_lowercase()) {
        return error;
    }
    let others: Vec<&str> = names().filter(|other| other != name).collect();
    let hint = match suggest::nearest(key, others.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("known events: {}", names().collect::<Vec<_>>().join(", ")),
    };
    file.error(
        member.at,
        format!(
            "there is no event \"{key}\"; as \"{name}\", with whose name it begins, it is wrong: {}",
            error.message
        ),
    )
    .hint(hint)
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

/// Name of the resource of an event that names none, as in rt-app.
const UNNAMED: &str = "unknown";

/// Reads a timer event.
pub fn timer<'n>(file: File, member: &'n Member) -> Result<Timer<'n>, Error> {
    read_timer(file, member).map_err(|error| explain(file, member, error))
}

fn read_timer<'n>(file: File, member: &'n Member) -> Result<Timer<'n>, Error> {
    let fields = file.fields(member, &["ref", "period", "mode"])?;
    let name = fields.get("ref");
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
        name: name.map_or(Ok(UNNAMED), |name| file.string(name))?,
        at: name.unwrap_or(member).node.at,
        period_ns: fields.get("period").map_or(Ok(0), |period| file.usec(period))?,
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
    /// Names of all conditions that some task signals.
    pub signalled: &'a BTreeSet<&'a str>,
}

impl<'a> Context<'a> {
    /// Returns the name of the condition for which a `suspend` waits: the name of its task. Up to
    /// May 2025, rt-app used the string of the event. This still applies if no task resumes the
    /// task by its name, but some task resumes the string.
    fn suspended<'n>(&self, member: &'n Member) -> &'n str
    where
        'a: 'n,
    {
        match &member.node.value {
            Value::String(text) if !self.signalled.contains(self.task) && self.signalled.contains(text.as_str()) => {
                text
            }
            _ => self.task,
        }
    }
}

/// Returns the name of the condition that an event signals, if it signals one.
pub fn signals(event: Event, member: &Member) -> Option<&str> {
    match (event, &member.node.value) {
        (Event::Resume | Event::Signal | Event::Broad, Value::String(name)) => Some(name),
        (Event::Sync, Value::Object(fields)) => {
            let field = fields.iter().find(|field| field.key == "ref")?;
            match &field.node.value {
                Value::String(name) => Some(name),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the steps of one event.
pub fn ops(cx: &mut Context, event: Event, member: &Member) -> Result<Vec<Op>, Error> {
    let file = cx.file;
    read(cx, event, member).map_err(|error| explain(file, member, error))
}

fn read(cx: &mut Context, event: Event, member: &Member) -> Result<Vec<Op>, Error> {
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
        Event::Lock => vec![Op::Lock(cx.resources.get(ResourceKind::Mutex, file.string(member)?))],
        Event::Unlock => vec![Op::Unlock(cx.resources.get(ResourceKind::Mutex, file.string(member)?))],
        Event::Signal => vec![Op::Signal(cx.resources.get(ResourceKind::Wait, file.string(member)?))],
        Event::Broad => vec![Op::Broadcast(
            cx.resources.get(ResourceKind::Wait, file.string(member)?),
        )],
        Event::Wait | Event::Sync => {
            let fields = file.fields(member, &["ref", "mutex"])?;
            let name = |key: &str| fields.get(key).map_or(Ok(UNNAMED), |field| file.string(field));
            let (cond, mutex) = (name("ref")?, name("mutex")?);
            let cond = cx.resources.get(ResourceKind::Wait, cond);
            let mutex = cx.resources.get(ResourceKind::Mutex, mutex);
            if event == Event::Wait {
                vec![Op::CondWait { cond, mutex }]
            } else {
                vec![Op::Sync { cond, mutex }]
            }
        }
        Event::Barrier => {
            let id = cx.resources.get(ResourceKind::Barrier, file.string(member)?);
            cx.resources.join_barrier(id, cx.instances);
            vec![Op::Barrier(id)]
        }
        Event::Suspend | Event::Resume => {
            let name = match event {
                Event::Suspend => cx.suspended(member),
                _ => file.string(member)?,
            };
            let cond = cx.resources.get(ResourceKind::Wait, name);
            let mutex = cx.resources.get(ResourceKind::Mutex, name);
            let between = if event == Event::Suspend {
                Op::CondWait { cond, mutex }
            } else {
                Op::Broadcast(cond)
            };
            vec![Op::Lock(mutex), between, Op::Unlock(mutex)]
        }
        Event::Yield => vec![Op::Yield],
        Event::MigrateDisable | Event::MigrateEnable => {
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
                _ => Op::MigrateEnable,
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
        Event::SemPost => vec![Op::SemPost(
            cx.resources.get(ResourceKind::Semaphore, file.string(member)?),
        )],
        Event::SemWait => vec![Op::SemWait(
            cx.resources.get(ResourceKind::Semaphore, file.string(member)?),
        )],
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
