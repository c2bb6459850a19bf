// SPDX-License-Identifier: GPL-2.0-only
//! Builds hwloc XML (version 2) for tests from a tree of objects.

use std::cell::Cell;
use std::fmt::Write;

/// An object of hwloc. Its CPU set is the union of the sets of its children.
pub struct Tree {
    kind: &'static str,
    os_index: Option<u32>,
    /// Further attributes, each with a space before it.
    attributes: String,
    infos: Vec<(&'static str, String)>,
    children: Vec<Tree>,
}

pub fn object(kind: &'static str, children: Vec<Tree>) -> Tree {
    Tree {
        kind,
        os_index: None,
        attributes: String::new(),
        infos: Vec::new(),
        children,
    }
}

pub fn group(children: Vec<Tree>) -> Tree {
    let mut group = object("Group", children);
    group.attributes = " kind=\"0\" subkind=\"0\"".into();
    group
}

/// A data or unified cache.
pub fn cache(level: u32, mib: u64, children: Vec<Tree>) -> Tree {
    let kind = ["L1Cache", "L2Cache", "L3Cache"][level as usize - 1];
    let mut cache = object(kind, children);
    cache.attributes = format!(" cache_size=\"{}\" depth=\"{level}\" cache_type=\"0\"", mib << 20);
    cache
}

pub fn node(os_index: u32) -> Tree {
    let mut node = object("NUMANode", Vec::new());
    node.os_index = Some(os_index);
    node.attributes = " local_memory=\"1073741824\"".into();
    node
}

/// A core with the hardware threads `cpus`.
pub fn core(cpus: &[u32]) -> Tree {
    object("Core", cpus.iter().map(|&cpu| pu(cpu)).collect())
}

pub fn pu(cpu: u32) -> Tree {
    let mut pu = object("PU", Vec::new());
    pu.os_index = Some(cpu);
    pu
}

/// Cores of one thread each.
pub fn cores(cpus: std::ops::Range<u32>) -> Vec<Tree> {
    cpus.map(|cpu| core(&[cpu])).collect()
}

impl Tree {
    pub fn info(mut self, name: &'static str, value: &str) -> Tree {
        self.infos.push((name, value.to_owned()));
        self
    }

    pub fn and(mut self, children: Vec<Tree>) -> Tree {
        self.children.extend(children);
        self
    }

    fn cpus(&self) -> u64 {
        let own = match self.kind {
            "PU" => 1 << self.os_index.unwrap(),
            _ => 0,
        };
        self.children.iter().fold(own, |cpus, child| cpus | child.cpus())
    }

    fn nodes(&self) -> u64 {
        let own = match self.kind {
            "NUMANode" => 1 << self.os_index.unwrap(),
            _ => 0,
        };
        self.children.iter().fold(own, |nodes, child| nodes | child.nodes())
    }

    fn write(&self, out: &mut String, parent: (u64, u64), next: &Cell<u32>, offline: u64) {
        let index = next.replace(next.get() + 1);
        let special = matches!(self.kind, "Misc" | "Bridge" | "PCIDev" | "OSDev");
        let memory = matches!(self.kind, "NUMANode" | "MemCache");
        let (cpus, nodes) = match (memory, self.nodes()) {
            (true, nodes) => (parent.0, nodes),
            (false, 0) => (self.cpus(), parent.1),
            (false, nodes) => (self.cpus(), nodes),
        };
        let _ = write!(out, "<object type=\"{}\" gp_index=\"{index}\"", self.kind);
        if let Some(os_index) = self.os_index {
            let _ = write!(out, " os_index=\"{os_index}\"");
        }
        if !special {
            let _ = write!(
                out,
                " cpuset=\"{}\" complete_cpuset=\"{}\" nodeset=\"{}\" complete_nodeset=\"{}\"",
                set(cpus & !offline),
                set(cpus),
                set(nodes),
                set(nodes)
            );
        }
        if self.kind == "Machine" {
            let _ = write!(
                out,
                " allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"",
                set(cpus & !offline),
                set(nodes)
            );
        }
        let _ = writeln!(out, "{}>", self.attributes);
        for (name, value) in &self.infos {
            let _ = writeln!(out, "<info name=\"{name}\" value=\"{value}\"/>");
        }
        for child in &self.children {
            child.write(out, (cpus, nodes), next, offline);
        }
        out.push_str("</object>\n");
    }
}

/// Formats a set in hwloc's notation.
pub fn set(bits: u64) -> String {
    match bits >> 32 {
        0 => format!("0x{bits:08x}"),
        high => format!("0x{high:08x},0x{:08x}", bits & 0xffff_ffff),
    }
}

/// A kind of CPUs: the CPUs, the forced efficiency, and other properties.
pub type CpuKind<'a> = (std::ops::Range<u32>, Option<u32>, &'a [(&'a str, &'a str)]);

/// Returns the XML of a machine that contains `children`, with kinds of CPUs.
pub fn xml(children: Vec<Tree>, kinds: &[CpuKind]) -> String {
    xml_with_offline(children, kinds, 0)
}

pub fn xml_with_offline(children: Vec<Tree>, kinds: &[CpuKind], offline: u64) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
                   <topology version=\"2.0\">\n"
        .to_owned();
    object("Machine", children).write(&mut out, (0, 0), &Cell::new(1), offline);
    for (cpus, efficiency, infos) in kinds {
        let bits = cpus.clone().fold(0, |bits, cpu| bits | 1 << cpu);
        let efficiency = efficiency.map_or(String::new(), |n| format!(" forced_efficiency=\"{n}\""));
        let _ = writeln!(out, "<cpukind cpuset=\"{}\"{efficiency}>", set(bits));
        for (name, value) in *infos {
            let _ = writeln!(out, "<info name=\"{name}\" value=\"{value}\"/>");
        }
        out.push_str("</cpukind>\n");
    }
    out + "</topology>\n"
}
