// SPDX-License-Identifier: GPL-2.0-only
//! The section "tasks": task and phase objects before their conversion into programs.

use super::event::{self, Event};
use super::file::{File, INT_MAX};
use super::json::Member;
use super::sched::{self, Sched};
use crate::check::WHY_MAX_TASKS;
use input::{Error, Position, suggest};

/// Maximum number of tasks in a file: [`crate::check::MAX_TASKS`] as an i64, the type of numbers in
/// the JSON parser.
const MAX_TASKS: i64 = crate::check::MAX_TASKS.cast_signed() as i64;

/// A task object.
pub struct Task<'n> {
    pub at: Position,
    pub name: &'n str,
    pub instances: u32,
    pub delay_ns: u64,
    /// Number of rounds through all phases; `None` is endless.
    pub rounds: Option<u64>,
    /// Working set in bytes. `None` means the number of bytes that `mem` events write.
    pub footprint: Option<u64>,
    /// Rate in MB/s at which the task touches its working set. `None` means the rate of the
    /// machine.
    pub touch: Option<u32>,
    /// Name of the task's process. `None` means the process of all tasks without this key.
    pub process: Option<&'n Member>,
    /// Name of the parent task.
    pub parent: Option<&'n Member>,
    pub uid: Option<u32>,
    pub kthread: bool,
    /// Timer slack in ns.
    pub slack_ns: Option<u64>,
    pub phases: Vec<Phase<'n>>,
    pub set: Settings<'n>,
}

/// A phase object.
pub struct Phase<'n> {
    pub at: Position,
    pub rounds: Option<u64>,
    pub events: Vec<(Event, &'n Member)>,
    pub set: Settings<'n>,
}

/// Settings that take effect at the start of a task or phase.
#[derive(Default)]
pub struct Settings<'n> {
    pub cpus: Option<Vec<u32>>,
    pub sched: Sched<'n>,
    pub taskgroup: Option<&'n Member>,
}

/// Highest rate at which a task can touch its working set: 1 TB/s.
const MAX_TOUCH: i64 = 1_000_000;

/// Highest user id; 4294967295 means "no user".
const MAX_UID: i64 = u32::MAX as i64 - 1;

const TASK_KEYS: &[&str] = &[
    "instance",
    "delay",
    "loop",
    "footprint",
    "touch",
    "process",
    "parent",
    "uid",
    "kthread",
    "slack",
    "phases",
];
const PHASE_KEYS: &[&str] = &["loop"];
const SETTINGS_KEYS: &[&str] = &["cpus", "taskgroup", "nodes_membind"];

/// Keys of the periodic tasks in rt-app's format before 1.0.
const OLD_KEYS: &[&str] = &["exec", "lock_order", "resources"];
/// Such keys that still exist: old names of dl-period and dl-deadline, for tasks only.
const OLD_SCHED_KEYS: &[&str] = &["period", "deadline"];

pub fn read<'n>(file: File, section: &'n Member) -> Result<Vec<Task<'n>>, Error> {
    let mut tasks = Vec::new();
    let mut total = 0;
    for member in file.object(section)? {
        let task = task(file, member)?;
        total += i64::from(task.instances);
        if total > MAX_TASKS {
            return Err(file
                .error(member.at, format!("{total} tasks are too many"))
                .hint(format!("use at most {MAX_TASKS} tasks in total: {WHY_MAX_TASKS}")));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(file
            .error(section.at, "\"tasks\" is empty")
            .hint("add at least one task"));
    }
    Ok(tasks)
}

