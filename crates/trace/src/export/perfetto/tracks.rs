// SPDX-License-Identifier: GPL-2.0-only
//! Tracks that the exporter adds to the scheduler's events: counters, slices and instants.

use super::proto::{
    CounterDescriptor, Data, DebugAnnotation, EXPLICIT, Interned, InternedData, SEQ_INCREMENTAL_STATE_CLEARED,
    SEQ_NEEDS_INCREMENTAL_STATE, TYPE_COUNTER, TYPE_INSTANT, TYPE_SLICE_BEGIN, TYPE_SLICE_END, TracePacket,
    TrackDescriptor, TrackEvent,
};
use std::collections::HashMap;

/// A track, identified by its uuid. The uuids are 1, 2, 3 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track(u64);

impl Track {
    /// Returns the index of the track's counter in `Tracks::counters`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "uuids count up from 1, so memory bounds them"
    )]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of a counter track.
#[derive(Clone, Copy, Default)]
struct Counter {
    /// Current value.
    value: i64,
    /// Value in the last event that was emitted.
    emitted: Option<i64>,
    /// Whether the counter is in `Tracks::changed`.
    is_pending: bool,
}

/// All tracks of a trace. Finished packets are collected in `packets`, from which the writer
/// removes them.
#[derive(Default)]
pub(super) struct Tracks {
    /// Packets to write.
    pub packets: Vec<TracePacket>,
    /// State of the counters, indexed by uuid. Entries of other tracks are unused.
    counters: Vec<Counter>,
    /// Counters whose value changed at `time` and was not emitted yet.
    changed: Vec<Track>,
    time: u64,
    names: HashMap<String, u64>,
    arguments: HashMap<&'static str, u64>,
}

fn packet(time: Option<u64>, data: Data) -> TracePacket {
    TracePacket {
        timestamp: time,
        data: Some(data),
        trusted_packet_sequence_id: super::SEQUENCE,
        ..TracePacket::default()
    }
}

impl Tracks {
    /// Adds the first packet of the sequence. It tells readers to forget the names that earlier
    /// packets have interned.
    pub fn begin(&mut self, data: Data) {
        let sequence_flags = SEQ_INCREMENTAL_STATE_CLEARED;
        self.packets.push(TracePacket {
            sequence_flags,
            ..packet(None, data)
        });
    }

    /// Adds a packet.
    pub fn packet(&mut self, time: u64, data: Data) {
        self.packets.push(packet(Some(time), data));
    }

    /// Creates a track and adds the packet that describes it.
    fn describe(&mut self, descriptor: TrackDescriptor) -> Track {
        self.counters.resize(self.counters.len().max(1), Counter::default());
        let uuid = self.counters.len() as u64;
        self.counters.push(Counter::default());
        let descriptor = TrackDescriptor { uuid, ..descriptor };
        self.packets.push(packet(None, Data::TrackDescriptor(descriptor)));
        Track(uuid)
    }

    /// Creates a track that contains other tracks.
    pub fn group(&mut self, name: &str, description: &str) -> Track {
        self.describe(TrackDescriptor {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })
    }

    /// Creates a track of slices or instants. `rank` is its position within the group.
    pub fn slices(&mut self, group: Track, name: String, rank: u32) -> Track {
        self.describe(TrackDescriptor {
            name,
            parent_uuid: Some(group.0),
            sibling_order_rank: Some(rank.cast_signed()),
            ..TrackDescriptor::default()
        })
    }

    /// Creates a counter track. `rank` is its position within the group.
    pub fn counter(&mut self, group: Track, name: String, unit: &str, rank: u32) -> Track {
        self.describe(TrackDescriptor {
            name,
            parent_uuid: Some(group.0),
            counter: Some(CounterDescriptor {
                unit: 0,
                unit_name: unit.to_owned(),
            }),
            sibling_order_rank: Some(rank.cast_signed()),
            ..TrackDescriptor::default()
        })
    }

