// SPDX-License-Identifier: GPL-2.0-only
//! The tree of objects: packages, caches, cores, CPUs and NUMA nodes.

use super::{Format, Reader, objects};
use crate::bitmap::{Bitmap, MAX_INDEX};
use crate::parts::{CpuParts, ObjectKind};
use input::Error;
use roxmltree::Node;

/// Maximum nesting of objects. Real machines, including their I/O trees, have fewer than 30 levels.
const MAX_DEPTH: usize = 100;

/// Class of an object. It determines which objects may contain the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Part(ObjectKind),
    /// A NUMA node of version 2, or a memory-side cache.
    Memory,
    /// An I/O device or an object added by the user. It has no CPU sets.
    Other,
}

/// Returns the class of a type that all versions have.
fn class(kind: &str) -> Option<Class> {
    Some(Class::Part(match kind {
        "Machine" => ObjectKind::Machine,
        "Group" | "Tile" | "Module" | "Cluster" => ObjectKind::Group,
        "Package" | "Socket" => ObjectKind::Package,
        "Die" => ObjectKind::Die,
        "L1Cache" => ObjectKind::Cache(1),
        "L2Cache" => ObjectKind::Cache(2),
        "L3Cache" => ObjectKind::Cache(3),
        "L4Cache" => ObjectKind::Cache(4),
        "L5Cache" => ObjectKind::Cache(5),
        "L1iCache" | "L2iCache" | "L3iCache" => ObjectKind::InstructionCache,
        "Core" => ObjectKind::Core,
        "PU" => ObjectKind::Pu,
        "MemCache" => return Some(Class::Memory),
        "Misc" | "Bridge" | "PCIDev" | "OSDev" => return Some(Class::Other),
        _ => return None,
    }))
}

/// An object and the data that is needed to check its children.
pub(super) struct Object {
    class: Class,
    pub cpuset: Bitmap,
    /// The CPU set including offline CPUs.
    pub complete: Bitmap,
    /// CPUs of all children so far.
    children: Bitmap,
}

impl<'a, 'input> Reader<'a, 'input> {
    /// Reads an `<object>` and all objects in it.
    pub(super) fn object(
        &mut self,
        node: Node<'a, 'input>,
        parent: Option<&mut Object>,
        depth: usize,
    ) -> Result<Object, Error> {
        let at = node.range().start;
        if depth > MAX_DEPTH {
            return Err(self.error(at, "the elements are nested too deeply"));
        }
        let kind = node
            .attribute("type")
            .ok_or_else(|| self.error(at, "an <object> has no type"))?;
        let class = match self.class(node, kind)? {
            // An inner machine is a part of a cluster of machines.
            Class::Part(ObjectKind::Machine) if parent.is_some() => Class::Part(ObjectKind::Group),
            class => class,
        };
        let mut object = self.sets(node, class, kind)?;
        match parent {
            None if !self.is_root(class, kind) => {
                return Err(self.attribute_error(node, "type", "the root object is not a Machine"));
            }
            None if object.cpuset.is_empty() => {
                return Err(self.attribute_error(node, "cpuset", "the machine has no CPU"));
            }
            None => {}
            Some(parent) => {
                adopt(parent, &object).map_err(|(name, message)| self.attribute_error(node, name, message))?;
                // A memory object has the CPUs of the part that contains it.
                if class == Class::Memory {
                    object.cpuset = parent.cpuset.clone();
                }
            }
        }
        match class {
            Class::Part(ObjectKind::Pu) => self.cpu(node, &object)?,
            Class::Part(ObjectKind::Package) if self.model.is_none() => {
                let mut infos = node.children().filter(|child| child.has_tag_name("info"));
                let info = infos.find(|info| info.attribute("name") == Some("CPUModel"));
                self.model = info.and_then(|info| info.attribute("value")).map(str::to_owned);
            }
            _ => {}
        }
        if kind == "NUMANode" {
            self.node(node, &object)?;
        }
        let length = self.path.len();
        if let Class::Part(kind) = class {
            let bytes = self.cache_bytes(node, kind)?;
            self.path.push((kind, u64::from(node.id().get()), bytes));
        }
        for child in objects(node) {
            self.object(child, Some(&mut object), depth + 1)?;
        }
        self.path.truncate(length);
        Ok(object)
    }

    fn class(&self, node: Node, kind: &str) -> Result<Class, Error> {
        let class = match (self.format, kind) {
            (Format::Two, "NUMANode") => Some(Class::Memory),
            (Format::One, "NUMANode") => Some(Class::Part(ObjectKind::Group)),
            (Format::One, "System") => Some(Class::Part(ObjectKind::Machine)),
            (Format::One, "Cache") => return self.cache_class(node),
            // Users could add such an object for a set of CPUs.
            (Format::One, "Misc") if node.has_attribute("cpuset") => Some(Class::Part(ObjectKind::Group)),
            _ => class(kind),
        };
        class.ok_or_else(|| self.attribute_error(node, "type", format!("{kind:?} is not a type of object")))
    }

    /// Returns the class of a cache of version 1, whose level and kind are attributes.
    fn cache_class(&self, node: Node) -> Result<Class, Error> {
        let level = node.attribute("depth").unwrap_or("");
        let kind = match (node.attribute("cache_type").unwrap_or("0"), level.parse()) {
            ("2", Ok(1..=3)) => ObjectKind::InstructionCache,
            ("0" | "1", Ok(level @ 1..=5)) => ObjectKind::Cache(level),
            _ => {
                return Err(self.attribute_error(node, "depth", format!("there is no cache of level {level:?}")));
            }
        };
        Ok(Class::Part(kind))
    }

