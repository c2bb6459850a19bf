// SPDX-License-Identifier: GPL-2.0-only
//! Records a profile: the settings that the program makes until it has attached its scheduler and
//! waits for the first time, so that a run of the object alone starts as the program did.
//!
//! The program writes globals and arenas through shared memory. To tell its writes from those of BPF
//! programs, the memory is read before and after each BPF program that it runs.

mod pages;
mod text;

use std::collections::BTreeMap;

use crate::bpf::Map;
use crate::program::Program;
use crate::report::RecordedProfile;
use ::bpf::map::kind;
use pages::Pages;

/// Shared memory that the profile describes as globals or as values of a map.
struct Tracked {
    /// Number of the map.
    map: usize,
    /// Name of the section of globals, or `None` for a map of the object.
    section: Option<String>,
    /// The contents without the stores of BPF programs.
    user: Pages,
    /// The contents when they were read last.
    last: Pages,
}

/// An arena.
struct Arena {
    map: usize,
    last: Pages,
}

/// A BPF program of type syscall that the program has run.
struct Run {
    name: String,
    context: Vec<u8>,
    /// Words of arenas that the program has stored afterwards, with their addresses.
    memory: BTreeMap<u64, u64>,
    /// Whether the scheduler was already attached.
    after: bool,
}

/// The settings that were recorded so far.
#[derive(Default)]
pub(crate) struct Recording {
    tracked: Vec<Tracked>,
    arenas: Vec<Arena>,
    /// Values of map elements by map name, key and CPU.
    elements: BTreeMap<(String, Vec<u8>, u32), Vec<u8>>,
    runs: Vec<Run>,
    /// The map of type STRUCT_OPS that the program has attached, and the pid of the thread that did so.
    attached: Option<(usize, u32)>,
    /// Settings that a profile cannot contain.
    missing: Vec<String>,
}

impl Program {
    /// Begins to record, when the object has been linked. `sections` has the names of the sections of
    /// globals, with the numbers of their maps.
    pub(crate) fn record_start(&mut self, sections: &[(String, usize)]) {
        if !self.settings.record {
            return;
        }
        let mut recording = Recording::default();
        for (at, map) in self.bpf.maps.iter().enumerate() {
            let section = sections.iter().find(|section| section.1 == at);
            match map.kind {
                kind::ARENA if map.linked.is_some() => recording.arenas.push(Arena {
                    map: at,
                    last: Pages::default(),
                }),
                kind::ARRAY if map.shared.is_some() && (section.is_some() || map.linked.is_some()) => {
                    recording.tracked.push(Tracked {
                        map: at,
                        section: section.map(|section| section.0.clone()),
                        user: Pages::default(),
                        last: Pages::default(),
                    });
                }
                _ => {}
            }
        }
        self.recording = Some(recording);
        self.record_stores();
    }

    /// Records what the program has stored since the last call of this function or of
    /// [`Program::record_run`].
    pub(crate) fn record_stores(&mut self) {
        let Some(mut recording) = self.recording.take_if(|recording| recording.attached.is_none()) else {
            return;
        };
        for tracked in &mut recording.tracked {
            let now = self.pages(tracked.map);
            tracked.user.copy_changes(&tracked.last, &now);
            tracked.last = now;
        }
        for arena in &mut recording.arenas {
            let now = self.pages(arena.map);
            let base = self.bpf.maps[arena.map].arena_address.unwrap_or(0);
            let words = now.changed_words(&arena.last);
            match recording.runs.last_mut() {
                Some(run) => run.memory.extend(words.iter().map(|&(at, word)| (base + at, word))),
                None if !words.is_empty() => recording.missing.push("values in the arena".into()),
                None => {}
            }
            arena.last = now;
        }
        self.recording = Some(recording);
    }

    /// Records a BPF program that the program has run with these arguments, and its result.
    pub(crate) fn record_run(&mut self, name: &str, context: &[u8], result: i32) {
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        let after = recording.attached.is_some();
        match result {
            0 => recording.runs.push(Run {
                name: name.to_owned(),
                context: context.to_vec(),
                memory: BTreeMap::new(),
                after,
            }),
            _ => recording
                .missing
                .push(format!("the effects of the program {name}, which returned {result}")),
        }
        if !after {
            for tracked in &mut recording.tracked {
                tracked.last = self.pages(tracked.map);
            }
            for arena in &mut recording.arenas {
                arena.last = self.pages(arena.map);
            }
        }
        self.recording = Some(recording);
    }

    /// Records the new value of an element of a map. `cpu` is 0 unless the map has a value for each
    /// CPU.
    pub(crate) fn record_element(&mut self, at: usize, key: &[u8], cpu: u32, value: &[u8]) {
        let map = &self.bpf.maps[at];
        let (Some(recording), Some(name)) = (&mut self.recording, &map.linked) else {
            return;
        };
        match map.kind {
            kind::QUEUE | kind::STACK | kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS => {
                recording.missing.push(format!("the elements of {name}"));
            }
            _ => {
                let element = (name.clone(), key.to_vec(), cpu);
                recording.elements.insert(element, value.to_vec());
            }
        }
    }

    /// Removes an element that the program has deleted.
    pub(crate) fn record_delete(&mut self, at: usize, key: &[u8]) {
        let name = &self.bpf.maps[at].linked;
        if let (Some(recording), Some(name)) = (&mut self.recording, name) {
            recording
                .elements
                .retain(|element, _| !(element.0 == *name && element.1 == key));
        }
    }

    /// Records that the thread `pid` attaches the scheduler in a map of type STRUCT_OPS. Afterwards,
    /// BPF programs run all the time, so the stores of the program are not known any more.
    pub(crate) fn record_attach(&mut self, map: usize, pid: u32) {
        self.record_stores();
        if let Some(recording) = &mut self.recording {
            recording.attached = Some((map, pid));
        }
    }

    /// Ends the recording when the thread that has attached the scheduler waits, and adds the profile
    /// to the report.
    pub(crate) fn record_wait(&mut self, m: &kernel::Machine, pid: u32) {
        let by = |recording: &Recording| recording.attached.filter(|attached| attached.1 == pid);
        let Some((map, _)) = self.recording.as_ref().and_then(by) else {
            return;
        };
        let Some(recording) = self.recording.take() else { return };
        let profile = text::profile(self, m, &recording, map);
        let object = self.bpf.object_bytes();
        let recorded = profile.and_then(|profile| {
            Ok(RecordedProfile {
                profile,
                object: object?,
            })
        });
        self.report.borrow_mut().recorded = Some(recorded);
    }

    /// Reads the shared memory of a map.
    fn pages(&self, at: usize) -> Pages {
        let map: &Map = &self.bpf.maps[at];
        match map.shared {
            Some(offset) => Pages::read(&self.shared_file, offset, map.shared_bytes),
            None => Pages::default(),
        }
    }
}
