// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a machine file that describe its topology: `topology`, `[[cpus]]`, `[[kind]]` and
//! `distances`.

use super::{File, Written};
use crate::parts::Found;
use crate::topology::{Cpu, Topology};
use crate::{MAX_CPUS, synthetic, xml};
use input::{Error, Source, cpu_list, size};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::Path;
use toml::Spanned;

pub(super) type Matrix = Spanned<Vec<Spanned<Vec<Spanned<u32>>>>>;

pub(super) enum WrittenTopology {
    Synthetic(String),
    Xml(TopologyFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyFile {
    xml: Option<String>,
    inline: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    cores: Spanned<u32>,
    threads: Option<Spanned<u32>>,
    capacity: Option<Spanned<u32>>,
    pub(super) priority: Option<Spanned<u32>>,
    package: Option<Spanned<u32>>,
    node: Option<Spanned<u32>>,
    llc: Option<Spanned<u32>>,
    l1d: Option<Spanned<size::Text>>,
    l2: Option<Spanned<size::Text>>,
    llc_size: Option<Spanned<size::Text>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuKind {
    cpus: Spanned<String>,
    capacity: Option<Spanned<u32>>,
    pub(super) priority: Option<Spanned<u32>>,
}

impl File<'_> {
    /// Reads the topology: an hwloc string, `{ xml = "FILE" }` or `{ inline = "XML" }`.
    pub(super) fn topology(&self, value: &Spanned<WrittenTopology>, dir: Option<&Path>) -> Result<Found, Error> {
        let at = value.span().start;
        let location = |at: usize| {
            let position = self.source.position(at);
            format!("{}:{}:{}", self.source.place, position.line, position.column)
        };
        let file = match value.get_ref() {
            WrittenTopology::Synthetic(text) => {
                let location = location(at);
                return synthetic::parse(&location, text)?.number(&location);
            }
            WrittenTopology::Xml(file) => file,
        };
        let path = match (&file.xml, &file.inline) {
            (Some(_), Some(_)) => return Err(self.source.error(at, "the topology has both xml and inline")),
            (None, None) => return Err(self.source.error(at, "the topology has neither xml nor inline")),
            (None, Some(text)) => {
                let location = format!("{} (inline)", location(text.span().start));
                return xml::parse(&location, text.get_ref())?.number(&location);
            }
            (Some(path), None) => path,
        };
        let Some(dir) = dir else {
            return Err(self.source.error(at, "a built-in machine cannot refer to a file"));
        };
        let file = Source::read(&dir.join(path), xml::MAX_BYTES);
        let file = file.map_err(|error| self.source.error(at, error.to_string()))?;
        xml::parse(&file.place, &file.text)?.number(&file.place)
    }

    /// Builds a topology from `[[cpus]]` groups.
    pub(super) fn groups(
        &self,
        groups: &Spanned<Vec<Spanned<Group>>>,
        priorities: &mut Vec<Option<u32>>,
    ) -> Result<Found, Error> {
        let mut cpus = Vec::new();
        let mut cores = 0;
        let mut labels = Labels::default();
        for (number, spanned) in groups.get_ref().iter().enumerate() {
            let group = spanned.get_ref();
            let label = 0..=MAX_CPUS - 1;
            let bytes = |key: &str, value: &Option<Spanned<size::Text>>| {
                value.as_ref().map_or(Ok(0), |value| self.bytes(key, value))
            };
            let group_cores = self.number("cores", &group.cores, 1..=MAX_CPUS)?;
            let threads = self.optional("threads", &group.threads, 1..=8, 1)?;
            // A group without the key `llc` gets an LLC of its own. Its label is higher than any
            // label that a file can contain.
            let llc = self.optional("llc", &group.llc, label.clone(), MAX_CPUS + input::index(number))?;
            let package = self.optional("package", &group.package, label.clone(), 0)?;
            let llc_at = group.llc.as_ref().map_or(spanned.span(), |llc| llc.span()).start;
            let cpu = Cpu {
                core: 0,
                thread: 0,
                llc: labels
                    .llc(llc, package)
                    .ok_or_else(|| self.source.error(llc_at, format!("llc {llc} is in two packages")))?,
                node: labels.node(self.optional("node", &group.node, label, 0)?),
                package: labels.package(package),
                capacity: self.optional("capacity", &group.capacity, 1..=1024, 1024)?,
                l1d_bytes: bytes("l1d", &group.l1d)?,
                l2_bytes: bytes("l2", &group.l2)?,
                llc_bytes: bytes("llc_size", &group.llc_size)?,
            };
            if cpus.len() as u64 + u64::from(group_cores) * u64::from(threads) > u64::from(MAX_CPUS) {
                let message =
                    format!("the machine has more than {MAX_CPUS} CPUs, the maximum of Linux on x86 (NR_CPUS)");
                return Err(self.source.error(group.cores.span().start, message));
            }
            let priority = self.priority(&group.priority)?;
            for _ in 0..group_cores {
                priorities.extend((0..threads).map(|_| priority));
                cpus.extend((0..threads).map(|thread| Cpu {
                    core: cores,
                    thread,
                    ..cpu.clone()
                }));
                cores += 1;
            }
        }
        if cpus.is_empty() {
            return Err(self.source.error(groups.span().start, "there is no [[cpus]] group"));
        }
        Ok(Found {
            topology: Topology::new(cpus, Vec::new()),
            notes: Vec::new(),
            speed_notes: Vec::new(),
            model: None,
        })
    }

    fn priority(&self, priority: &Option<Spanned<u32>>) -> Result<Option<u32>, Error> {
        let number = priority
            .as_ref()
            .map(|value| self.number("priority", value, 1..=65_535));
        number.transpose()
    }

    /// Returns the priority of each CPU. Either all CPUs have a priority or none has one.
    pub(super) fn priorities(&self, found: &[Option<u32>], written: &Written) -> Result<Vec<u32>, Error> {
        if found.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        if let Some(cpu) = found.iter().position(Option::is_none) {
            let kinds = written.kind.iter().filter(|kind| kind.get_ref().priority.is_some());
            let groups = written.cpus.iter().flat_map(|groups| groups.get_ref());
            let groups = groups.filter(|group| group.get_ref().priority.is_some());
            let first = kinds.map(Spanned::span).chain(groups.map(Spanned::span)).next();
            let error = self.source.error(
                first.map_or(0, |span| span.start),
                format!("CPU {cpu} has no priority, but other CPUs have one"),
            );
            return Err(error.hint("add the key priority to all [[cpus]] or [[kind]] entries"));
        }
        Ok(found.iter().copied().flatten().collect())
    }

    /// Applies the `[[kind]]` entries.
    pub(super) fn kinds(
        &self,
        kinds: &[Spanned<CpuKind>],
        found: &mut Found,
        priorities: &mut Vec<Option<u32>>,
    ) -> Result<(), Error> {
        let mut given = vec![false; found.topology.cpus.len()];
        for kind in kinds {
            for cpu in self.kind(kind.get_ref(), &mut found.topology, priorities)? {
                given[cpu as usize] = true;
            }
        }
        // If the file gives the capacities of all slower CPUs, no estimate is left.
        let is_known = |(cpu, given): (&Cpu, &bool)| cpu.capacity == 1024 || *given;
        if given.contains(&true) && found.topology.cpus.iter().zip(&given).all(is_known) {
            found.speed_notes.clear();
        }
        Ok(())
    }

    /// Sets the capacity and the priority of the CPUs of a `[[kind]]`. Returns the CPUs whose
    /// capacity is set.
    fn kind(
        &self,
        kind: &CpuKind,
        topology: &mut Topology,
        priorities: &mut Vec<Option<u32>>,
    ) -> Result<Vec<u32>, Error> {
        let capacity = kind
            .capacity
            .as_ref()
            .map(|value| self.number("capacity", value, 1..=1024));
        let capacity = capacity.transpose()?;
        let priority = self.priority(&kind.priority)?;
        if capacity.is_none() && priority.is_none() {
            let error = self.source.error(kind.cpus.span().start, "the [[kind]] sets nothing");
            return Err(error.hint("add capacity or priority"));
        }
        priorities.resize(topology.cpus.len(), None);
        let cpus = cpu_list::parse(kind.cpus.get_ref(), topology.nr_cpus()).map_err(|message| {
            let error = self.source.error(kind.cpus.span().start, message);
            error.hint(cpu_list::EXAMPLE)
        })?;
        for &cpu in &cpus {
            if let Some(capacity) = capacity {
                topology.cpus[cpu as usize].capacity = capacity;
            }
            if priority.is_some() {
                priorities[cpu as usize] = priority;
            }
        }
        Ok(if capacity.is_some() { cpus } else { Vec::new() })
    }

    /// Reads the matrix of node distances.
    pub(super) fn distances(&self, rows: &Matrix, nodes: usize) -> Result<Vec<Vec<u32>>, Error> {
        let shape = |at: usize, values: usize| {
            self.source
                .error(
                    at,
                    format!("found {values} distances, but the machine has {nodes} nodes"),
                )
                .hint("write a square matrix with one row per node: distances = [[10, 20], [20, 10]]")
        };
        let mut matrix = Vec::with_capacity(nodes);
        for (from, row) in rows.get_ref().iter().enumerate() {
            if row.get_ref().len() != nodes {
                return Err(shape(row.span().start, row.get_ref().len()));
            }
            let mut out = Vec::with_capacity(nodes);
            for (to, value) in row.get_ref().iter().enumerate() {
                let distance = self.number("a distance", value, 10..=255)?;
                if (from == to) != (distance == 10) {
                    let message = format!("the distance from node {from} to node {to} is {distance}");
                    return Err(self
                        .source
                        .error(value.span().start, message)
                        .hint("use 10 for a node's distance to itself, and more for all others (ACPI SLIT)"));
                }
                out.push(distance);
            }
            matrix.push(out);
        }
        if matrix.len() != nodes {
            return Err(shape(rows.span().start, matrix.len()));
        }
        Ok(matrix)
    }
}

/// Maps the labels (numbers) in a file to ids 0, 1, 2, ... in the order of their first use.
#[derive(Default)]
struct Labels {
    llcs: Vec<(u32, u32)>,
    nodes: Vec<u32>,
    packages: Vec<u32>,
}

impl Labels {
    /// Returns the id of a label, and adds the label if it is new.
    fn dense<T: PartialEq>(known: &mut Vec<T>, label: T) -> u32 {
        let id = known.iter().position(|k| *k == label).unwrap_or(known.len());
        if id == known.len() {
            known.push(label);
        }
        input::index(id)
    }

    /// Returns the id of an LLC, or `None` if its label was used in another package.
    fn llc(&mut self, label: u32, package: u32) -> Option<u32> {
        if self.llcs.iter().any(|&(l, p)| l == label && p != package) {
            return None;
        }
        Some(Labels::dense(&mut self.llcs, (label, package)))
    }

    fn node(&mut self, label: u32) -> u32 {
        Labels::dense(&mut self.nodes, label)
    }

    fn package(&mut self, label: u32) -> u32 {
        Labels::dense(&mut self.packages, label)
    }
}

impl<'de> Deserialize<'de> for WrittenTopology {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenTopology, D::Error> {
        struct TopologyVisitor;

        impl<'de> Visitor<'de> for TopologyVisitor {
            type Value = WrittenTopology;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an hwloc synthetic string or a table with xml or inline")
            }

            fn visit_str<E>(self, text: &str) -> Result<WrittenTopology, E> {
                Ok(WrittenTopology::Synthetic(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenTopology, A::Error> {
                TopologyFile::deserialize(MapAccessDeserializer::new(map)).map(WrittenTopology::Xml)
            }
        }

        deserializer.deserialize_any(TopologyVisitor)
    }
}