fn task<'n>(file: File, parent: &'n Member) -> Result<Task<'n>, Error> {
    let mut task = Task {
        at: parent.at,
        name: &parent.key,
        instances: 1,
        delay_ns: 0,
        rounds: None,
        footprint: None,
        touch: None,
        process: None,
        parent: None,
        uid: None,
        kthread: false,
        slack_ns: None,
        phases: Vec::new(),
        set: Settings::default(),
    };
    let mut seen = Vec::new();
    let mut events = Vec::new();
    let mut old = None;
    for member in file.object(parent)? {
        let key = member.key.as_str();
        if OLD_SCHED_KEYS.contains(&key) {
            file.once(&mut seen, member)?;
            file.int::<i64>(member, " us", 0..=INT_MAX)?;
            old = Some(member);
            continue;
        }
        if !TASK_KEYS.contains(&key) {
            match setting_or_event(file, parent, member, TASK_KEYS, &mut seen, &mut task.set)? {
                Some(event) => events.push((event, member)),
                None => continue,
            }
            continue;
        }
        file.once(&mut seen, member)?;
        match key {
            "instance" => task.instances = file.int(member, " tasks", 0..=MAX_TASKS)?,
            // A negative delay is 0, as in rt-app.
            "delay" => {
                let delay: i64 = file.int(member, " us", -INT_MAX..=INT_MAX)?;
                task.delay_ns = u64::try_from(delay).unwrap_or(0) * 1000;
            }
            "loop" => task.rounds = file.rounds(member)?,
            "touch" => task.touch = Some(file.int(member, " MB/s", 0..=MAX_TOUCH)?),
            "footprint" => task.footprint = Some(file.int(member, " bytes", 0..=INT_MAX)?),
            "process" => {
                file.name(member)?;
                task.process = Some(member);
            }
            "parent" => {
                file.name(member)?;
                task.parent = Some(member);
            }
            "uid" => task.uid = Some(file.int(member, "", 0..=MAX_UID)?),
            "kthread" => task.kthread = file.bool(member)?,
            "slack" => task.slack_ns = Some(file.usec(member)?),
            _ => task.phases = phases(file, member)?,
        }
    }
    if let Some(process) = task.process
        && task.kthread
    {
        return Err(file
            .error(process.at, "a kernel thread is a process of its own")
            .hint("remove \"process\" or \"kthread\""));
    }
    if let Some((_, first)) = events.first()
        && !task.phases.is_empty()
    {
        return Err(file
            .error(first.at, format!("event \"{}\" is outside of \"phases\"", first.key))
            .hint("move it into a phase, because rt-app would ignore it"));
    }
    if task.phases.is_empty() {
        if events.is_empty() {
            return Err(old.map_or_else(|| nothing_to_do(file, parent), |key| old_format(file, key)));
        }
        task.phases.push(Phase {
            at: parent.at,
            rounds: Some(1),
            events,
            set: Settings::default(),
        });
    }
    Ok(task)
}

fn phases<'n>(file: File, section: &'n Member) -> Result<Vec<Phase<'n>>, Error> {
    let mut phases = Vec::new();
    for parent in file.object(section)? {
        let mut phase = Phase {
            at: parent.at,
            rounds: Some(1),
            events: Vec::new(),
            set: Settings::default(),
        };
        let mut seen = Vec::new();
        for member in file.object(parent)? {
            if member.key == "loop" {
                file.once(&mut seen, member)?;
                phase.rounds = file.rounds(member)?;
            } else if let Some(event) = setting_or_event(file, parent, member, PHASE_KEYS, &mut seen, &mut phase.set)? {
                phase.events.push((event, member));
            }
        }
        if phase.events.is_empty() {
            return Err(nothing_to_do(file, parent));
        }
        phases.push(phase);
    }
    if phases.is_empty() {
        return Err(file
            .error(section.at, "\"phases\" is empty")
            .hint("add at least one phase"));
    }
    Ok(phases)
}

fn nothing_to_do(file: File, parent: &Member) -> Error {
    file.error(parent.at, format!("\"{}\" has no events", parent.key))
        .hint("add events such as \"run\" and \"sleep\"")
}

fn old_format(file: File, member: &Member) -> Error {
    let message = format!(
        "\"{}\" belongs to the format before rt-app 1.0, which ignores it",
        member.key
    );
    file.error(member.at, message)
        .hint("use events: \"run\", \"lock\", \"unlock\" and \"timer\" with a \"period\"")
}

/// Reads a member of a task or phase. If it is a setting, stores it and returns `None`. If it is an
/// event, returns the event.
fn setting_or_event<'n>(
    file: File,
    parent: &Member,
    member: &'n Member,
    own_keys: &[&'static str],
    seen: &mut Vec<&'n Member>,
    set: &mut Settings<'n>,
) -> Result<Option<Event>, Error> {
    let key = member.key.as_str();
    if SETTINGS_KEYS.contains(&key) || sched::KEYS.contains(&key) {
        file.once(seen, member)?;
    }
    match key {
        "cpus" => set.cpus = Some(file.cpus(member)?),
        "taskgroup" => {
            let path = file.string(member)?;
            if !path.is_empty() && !path.starts_with('/') {
                return Err(file
                    .error(member.node.at, format!("taskgroup \"{path}\" is not a path"))
                    .hint(format!("start it with '/': \"/{path}\"")));
            }
            set.taskgroup = Some(member).filter(|_| !path.is_empty());
        }
        "nodes_membind" => {
            return Err(file
                .error(member.at, "\"nodes_membind\": memory binding is not modelled")
                .hint("remove it; \"cpus\" can bind the task to the CPUs of a node"));
        }
        _ if sched::KEYS.contains(&key) => sched::read(file, member, &mut set.sched)?,
        _ if OLD_KEYS.contains(&key) => {
            return Err(old_format(file, member));
        }
        _ => {
            if let Some(event) = event::find(key) {
                event::check(file, member)?;
                return Ok(Some(event));
            }
            let mut known: Vec<&str> = own_keys.to_vec();
            known.extend(SETTINGS_KEYS);
            known.extend(sched::KEYS);
            known.extend(event::names());
            return Err(file
                .error(member.at, format!("unknown key \"{key}\" in \"{}\"", parent.key))
                .hint(format!("{}; rt-app would ignore the key", suggest::hint(key, &known))));
        }
    }
    Ok(None)
}
