// SPDX-License-Identifier: GPL-2.0-only
//! The resources that tasks refer to by name. As in rt-app, resources of different kinds may have
//! the same name.

use super::file::{File, INT_MAX};
use super::json::Member;
use crate::program::{Channel, Resource, ResourceId};
use input::{Error, Position, suggest};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    Mutex,
    Wait,
    Barrier,
    Semaphore,
    Channel,
}

/// Types in the section "resources". rt-app creates its own resources at their first use, so
/// declaring them is optional. Pipes and sockets are an extension and must be declared.
const TYPES: &[&str] = &[
    "mutex",
    "wait",
    "barrier",
    "timer",
    "mem",
    "iorun",
    "semaphore",
    "pipe",
    "socket",
    "datagram",
    "tcp",
    "eventfd",
];

/// Types that rt-app accepts although no event uses such resources.
const WITHOUT_EFFECT: &[&str] = &["signal", "broadcast", "sync", "sleep", "run"];

/// Capacity of a pipe: 16 pages (fs/pipe.c).
const PIPE_CAPACITY: u64 = 65_536;

/// All resources of a file.
#[derive(Default)]
pub struct Resources {
    pub list: Vec<Resource>,
    by_name: BTreeMap<(ResourceKind, String), ResourceId>,
    pi_enabled: bool,
}

impl Resources {
    pub fn new(pi_enabled: bool) -> Resources {
        Resources {
            pi_enabled,
            ..Resources::default()
        }
    }

    /// Returns the resource with a kind and name, and creates it if it is missing.
    pub fn get(&mut self, kind: ResourceKind, name: &str) -> ResourceId {
        let next = input::index(self.list.len());
        let id = *self.by_name.entry((kind, name.into())).or_insert(next);
        if id == next {
            let name = name.to_string();
            self.list.push(match kind {
                ResourceKind::Mutex => Resource::Mutex {
                    name,
                    priority_inheritance: self.pi_enabled,
                },
                ResourceKind::Wait => Resource::Cond { name },
                ResourceKind::Barrier => Resource::Barrier { name, participants: 0 },
                ResourceKind::Semaphore => Resource::Semaphore { name, value: 0 },
                ResourceKind::Channel => Resource::Channel {
                    name,
                    capacity: PIPE_CAPACITY,
                    kind: Channel::Pipe,
                },
            });
        }
        id
    }

    /// Returns a channel, which must have been declared.
    pub fn channel(&self, file: File, at: Position, name: &str) -> Result<ResourceId, Error> {
        if let Some(id) = self.by_name.get(&(ResourceKind::Channel, name.into())) {
            return Ok(*id);
        }
        let channels = self.by_name.keys().filter(|(kind, _)| *kind == ResourceKind::Channel);
        let names: Vec<&str> = channels.map(|(_, name)| name.as_str()).collect();
        let declare = format!("declare it: \"resources\": {{ \"{name}\": {{ \"type\": \"pipe\" }} }}");
        let hint = match input::suggest::nearest(name, names) {
            Some(near) => format!("did you mean \"{near}\"? Otherwise {declare}"),
            None => declare,
        };
        Err(file
            .error(at, format!("there is no pipe or socket \"{name}\""))
            .hint(hint))
    }

    /// Adds `tasks` participants to a barrier.
    pub fn join_barrier(&mut self, id: ResourceId, tasks: u32) {
        if let Some(Resource::Barrier { participants, .. }) = self.list.get_mut(id as usize) {
            *participants = participants.saturating_add(tasks);
        }
    }

    /// Reads the section "resources".
    pub fn declare(&mut self, file: File, section: &Member) -> Result<(), Error> {
        let mut seen = Vec::new();
        for member in file.object(section)? {
            file.once(&mut seen, member)?;
            let fields = file.fields(member, &["type", "capacity", "value", "target"])?;
            if let Some(target) = fields.get("target") {
                return Err(file
                    .error(
                        target.at,
                        "\"target\" belongs to the format before rt-app 1.0; rt-app 1.0 and later ignore it",
                    )
                    .hint("remove it; signal, broad and sync name the condition"));
            }
            let kind = fields.need(file, member, "type")?;
            let kind_name = file.string(kind)?;
            let only = |key: &str, kinds: &[&str]| match fields.get(key) {
                Some(field) if !kinds.contains(&kind_name) => Err(file
                    .error(field.at, format!("a {kind_name} has no \"{key}\""))
                    .hint(format!("only these types can have it: {}", kinds.join(", ")))),
                field => Ok(field),
            };
            let capacity = only("capacity", &Channel::NAMES.map(|(name, _)| name))?;
            let value = only("value", &["semaphore"])?;
            match kind_name {
                "mutex" => drop(self.get(ResourceKind::Mutex, &member.key)),
                "wait" => drop(self.get(ResourceKind::Wait, &member.key)),
                // These resources are created at their first use. A barrier's participants are the
                // tasks that use it.
                "barrier" | "timer" | "mem" | "iorun" => {}
                name if WITHOUT_EFFECT.contains(&name) => {}
                "semaphore" => {
                    let start = value.map_or(Ok(0), |value| file.int(value, "", 0..=INT_MAX))?;
                    let id = self.get(ResourceKind::Semaphore, &member.key);
                    if let Resource::Semaphore { value, .. } = &mut self.list[id as usize] {
                        *value = start;
                    }
                }
                other => {
                    let Some(channel_kind) = Channel::named(other) else {
                        return Err(file
                            .error(kind.node.at, format!("there is no resource type \"{other}\""))
                            .hint(suggest::hint(other, TYPES)));
                    };
                    let bytes = capacity.map_or(Ok(PIPE_CAPACITY), |bytes| file.int(bytes, " bytes", 1..=INT_MAX))?;
                    let id = self.get(ResourceKind::Channel, &member.key);
                    if let Resource::Channel { capacity, kind, .. } = &mut self.list[id as usize] {
                        (*capacity, *kind) = (bytes, channel_kind);
                    }
                }
            }
        }
        Ok(())
    }
}
