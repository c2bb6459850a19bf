// SPDX-License-Identifier: GPL-2.0-only
//! What a trace file says about its run before the first record.

use crate::encode::{Bytes, DecodeError, put_text, put_varint};

/// Where a CPU sits. Numbers are equal for CPUs that share the thing; what else they mean is the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub core: u32,
    pub llc: u32,
    pub node: u32,
}

/// The nearest thing that two CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    Core,
    Llc,
    Node,
    /// They are on different NUMA nodes.
    Machine,
}

impl Shared {
    /// From near to far.
    pub const ALL: [Shared; 4] = [Shared::Core, Shared::Llc, Shared::Node, Shared::Machine];
}

impl Place {
    #[inline]
    pub fn shared(self, other: Place) -> Shared {
        if self.node != other.node {
            Shared::Machine
        } else if self.llc != other.llc {
            Shared::Node
        } else if self.core != other.core {
            Shared::Llc
        } else {
            Shared::Core
        }
    }
}

/// The run that a trace is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub machine: String,
    /// One per CPU, by CPU number.
    pub cpus: Vec<Place>,
    pub workload: String,
    pub policy: String,
    pub seed: u64,
    /// Scheduler ticks per second.
    pub hz: u32,
    /// What `Event::Callback::op` indexes.
    pub ops: Vec<String>,
    /// What `Event::LockWait::lock` indexes; may be shorter than the locks of the run.
    pub locks: Vec<String>,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for text in [&self.machine, &self.workload, &self.policy] {
            put_text(text, &mut out);
        }
        put_varint(self.seed, &mut out);
        put_varint(u64::from(self.hz), &mut out);
        put_varint(self.cpus.len() as u64, &mut out);
        for place in &self.cpus {
            for number in [place.core, place.llc, place.node] {
                put_varint(u64::from(number), &mut out);
            }
        }
        for names in [&self.ops, &self.locks] {
            put_varint(names.len() as u64, &mut out);
            names.iter().for_each(|name| put_text(name, &mut out));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, DecodeError> {
        let mut from = Bytes { bytes, at: 0 };
        let mut header = Header {
            machine: from.text()?.to_owned(),
            workload: from.text()?.to_owned(),
            policy: from.text()?.to_owned(),
            seed: from.varint()?,
            hz: from.u32()?,
            ..Header::default()
        };
        // Counts are not trusted: lists grow item by item, and every item takes at least a byte.
        for _ in 0..from.varint()? {
            header.cpus.push(Place {
                core: from.u32()?,
                llc: from.u32()?,
                node: from.u32()?,
            });
        }
        for names in [&mut header.ops, &mut header.locks] {
            for _ in 0..from.varint()? {
                names.push(from.text()?.to_owned());
            }
        }
        if !from.is_empty() {
            return Err(DecodeError {
                at: from.at,
                what: "the header goes on after its last item",
            });
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_cuts_are_errors() {
        let header = Header {
            machine: "numa16".into(),
            cpus: (0..16)
                .map(|i| Place {
                    core: i,
                    llc: i / 4,
                    node: i / 8,
                })
                .collect(),
            workload: "closed".into(),
            policy: "scx_simple".into(),
            seed: u64::MAX,
            hz: 1000,
            ops: vec!["enqueue".into(), "dispatch".into()],
            locks: vec!["rq".into()],
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).as_ref(), Ok(&header));
        for end in 0..bytes.len() {
            assert!(Header::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Header::decode(&longer).unwrap_err().at, bytes.len());
    }
}
