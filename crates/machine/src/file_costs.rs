// SPDX-License-Identifier: GPL-2.0-only
//! The section `[costs]` of a machine file.

use crate::costs::{CONSTANTS, Costs, Slot};
use crate::message::{CHANNELS, MessageCosts, source_name};
use input::{Error, Source, suggest};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// Hint for files of earlier releases, in which one constant was the cost of every message.
const MESSAGE_HINT: &str = "the cost of a message depends on the kind of channel: write [costs.channel] and \
                            pipe = { send_ns = 300, recv_ns = 300, byte_ps = 100, source = \"...\" }";

/// A cost in nanoseconds with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ns<T> {
    pub ns: T,
    pub source: Spanned<String>,
}

/// A cost in picoseconds with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ps {
    ps: u32,
    source: Spanned<String>,
}

/// A rate in MB/s with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MbPerS {
    mb_per_s: u32,
    source: Spanned<String>,
}

/// A row of the section `[costs.channel]` with its source.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "expected { send_ns = 300, recv_ns = 300, byte_ps = 100, source = \"...\" }"
)]
struct Row {
    send_ns: u32,
    recv_ns: u32,
    #[serde(default)]
    byte_ps: u32,
    #[serde(default)]
    alloc_ns: u32,
    #[serde(default)]
    free_ns: u32,
    #[serde(default)]
    cached: u32,
    source: Spanned<String>,
}

/// The cost table with the values of the file, and the sources of these values (the measurement,
/// document or assumption from which each comes).
#[derive(Default)]
pub(crate) struct WrittenCosts {
    pub costs: Costs,
    pub sources: BTreeMap<String, Spanned<String>>,
    pub unknown: Option<Unknown>,
}

/// An unknown key, and the keys that would be valid there.
pub(crate) struct Unknown {
    key: Spanned<String>,
    possible: Vec<&'static str>,
}

impl Unknown {
    pub fn error(&self, source: &Source) -> Error {
        let key = self.key.get_ref();
        let hint = match key.as_str() {
            "message" => MESSAGE_HINT.to_owned(),
            key => suggest::hint(key, &self.possible),
        };
        source
            .error(self.key.span().start, format!("unknown key '{key}'"))
            .hint(hint)
    }
}

impl WrittenCosts {
    /// Stores a constant with the accessor in [`CONSTANTS`].
    fn set_constant<'de, A: MapAccess<'de>>(&mut self, key: Spanned<String>, map: &mut A) -> Result<(), A::Error> {
        let name = key.get_ref().as_str();
        let source = match CONSTANTS.iter().find(|constant| constant.name == name).map(|c| &c.slot) {
            Some(Slot::Ps(slot)) => {
                let Ps { ps, source } = map.next_value()?;
                *slot(&mut self.costs) = ps;
                source
            }
            Some(Slot::Ns(slot)) => {
                let Ns { ns, source } = map.next_value()?;
                *slot(&mut self.costs) = ns;
                source
            }
            Some(Slot::MbPerS(slot)) => {
                let MbPerS { mb_per_s, source } = map.next_value()?;
                *slot(&mut self.costs) = mb_per_s;
                source
            }
            Some(Slot::ByDistance(slot)) => {
                let Ns { ns, source } = map.next_value()?;
                *slot(&mut self.costs) = ns;
                source
            }
            None => {
                map.next_value::<IgnoredAny>()?;
                self.unknown.get_or_insert_with(|| Unknown {
                    key,
                    possible: CONSTANTS.iter().map(|c| c.name).chain(["channel", "kfuncs"]).collect(),
                });
                return Ok(());
            }
        };
        self.sources.insert(key.into_inner(), source);
        Ok(())
    }

    /// Stores a row of `[costs.channel]` with the accessor in [`CHANNELS`].
    fn set_channel(&mut self, key: Spanned<String>, row: Row) {
        let Some(kind) = CHANNELS.iter().find(|kind| kind.name == key.get_ref()) else {
            self.unknown.get_or_insert_with(|| Unknown {
                key,
                possible: CHANNELS.iter().map(|kind| kind.name).collect(),
            });
            return;
        };
        *(kind.row)(&mut self.costs) = MessageCosts {
            send_ns: row.send_ns,
            recv_ns: row.recv_ns,
            byte_ps: row.byte_ps,
            alloc_ns: row.alloc_ns,
            free_ns: row.free_ns,
            cached: row.cached,
        };
        self.sources.insert(source_name(kind), row.source);
    }
}

impl<'de> Deserialize<'de> for WrittenCosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenCosts, D::Error> {
        struct CostsVisitor;

        impl<'de> Visitor<'de> for CostsVisitor {
            type Value = WrittenCosts;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table of costs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenCosts, A::Error> {
                let mut written = WrittenCosts::default();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    match key.get_ref().as_str() {
                        "channel" => {
                            for (kind, row) in map.next_value::<Rows>()?.0 {
                                written.set_channel(kind, row);
                            }
                        }
                        "kfuncs" => {
                            for (kfunc, Ns { ns, source }) in map.next_value::<BTreeMap<String, Ns<u32>>>()? {
                                written.sources.insert(format!("kfuncs.{kfunc}"), source);
                                written.costs.kfuncs.insert(kfunc, ns);
                            }
                        }
                        _ => written.set_constant(key, &mut map)?,
                    }
                }
                Ok(written)
            }
        }

        deserializer.deserialize_map(CostsVisitor)
    }
}

/// The rows of `[costs.channel]` with the positions of their names.
struct Rows(Vec<(Spanned<String>, Row)>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rows, D::Error> {
        struct RowsVisitor;

        impl<'de> Visitor<'de> for RowsVisitor {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table of channels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rows, A::Error> {
                let mut rows = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    rows.push(entry);
                }
                Ok(Rows(rows))
            }
        }

        deserializer.deserialize_map(RowsVisitor)
    }
}
