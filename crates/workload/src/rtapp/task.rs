// SPDX-License-Identifier: GPL-2.0-only
//! The "tasks" section: task and phase objects, before they become programs.

use super::event::{self, Event};
use super::file::{File, INT_MAX};
use super::json::Member;
use super::sched::{self, Sched};
use input::{Error, Position, suggest};

/// More tasks than any machine here is asked to hold.
const MAX_TASKS: i64 = 200_000;

pub struct Task<'n> {
    pub at: Position,
    pub name: &'n str,
    pub instances: u32,
    pub delay_ns: u64,
    /// How often all phases are gone through; `None`: for ever.
    pub rounds: Option<u64>,
    /// Bytes; `None`: what its `mem` events write.
    pub footprint: Option<u64>,
    pub phases: Vec<Phase<'n>>,
    pub set: Settings<'n>,
}

pub struct Phase<'n> {
    pub at: Position,
    pub rounds: Option<u64>,
    pub events: Vec<(Event, &'n Member)>,
    pub set: Settings<'n>,
}

/// What a task has from its start and a phase from its own.
#[derive(Default)]
pub struct Settings<'n> {
    pub cpus: Option<Vec<u32>>,
    pub sched: Sched<'n>,
    pub taskgroup: Option<&'n Member>,
}

const TASK_KEYS: &[&str] = &["instance", "delay", "loop", "footprint", "phases"];
const PHASE_KEYS: &[&str] = &["loop"];
const SETTINGS_KEYS: &[&str] = &["cpus", "taskgroup", "nodes_membind"];

/// The periodic tasks of rt-app before 1.0.
const OLD_KEYS: &[&str] = &["exec", "period", "deadline", "lock_order", "resources"];

pub fn read<'n>(file: File, section: &'n Member) -> Result<Vec<Task<'n>>, Error> {
    let mut tasks = Vec::new();
    let mut total = 0;
    for member in file.object(section)? {
        let task = task(file, member)?;
        total += i64::from(task.instances);
        if total > MAX_TASKS {
            return Err(file
                .error(member.at, format!("{total} tasks are too many"))
                .hint(format!("at most {MAX_TASKS} in all")));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(file.error(section.at, "no tasks").hint("\"tasks\" needs at least one"));
    }
    Ok(tasks)
}

fn task<'n>(file: File, of: &'n Member) -> Result<Task<'n>, Error> {
    let mut task = Task {
        at: of.at,
        name: &of.key,
        instances: 1,
        delay_ns: 0,
        rounds: None,
        footprint: None,
        phases: Vec::new(),
        set: Settings::default(),
    };
    let mut seen = Vec::new();
    let mut events = Vec::new();
    for member in file.object(of)? {
        let key = member.key.as_str();
        if !TASK_KEYS.contains(&key) {
            match setting_or_event(file, of, member, TASK_KEYS, &mut seen, &mut task.set)? {
                Some(event) => events.push((event, member)),
                None => continue,
            }
            continue;
        }
        file.once(&mut seen, member)?;
        match key {
            "instance" => task.instances = file.int(member, " tasks", 0..=MAX_TASKS)? as u32,
            // rt-app takes a negative delay for none.
            "delay" => {
                let delay = file.int(member, " us", -INT_MAX..=INT_MAX)?;
                task.delay_ns = delay.max(0) as u64 * 1000;
            }
            "loop" => task.rounds = file.rounds(member)?,
            "footprint" => task.footprint = Some(file.int(member, " bytes", 0..=INT_MAX)? as u64),
            _ => task.phases = phases(file, member)?,
        }
    }
    if let Some((_, first)) = events.first()
        && !task.phases.is_empty()
    {
        return Err(file
            .error(first.at, format!("event \"{}\" beside \"phases\"", first.key))
            .hint("move it into a phase: rt-app would never do it"));
    }
    if task.phases.is_empty() {
        if events.is_empty() {
            return Err(nothing_to_do(file, of));
        }
        task.phases.push(Phase {
            at: of.at,
            rounds: Some(1),
            events,
            set: Settings::default(),
        });
    }
    Ok(task)
}

fn phases<'n>(file: File, section: &'n Member) -> Result<Vec<Phase<'n>>, Error> {
    let mut phases = Vec::new();
    for of in file.object(section)? {
        let mut phase = Phase {
            at: of.at,
            rounds: Some(1),
            events: Vec::new(),
            set: Settings::default(),
        };
        let mut seen = Vec::new();
        for member in file.object(of)? {
            if member.key == "loop" {
                file.once(&mut seen, member)?;
                phase.rounds = file.rounds(member)?;
            } else if let Some(event) = setting_or_event(file, of, member, PHASE_KEYS, &mut seen, &mut phase.set)? {
                phase.events.push((event, member));
            }
        }
        if phase.events.is_empty() {
            return Err(nothing_to_do(file, of));
        }
        phases.push(phase);
    }
    if phases.is_empty() {
        return Err(file
            .error(section.at, "no phases")
            .hint("\"phases\" needs at least one"));
    }
    Ok(phases)
}

fn nothing_to_do(file: File, of: &Member) -> Error {
    file.error(of.at, format!("\"{}\" has no events", of.key))
        .hint("give it something to do, such as \"run\" and \"sleep\"")
}

fn setting_or_event<'n>(
    file: File,
    of: &Member,
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
                    .hint(format!("it has to start with '/': \"/{path}\"")));
            }
            set.taskgroup = Some(member).filter(|_| !path.is_empty());
        }
        "nodes_membind" => {
            return Err(file
                .error(member.at, "\"nodes_membind\": binding of memory is not modelled")
                .hint("leave it out; \"cpus\" binds to the CPUs of a node"));
        }
        _ if sched::KEYS.contains(&key) => sched::read(file, member, &mut set.sched)?,
        _ if OLD_KEYS.contains(&key) => {
            return Err(file
                .error(
                    member.at,
                    format!("\"{key}\" is from before rt-app 1.0, which ignores it"),
                )
                .hint("write events: \"run\", \"lock\", \"unlock\" and \"timer\" with a \"period\""));
        }
        _ => {
            if let Some(event) = event::of(key) {
                return Ok(Some(event));
            }
            let mut known: Vec<&str> = own_keys.to_vec();
            known.extend(SETTINGS_KEYS);
            known.extend(sched::KEYS);
            known.extend(event::names());
            return Err(file
                .error(member.at, format!("unknown key \"{key}\" in \"{}\"", of.key))
                .hint(suggest::hint(key, &known)));
        }
    }
    Ok(None)
}
