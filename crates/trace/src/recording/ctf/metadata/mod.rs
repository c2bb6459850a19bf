// SPDX-License-Identifier: GPL-2.0-only
//! Parses the metadata of a CTF trace: the text that describes its streams and events.
//!
//! ```text
//! typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
//! trace { byte_order = le; packet.header := struct { uint32_t magic; ... }; };
//! stream { id = 0; event.header := struct ...; packet.context := struct ...; };
//! event { name = "sched_switch"; id = 3; stream_id = 0; fields := struct { ... }; };
//! ```

mod declarations;
mod tokens;
mod types;

use super::super::damage::Damage;
use super::super::input::Order;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokens::Parser;

/// Magic number of metadata that are divided into packets.
const PACKETS: u64 = 0x75d1_1d57;
/// Size of the header of a packet of metadata.
const PACKET_HEADER: usize = 37;

/// A type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Integer(Integer),
    Float {
        size: u64,
        align: u64,
    },
    Text,
    Enum {
        integer: Integer,
        /// Labels with their first and last values.
        labels: Vec<(String, i64, i64)>,
    },
    Struct {
        fields: Vec<(String, Rc<Type>)>,
        align: u64,
    },
    Variant {
        /// The field with the label of the chosen field.
        tag: String,
        fields: Vec<(String, Rc<Type>)>,
    },
    Array(Rc<Type>, u64),
    /// An array whose length is the value of a field.
    Sequence(Rc<Type>, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Size and alignment in bits.
    pub size: u64,
    pub align: u64,
    pub signed: bool,
    /// `None` is the byte order of the trace.
    pub order: Option<Order>,
    /// Whether the value is a character of a text.
    pub character: bool,
    /// Whether the value is a time.
    pub time: bool,
}

/// Description of a stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub event_header: Option<Rc<Type>>,
    pub packet_context: Option<Rc<Type>>,
    pub event_context: Option<Rc<Type>>,
    pub events: BTreeMap<u64, Event>,
}

/// Description of an event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub name: String,
    pub context: Option<Rc<Type>>,
    pub fields: Option<Rc<Type>>,
}

/// The metadata.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub order: Order,
    pub packet_header: Option<Rc<Type>>,
    pub streams: BTreeMap<u64, Stream>,
    /// Texts that describe the environment, such as the tracer's name.
    pub env: BTreeMap<String, String>,
    /// Frequency of the clock in Hz.
    pub frequency: u64,
}

/// Returns the text of a metadata file, which may consist of packets.
///
/// # Errors
/// A packet is damaged.
pub fn text(bytes: &[u8]) -> Result<String, Damage> {
    let order = match (Order::Little.get::<4>(bytes, 0), Order::Big.get::<4>(bytes, 0)) {
        (Some(PACKETS), _) => Order::Little,
        (_, Some(PACKETS)) => Order::Big,
        _ => return Ok(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut text = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let damaged = || "a packet of the metadata is damaged".to_owned();
        let size = |at| {
            let bits = order.get::<4>(rest, at)?;
            usize::try_from(bits / 8).ok()
        };
        let (content, packet) = (size(24).ok_or_else(damaged)?, size(28).ok_or_else(damaged)?);
        text.extend(rest.get(PACKET_HEADER..content).ok_or_else(damaged)?);
        rest = rest.get(packet.max(PACKET_HEADER)..).ok_or_else(damaged)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the text.
///
/// # Errors
/// The text does not follow the grammar, or uses a type that is not defined.
pub fn parse(text: &str) -> Result<Metadata, Damage> {
    let mut parser = Parser::new(text)?;
    let mut metadata = Metadata {
        frequency: 1_000_000_000,
        ..Metadata::default()
    };
    while !parser.is_at_end() {
        parser.declaration(&mut metadata)?;
    }
    Ok(metadata)
}

/// Returns the alignment of a type in bits.
pub fn alignment(of: &Type) -> u64 {
    match of {
        Type::Integer(integer) | Type::Enum { integer, .. } => integer.align,
        Type::Float { align, .. } | Type::Struct { align, .. } => *align,
        Type::Text => 8,
        Type::Variant { .. } => 1,
        Type::Array(element, _) | Type::Sequence(element, _) => alignment(element),
    }
}