    /// Sets the value of a counter from `time` on. If the counter is set several times at the same
    /// time, only the last value is emitted.
    pub fn set(&mut self, time: u64, track: Track, value: i64) {
        if time != self.time {
            self.emit_changed_counters();
            self.time = time;
        }
        let counter = &mut self.counters[track.index()];
        counter.value = value;
        if !counter.is_pending && counter.emitted != Some(value) {
            counter.is_pending = true;
            self.changed.push(track);
        }
    }

    /// Adds to the value of a counter.
    pub fn add(&mut self, time: u64, track: Track, by: i64) {
        let value = self.counters[track.index()].value + by;
        self.set(time, track, value);
    }

    /// Emits the counters that changed at the current time.
    pub fn emit_changed_counters(&mut self) {
        for track in std::mem::take(&mut self.changed) {
            let counter = &mut self.counters[track.index()];
            counter.is_pending = false;
            if counter.emitted == Some(counter.value) {
                continue;
            }
            counter.emitted = Some(counter.value);
            let event = TrackEvent {
                r#type: TYPE_COUNTER,
                track_uuid: track.0,
                counter_value: Some(counter.value),
                ..TrackEvent::default()
            };
            self.packets.push(packet(Some(self.time), Data::TrackEvent(event)));
        }
    }

    /// Adds an event with at most one argument. The event's name is interned, so that it is stored
    /// only once.
    fn emit_named(&mut self, time: u64, track: Track, r#type: i32, name: &str, argument: Option<(&'static str, u64)>) {
        let mut interned = InternedData::default();
        let name_iid = match self.names.get(name) {
            Some(&iid) => iid,
            None => {
                let iid = self.names.len() as u64 + 1;
                self.names.insert(name.to_owned(), iid);
                let name = name.to_owned();
                interned.event_names.push(Interned { iid, name });
                iid
            }
        };
        let annotation = argument.map(|(name, value)| {
            let next = self.arguments.len() as u64 + 1;
            let iid = *self.arguments.entry(name).or_insert_with(|| {
                let name = name.to_owned();
                interned.debug_annotation_names.push(Interned { iid: next, name });
                next
            });
            DebugAnnotation {
                name_iid: Some(iid),
                uint_value: Some(value),
            }
        });
        let event = TrackEvent {
            r#type,
            track_uuid: track.0,
            name_iid: Some(name_iid),
            debug_annotations: annotation.into_iter().collect(),
            ..TrackEvent::default()
        };
        self.packets.push(TracePacket {
            interned_data: (interned != InternedData::default()).then_some(interned),
            sequence_flags: SEQ_NEEDS_INCREMENTAL_STATE,
            ..packet(Some(time), Data::TrackEvent(event))
        });
    }

    pub fn begin_slice(&mut self, time: u64, track: Track, name: &str, argument: Option<(&'static str, u64)>) {
        self.emit_named(time, track, TYPE_SLICE_BEGIN, name, argument);
    }

    pub fn end_slice(&mut self, time: u64, track: Track) {
        let event = TrackEvent {
            r#type: TYPE_SLICE_END,
            track_uuid: track.0,
            ..TrackEvent::default()
        };
        self.packets.push(packet(Some(time), Data::TrackEvent(event)));
    }

    pub fn instant(&mut self, time: u64, track: Track, name: &str, argument: Option<(&'static str, u64)>) {
        self.emit_named(time, track, TYPE_INSTANT, name, argument);
    }

    /// Adds an instant with a text that is not interned, because the text is unlikely to occur
    /// again.
    pub fn instant_with_text(&mut self, time: u64, track: Track, text: &str) {
        let event = TrackEvent {
            r#type: TYPE_INSTANT,
            track_uuid: track.0,
            name: Some(text.to_owned()),
            ..TrackEvent::default()
        };
        self.packets.push(packet(Some(time), Data::TrackEvent(event)));
    }
}
