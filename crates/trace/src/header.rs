// SPDX-License-Identifier: GPL-2.0-only
//! The header of a trace file, which describes the run.

use crate::encode::{Bytes, DecodeError, put_text, put_varint};

/// Position of a CPU in the machine, as numbers of its core, LLC and node. Two CPUs are in the same
/// core, LLC or node if their numbers are equal. The numbers have no other meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPosition {
    pub core: u32,
    pub llc: u32,
    pub node: u32,
}

/// The smallest part of the machine that contains two given CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    Core,
    Llc,
    Node,
    /// The CPUs are on different NUMA nodes.
    Machine,
}

impl Shared {
    /// All values, from the smallest part of the machine to the largest.
    pub const ALL: [Shared; 4] = [Shared::Core, Shared::Llc, Shared::Node, Shared::Machine];
}

impl CpuPosition {
    /// Returns the smallest part of the machine that contains both this CPU and another one.
    #[inline]
    pub fn shared(self, other: CpuPosition) -> Shared {
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

/// Description of the run that a trace records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub machine: String,
    /// Position of each CPU, by CPU number.
    pub cpus: Vec<CpuPosition>,
    pub workload: String,
    pub policy: String,
    pub seed: u64,
    /// Scheduler ticks per second.
    pub hz: u32,
    /// Names of the callbacks. `op` of [`Event::Callback`](crate::Event::Callback) is an index into
    /// this list.
    pub ops: Vec<String>,
    /// Names of the locks, by lock number. Locks that first appear during the run are missing.
    /// Their names are in [`Event::LockName`](crate::Event::LockName) records.
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
        for position in &self.cpus {
            for number in [position.core, position.llc, position.node] {
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
        // In a damaged file, a count may be wrong, so no memory is reserved for the items in
        // advance. Every item takes at least one byte, so the loop ends at the latest at the end of
        // the bytes.
        for _ in 0..from.varint()? {
            header.cpus.push(CpuPosition {
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
                problem: "there are bytes after the last item of the header",
            });
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_decoded_unchanged_and_refused_if_cut() {
        let header = Header {
            machine: "numa16".into(),
            cpus: (0..16)
                .map(|i| CpuPosition {
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
            assert!(
                Header::decode(&bytes[..end]).is_err(),
                "a header that is cut at byte {end} is accepted"
            );
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Header::decode(&longer).unwrap_err().at, bytes.len());
    }
}