    /// Returns whether an object may be the root. In version 1, a machine with a single NUMA node
    /// could have it as root.
    fn is_root(&self, class: Class, kind: &str) -> bool {
        class == Class::Part(ObjectKind::Machine) || self.format == Format::One && kind == "NUMANode"
    }

    /// Reads the CPU sets of an object.
    fn sets(&self, node: Node, class: Class, kind: &str) -> Result<Object, Error> {
        let set = |name: &str| match node.attribute(name) {
            Some(text) => Bitmap::parse(text)
                .map(Some)
                .map_err(|message| self.attribute_error(node, name, format!("{name} {message}"))),
            None => Ok(None),
        };
        let (cpuset, complete) = match (class, set("cpuset")?, set("complete_cpuset")?) {
            (Class::Other, None, None) => Default::default(),
            (Class::Other, ..) => {
                return Err(self.attribute_error(node, "cpuset", format!("a {kind} must not have a cpuset")));
            }
            (_, Some(cpuset), Some(complete)) => (cpuset, complete),
            (_, Some(cpuset), None) if self.format == Format::One => (cpuset.clone(), cpuset),
            _ => return Err(self.error(node.range().start, "an object has no cpuset or no complete_cpuset")),
        };
        if !cpuset.is_within(&complete) {
            return Err(self.attribute_error(node, "cpuset", "cpuset is not part of complete_cpuset"));
        }
        Ok(Object {
            class,
            cpuset,
            complete,
            children: Bitmap::default(),
        })
    }

    /// Reads the OS index of a CPU or node.
    fn os_index(&self, node: Node) -> Result<u32, Error> {
        let text = node.attribute("os_index").unwrap_or("");
        let index = text.parse::<u32>().ok().filter(|&n| n < MAX_INDEX);
        index.ok_or_else(|| {
            let message = format!("os_index {text} is not a number below {MAX_INDEX}");
            self.attribute_error(node, "os_index", message)
        })
    }

    fn cpu(&mut self, node: Node, object: &Object) -> Result<(), Error> {
        let index = self.os_index(node)?;
        if object.complete != Bitmap::single(index) {
            return Err(self.attribute_error(node, "os_index", "the cpuset of a PU does not match its os_index"));
        }
        if !object.cpuset.is_empty() {
            let mut parts = CpuParts::new(index);
            for &(kind, key, bytes) in self.path.iter().rev() {
                parts.add(kind, key, bytes);
            }
            self.cpus.push(parts);
        }
        Ok(())
    }

    fn node(&mut self, node: Node, object: &Object) -> Result<(), Error> {
        let index = self.os_index(node)?;
        let nodeset = node
            .attribute("nodeset")
            .ok_or_else(|| self.error(node.range().start, "a NUMANode has no nodeset"))?;
        let nodeset = Bitmap::parse(nodeset)
            .map_err(|message| self.attribute_error(node, "nodeset", format!("nodeset {message}")))?;
        if !nodeset.is_within(&Bitmap::single(index)) {
            return Err(self.attribute_error(
                node,
                "os_index",
                "the nodeset of a NUMANode does not match its os_index",
            ));
        }
        if self.nodes.contains_key(&index) {
            return Err(self.attribute_error(node, "os_index", "there is a second NUMANode with this os_index"));
        }
        self.node_order.push(index);
        // An offline node has an empty nodeset.
        if nodeset.is_empty() {
            self.nodes.insert(index, None);
        } else {
            self.add_node(index, &object.cpuset);
        }
        Ok(())
    }

    fn cache_bytes(&self, node: Node, kind: ObjectKind) -> Result<u64, Error> {
        let ObjectKind::Cache(level) = kind else {
            return Ok(0);
        };
        if node.attribute("depth") != Some(level.to_string().as_str()) {
            let message = format!("the depth of a cache of level {level} is not {level}");
            return Err(self.attribute_error(node, "depth", message));
        }
        match node.attribute("cache_size").map(str::parse) {
            None => Ok(0),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(_)) => Err(self.attribute_error(node, "cache_size", "cache_size is not a number of bytes")),
        }
    }
}

/// Checks that `child` may be in `parent`. The error is the name of the child's attribute that is
/// wrong, and a message about it.
fn adopt(parent: &mut Object, child: &Object) -> Result<(), (&'static str, &'static str)> {
    const CONTAINER: &str = "a device or memory must not contain CPUs or memory";
    match (parent.class, child.class) {
        (_, Class::Other) => return Ok(()),
        (Class::Other, _) | (Class::Memory, Class::Part(_)) => return Err(("type", CONTAINER)),
        (_, Class::Memory) if !child.complete.is_within(&parent.complete) => {
            return Err((
                "complete_cpuset",
                "the CPUs of the memory are not part of the parent object",
            ));
        }
        (_, Class::Memory) => return Ok(()),
        (Class::Part(ObjectKind::Pu), Class::Part(_)) => {
            return Err(("type", "the parent object's type is too small to contain this object"));
        }
        (Class::Part(_), Class::Part(_)) => {}
    }
    if !child.cpuset.is_within(&parent.cpuset) {
        return Err(("cpuset", "cpuset is not part of the parent's cpuset"));
    }
    if !child.complete.is_within(&parent.complete) {
        return Err((
            "complete_cpuset",
            "complete_cpuset is not part of the parent's complete_cpuset",
        ));
    }
    if child.complete.intersects(&parent.children) {
        return Err(("cpuset", "cpuset contains CPUs of a previous object"));
    }
    parent.children.insert_all(&child.complete);
    Ok(())
}
