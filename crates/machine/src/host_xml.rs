// SPDX-License-Identifier: GPL-2.0-only
//! Converts the host's topology into hwloc XML, which machine files accept and `lstopo -i FILE`
//! displays. The XML does not contain the names of the host and of its kernel.

use crate::bitmap::Bitmap;
use crate::host::{Host, Part};
use crate::parts::ObjectKind;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

impl Host {
    /// Returns the host's topology as hwloc XML.
    pub(crate) fn xml(&self) -> String {
        let online: Bitmap = self.cpus.iter().map(|cpu| cpu.os_index).collect();
        let part = |kind, cpus| Part { kind, cpus, bytes: 0 };
        let mut parts = vec![part(ObjectKind::Machine, online.clone())];
        for cpu in &self.cpus {
            parts.extend(cpu.parts.iter().cloned());
            parts.push(part(ObjectKind::Pu, Bitmap::single(cpu.os_index)));
        }
        // In the XML, a NUMA node is a child of the part that has the same CPUs. If there is no
        // such part, a group with these CPUs is added.
        let mut nodes: BTreeMap<Bitmap, Vec<u32>> = BTreeMap::new();
        for (&node, (cpus, _)) in self.nodes.iter().filter(|(_, (cpus, _))| !cpus.is_empty()) {
            if parts.iter().all(|part| part.cpus != *cpus) {
                parts.push(part(ObjectKind::Group, cpus.clone()));
            }
            nodes.entry(cpus.clone()).or_default().push(node);
        }
        // Parts precede the smaller parts that they contain. Parts with the same CPUs are ordered
        // package, caches by descending level, core.
        let level = |kind| if let ObjectKind::Cache(level) = kind { level } else { 0 };
        let kind = |kind| {
            if let ObjectKind::Cache(_) = kind {
                ObjectKind::Cache(0)
            } else {
                kind
            }
        };
        parts.sort_by_key(|part| {
            let size = (Reverse(part.cpus.len()), part.cpus.first());
            (size, kind(part.kind), Reverse(level(part.kind)))
        });
        parts.dedup();
        let mut writer = Writer {
            host: self,
            nodes,
            next_index: 1,
            out: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
                  <topology version=\"2.0\">\n"
                .into(),
        };
        writer.parts(parts, 1);
        writer.distances();
        writer.kinds();
        writer.out + "</topology>\n"
    }
}

/// Writer of the XML.
struct Writer<'a> {
    host: &'a Host,
    /// NUMA nodes that have not been written yet, by their CPUs.
    nodes: BTreeMap<Bitmap, Vec<u32>>,
    next_index: u32,
    out: String,
}

impl Writer<'_> {
    /// Writes parts, each followed by the parts that it contains. `parts` is ordered by size,
    /// largest first.
    fn parts(&mut self, mut parts: Vec<Part>, depth: usize) {
        let mut outermost: Vec<(Part, Vec<Part>)> = Vec::new();
        while !parts.is_empty() {
            let outer = parts.remove(0);
            let (inner, rest) = parts.into_iter().partition(|part| part.cpus.is_within(&outer.cpus));
            parts = rest;
            outermost.push((outer, inner));
        }
        outermost.sort_by_key(|(outer, _)| outer.cpus.first());
        for (outer, inner) in outermost {
            self.part(&outer, depth);
            self.parts(inner, depth + 1);
            let _ = writeln!(self.out, "{:1$}</object>", "", 2 * depth);
        }
    }

    fn part(&mut self, part: &Part, depth: usize) {
        let cache = |level: u8| {
            format!(
                " cache_size=\"{}\" depth=\"{level}\" cache_linesize=\"64\" cache_associativity=\"0\" cache_type=\"0\"",
                part.bytes
            )
        };
        let first = part.cpus.first().unwrap_or(0);
        let (name, more) = match part.kind {
            ObjectKind::Cache(level) => (format!("L{level}Cache"), cache(level)),
            ObjectKind::Pu => ("PU".into(), format!(" os_index=\"{first}\"")),
            kind => (format!("{kind:?}"), String::new()),
        };
        let mut complete = part.cpus.clone();
        if part.kind == ObjectKind::Machine {
            complete.insert_all(&self.host.offline);
        }
        self.object(&name, &part.cpus, &complete, None, &more, depth);
        self.out.push_str(">\n");
        let model = self.host.model.as_ref().filter(|_| part.kind == ObjectKind::Package);
        if let Some(model) = model {
            let _ = writeln!(
                self.out,
                "{:2$}<info name=\"CPUModel\" value=\"{}\"/>",
                "",
                escape(model),
                2 * depth + 2
            );
        }
        for node in self.nodes.remove(&part.cpus).unwrap_or_default() {
            let index = format!(" os_index=\"{node}\"");
            self.object("NUMANode", &part.cpus, &complete, Some(node), &index, depth + 1);
            self.out.push_str("/>\n");
        }
    }

    /// Writes a start tag without its closing bracket.
    fn object(&mut self, name: &str, cpus: &Bitmap, complete: &Bitmap, node: Option<u32>, more: &str, depth: usize) {
        let near = self
            .host
            .nodes
            .iter()
            .filter(|(_, (node_cpus, _))| node_cpus.intersects(cpus));
        let nodes: Bitmap = match node {
            Some(node) => Bitmap::single(node),
            None => near.map(|(&node, _)| node).collect(),
        };
        let _ = write!(
            self.out,
            "{:1$}<object type=\"{name}\" cpuset=\"{cpus}\" complete_cpuset=\"{complete}\" nodeset=\"{nodes}\" \
             complete_nodeset=\"{nodes}\" gp_index=\"{2}\"{more}",
            "",
            2 * depth,
            self.next_index
        );
        self.next_index += 1;
    }

    fn distances(&mut self) {
        let distances = self.host.distances();
        let n = distances.nodes.len();
        if n < 2 || distances.values.len() != n * n {
            return;
        }
        let list = |name: &str, numbers: Vec<u64>| {
            let numbers: String = numbers.iter().map(|n| format!("{n} ")).collect();
            format!("    <{name} length=\"{}\">{numbers}</{name}>\n", numbers.len())
        };
        let indexes = list("indexes", distances.nodes.iter().map(|&node| node.into()).collect());
        let values = list("u64values", distances.values);
        let _ = write!(
            self.out,
            "  <distances2 type=\"NUMANode\" nbobjs=\"{n}\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n\
             {indexes}{values}  </distances2>\n"
        );
    }

    /// Writes the groups of CPUs with equal speed.
    fn kinds(&mut self) {
        let mut kinds: BTreeMap<&Speed, Vec<u32>> = BTreeMap::new();
        for cpu in &self.host.cpus {
            kinds.entry(&cpu.speed).or_default().push(cpu.os_index);
        }
        for (speed, cpus) in kinds {
            let capacity = speed.capacity.map(|n| ("LinuxCapacity", n.to_string()));
            let core_type = speed.core_type.clone().map(|name| ("CoreType", name));
            let max_mhz = speed.max_mhz.map(|n| ("FrequencyMaxMHz", n.to_string()));
            let _ = writeln!(self.out, "  <cpukind cpuset=\"{}\">", Bitmap::from_iter(cpus));
            for (name, value) in [capacity, core_type, max_mhz].into_iter().flatten() {
                let _ = writeln!(self.out, "    <info name=\"{name}\" value=\"{value}\"/>");
            }
            self.out.push_str("  </cpukind>\n");
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
