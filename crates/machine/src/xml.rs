// SPDX-License-Identifier: GPL-2.0-only
//! Parser for hwloc's XML format, version 2.
//!
//! The parser reads the tree of objects, the distances between NUMA nodes, the CPU kinds and the
//! processor's name. It checks that each object may contain its children: their types and CPU sets
//! must fit. CPUs with an empty cpuset are offline and ignored. I/O devices and instruction caches
//! are skipped.

use crate::MAX_CPUS;
use crate::bitmap::{Bitmap, MAX_INDEX};
use crate::parts::{CpuParts, Distances, Kind, Parts, Speed};
use input::Error;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// Maximum size of a file in bytes. The XML of a machine with 4096 CPUs has about 4 MB.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// The only document type declaration that hwloc writes. Other declarations are refused, because
/// they could define entities.
const DOCTYPE: &str = "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">";
/// Maximum nesting of objects. Real machines, including their I/O trees, have fewer than 30 levels.
const MAX_DEPTH: usize = 100;
/// Properties of a CPU kind that describe the speed of its CPUs.
const SPEEDS: [&str; 3] = ["LinuxCapacity", "CoreType", "FrequencyMaxMHz"];
const HINT: &str = "create the file with `lstopo --of xml FILE`";

/// Parses hwloc XML. `place` is the name of the file for errors.
///
/// # Errors
/// Fails if the text is not valid XML or does not conform to hwloc's format. The error contains the
/// source line.
pub(crate) fn parse(place: &str, text: &str) -> Result<Parts, Error> {
    // Replaces the document type declaration by spaces, so that positions in errors stay correct.
    let text = text.replacen(DOCTYPE, &" ".repeat(DOCTYPE.len()), 1);
    let document = Document::parse_with_options(&text, ParsingOptions::default()).map_err(|error| {
        let (line, position) = (error.pos().row, format!(" at {}", error.pos()));
        let message = match error {
            roxmltree::Error::DtdDetected => format!("the declaration is not {DOCTYPE}"),
            _ => format!("this is not valid XML: {}", error.to_string().replace(&position, "")),
        };
        Error::at(format!("{place}:{line}"), message).hint(HINT)
    })?;
    let reader = Reader {
        place,
        document: &document,
        path: Vec::new(),
        cpus: Vec::new(),
        nodes: BTreeMap::new(),
        model: None,
    };
    reader.topology(document.root_element())
}

/// Class of an object. It determines which objects may contain the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Part(Kind),
    /// A memory-side cache.
    Memory,
    /// An I/O device or an object added by the user. It has no CPU sets.
    Other,
}

fn class(kind: &str) -> Option<Class> {
    Some(Class::Part(match kind {
        "Machine" => Kind::Machine,
        "Group" => Kind::Group,
        "Package" => Kind::Package,
        "Die" => Kind::Die,
        "L1Cache" => Kind::Cache(1),
        "L2Cache" => Kind::Cache(2),
        "L3Cache" => Kind::Cache(3),
        "L4Cache" => Kind::Cache(4),
        "L5Cache" => Kind::Cache(5),
        "L1iCache" | "L2iCache" | "L3iCache" => Kind::InstructionCache,
        "Core" => Kind::Core,
        "PU" => Kind::Pu,
        "NUMANode" => Kind::Node,
        "MemCache" => return Some(Class::Memory),
        "Misc" | "Bridge" | "PCIDev" | "OSDev" => return Some(Class::Other),
        _ => return None,
    }))
}

/// An object and the data that is needed to check its children.
struct Object {
    class: Class,
    cpuset: Bitmap,
    /// The CPU set including offline CPUs.
    complete: Bitmap,
    /// CPUs of all children so far.
    children: Bitmap,
    /// First CPU of the last child.
    last_first: Option<u32>,
}

/// The CPUs of a NUMA node and their number.
struct Memory {
    cpus: usize,
    cpuset: Bitmap,
}

/// State of the parser.
struct Reader<'a, 'input> {
    place: &'a str,
    document: &'a Document<'input>,
    /// Type, key and size of the objects that contain the current one.
    path: Vec<(Kind, u64, u64)>,
    cpus: Vec<CpuParts>,
    /// NUMA nodes by OS index; `None` for an offline node.
    nodes: BTreeMap<u32, Option<Memory>>,
    model: Option<String>,
}

impl<'a, 'input> Reader<'a, 'input> {
    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        let line = self.document.text_pos_at(at).row;
        Error::at(format!("{}:{line}", self.place), message).hint(HINT)
    }

    /// Returns an error at an attribute, or at its element if the attribute is missing.
    fn attribute_error(&self, node: Node, name: &str, message: impl Into<String>) -> Error {
        let at = node.attribute_node(name).map_or(node.range(), |a| a.range()).start;
        self.error(at, message)
    }

    /// Reads the root element.
    fn topology(mut self, root: Node<'a, 'input>) -> Result<Parts, Error> {
        let at = root.range().start;
        if root.tag_name().name() != "topology" {
            let message = format!(
                "the top-level element is <{}>, expected <topology>",
                root.tag_name().name()
            );
            return Err(self.error(at, message));
        }
        let version = root.attribute("version").unwrap_or("1");
        if !version.starts_with("2.") {
            return Err(self
                .error(
                    at,
                    format!("the file has the format of hwloc {version}, expected hwloc 2"),
                )
                .hint("convert the file with `lstopo -i OLD.xml NEW.xml` of hwloc 2"));
        }
        let mut machine = None;
        for object in objects(root) {
            if machine.is_some() {
                return Err(self.error(object.range().start, "the file has a second root object"));
            }
            let read = self.object(object, None, 0)?;
            machine = Some(read);
        }
        let machine = machine.ok_or_else(|| self.error(at, "the <topology> contains no object"))?;
        if self.nodes.is_empty() {
            return Err(self.error(at, "the <topology> contains no NUMANode"));
        }
        let speeds = self.speeds(root)?;
        let distances = self.distances(root)?;
        for cpu in &mut self.cpus {
            let nodes = self
                .nodes
                .iter()
                .filter_map(|(&index, memory)| Some((index, memory.as_ref()?)));
            let local = nodes.filter(|(_, memory)| memory.cpuset.contains(cpu.os_index));
            // A CPU belongs to the node that has the fewest CPUs, which is the most local one. If
            // there are several such nodes, it belongs to the one with the lowest index. For
            // example, a socket can have a node of DRAM and a node of high-bandwidth memory, and
            // Linux assigns no CPUs to the latter.
            cpu.node = local
                .map(|(index, memory)| (memory.cpus, index))
                .min()
                .map(|(_, index)| index);
            let [capacity, core_type, max_mhz] = speeds[cpu.os_index as usize];
            let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
            cpu.speed = Speed {
                capacity: number(capacity),
                core_type: core_type.map(str::to_owned),
                max_mhz: number(max_mhz),
            };
        }
        self.cpus.sort_by_key(|cpu| cpu.os_index);
        Ok(Parts {
            offline: machine.complete.len().saturating_sub(self.cpus.len()),
            cpus: self.cpus,
            distances,
            model: self.model,
        })
    }

    /// Reads an `<object>` and all objects in it.
    fn object(&mut self, node: Node<'a, 'input>, parent: Option<&mut Object>, depth: usize) -> Result<Object, Error> {
        let at = node.range().start;
        if depth > MAX_DEPTH {
            return Err(self.error(at, "the elements are nested too deeply"));
        }
        let kind = node
            .attribute("type")
            .ok_or_else(|| self.error(at, "an <object> has no type"))?;
        let class = class(kind)
            .ok_or_else(|| self.attribute_error(node, "type", format!("{kind:?} is not a type of object")))?;
        let mut object = self.sets(node, class, kind)?;
        match parent {
            None if class != Class::Part(Kind::Machine) => {
                return Err(self.attribute_error(node, "type", "the root object is not a Machine"));
            }
            None if object.cpuset.is_empty() => {
                return Err(self.attribute_error(node, "cpuset", "the machine has no CPU"));
            }
            None => {}
            Some(parent) => {
                adopt(parent, &object).map_err(|(name, message)| self.attribute_error(node, name, message))?;
                // A memory object has the CPUs of the part that contains it.
                if matches!(class, Class::Part(Kind::Node) | Class::Memory) {
                    object.cpuset = parent.cpuset.clone();
                }
            }
        }
        match class {
            Class::Part(Kind::Pu) => self.cpu(node, &object)?,
            Class::Part(Kind::Node) => self.node(node, &object)?,
            Class::Part(Kind::Package) if self.model.is_none() => {
                let mut infos = node.children().filter(|child| child.has_tag_name("info"));
                let info = infos.find(|info| info.attribute("name") == Some("CPUModel"));
                self.model = info.and_then(|info| info.attribute("value")).map(str::to_owned);
            }
            _ => {}
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
            last_first: None,
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
        // An offline node has an empty nodeset.
        let memory = (!nodeset.is_empty()).then(|| Memory {
            cpus: object.cpuset.len(),
            cpuset: object.cpuset.clone(),
        });
        if self.nodes.insert(index, memory).is_some() {
            return Err(self.attribute_error(node, "os_index", "there is a second NUMANode with this os_index"));
        }
        Ok(())
    }

    fn cache_bytes(&self, node: Node, kind: Kind) -> Result<u64, Error> {
        let Kind::Cache(level) = kind else {
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

    /// Returns the speed properties of all CPUs. The list is indexed by the CPUs' OS indexes, and
    /// each entry is in the order of [`SPEEDS`]. If a property has several values, the first is
    /// used.
    fn speeds(&self, root: Node<'a, 'input>) -> Result<Vec<[Option<&'a str>; 3]>, Error> {
        let mut speeds = vec![[None; 3]; MAX_INDEX as usize];
        for kind in root.children().filter(|child| child.has_tag_name("cpukind")) {
            let cpuset = Bitmap::parse(kind.attribute("cpuset").unwrap_or(""))
                .map_err(|message| self.attribute_error(kind, "cpuset", format!("cpuset {message}")))?;
            for (n, name) in SPEEDS.iter().enumerate() {
                let mut infos = kind.children().filter(|child| child.has_tag_name("info"));
                let info = infos.find(|info| info.attribute("name") == Some(name));
                if let Some(value) = info.and_then(|info| info.attribute("value")) {
                    for cpu in cpuset.iter() {
                        speeds[cpu as usize][n].get_or_insert(value);
                    }
                }
            }
        }
        Ok(speeds)
    }

    /// Reads the distances between NUMA nodes.
    fn distances(&self, root: Node) -> Result<Vec<Distances>, Error> {
        let mut matrices = Vec::new();
        for element in root.children().filter(|child| child.has_tag_name("distances2")) {
            let at = element.range().start;
            let text = element
                .attribute("nbobjs")
                .ok_or_else(|| self.error(at, "<distances2> has no nbobjs"))?;
            let n = text.parse::<usize>().ok().filter(|&n| n <= MAX_CPUS as usize);
            let n = n.ok_or_else(|| {
                self.attribute_error(
                    element,
                    "nbobjs",
                    format!("nbobjs is {text}, expected a number up to {MAX_CPUS}"),
                )
            })?;
            let numbers = |name: &str, count: usize| {
                let lists = element.children().filter(|child| child.has_tag_name(name));
                let texts = lists.filter_map(|list| list.text()).flat_map(str::split_whitespace);
                let values: Result<Vec<u64>, _> = texts.map(str::parse).collect();
                let values = values.ok().filter(|values| values.len() == count);
                values.ok_or_else(|| self.error(at, format!("<{name}> in <distances2> must contain {count} numbers")))
            };
            let (nodes, values) = (numbers("indexes", n)?, numbers("u64values", n * n)?);
            // "NUMALatency" is the SLIT, the firmware's table of distances. Matrices of bandwidths
            // are not used, because their larger values mean nearer nodes.
            let latency = element.attribute("name").is_none_or(|name| name == "NUMALatency");
            let between_nodes =
                element.attribute("type") == Some("NUMANode") && element.attribute("indexing") == Some("os");
            if latency && between_nodes {
                let nodes = nodes
                    .into_iter()
                    .map(|node| u32::try_from(node).unwrap_or(u32::MAX))
                    .collect();
                matrices.push(Distances { nodes, values });
            }
        }
        Ok(matrices)
    }
}

fn objects<'a, 'input>(node: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(|child| child.has_tag_name("object"))
}

/// Checks that `child` may be the next object in `parent`. The error is the name of the child's
/// attribute that is wrong, and a message about it.
fn adopt(parent: &mut Object, child: &Object) -> Result<(), (&'static str, &'static str)> {
    let (outer, inner) = match (parent.class, child.class) {
        (_, Class::Other) => return Ok(()),
        (Class::Other | Class::Memory | Class::Part(Kind::Node), Class::Part(kind)) if kind != Kind::Node => {
            return Err(("type", "a device or memory must not contain CPUs or memory"));
        }
        (Class::Other, _) => return Err(("type", "a device or memory must not contain CPUs or memory")),
        (_, Class::Memory | Class::Part(Kind::Node)) if !child.complete.is_within(&parent.complete) => {
            return Err((
                "complete_cpuset",
                "the CPUs of the memory are not part of the parent object",
            ));
        }
        (Class::Part(outer), Class::Part(inner)) if inner != Kind::Node => (outer, inner),
        _ => return Ok(()),
    };
    if inner == Kind::Machine || outer == Kind::Pu {
        return Err(("type", "the parent object's type is too small to contain this object"));
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
    let first = child.complete.first();
    if first.is_none() || first < parent.last_first {
        return Err(("complete_cpuset", "the objects are not ordered by their CPUs"));
    }
    parent.last_first = first;
    parent.children.insert_all(&child.complete);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: &str = "nodeset=\"0x1\" complete_nodeset=\"0x1\"";

    fn machine() -> String {
        let sets = format!("cpuset=\"0x3\" complete_cpuset=\"0x3\" {SETS}");
        format!(
            "<object type=\"Machine\" {sets} gp_index=\"1\">\
             <object type=\"NUMANode\" os_index=\"0\" {sets} gp_index=\"2\"/>"
        )
    }

    fn message(text: &str) -> String {
        let e = parse("m.xml", text).map(|_| ()).unwrap_err();
        format!("{}: {}", e.place, e.message)
    }

    /// Returns the error for a file that describes a machine with CPUs 0 and 1, which contains
    /// `objects`. The objects are on the third line of the file.
    fn inside(objects: &str) -> String {
        let text = format!(
            "<topology version=\"2.0\">\n{}\n{objects}</object></topology>",
            machine()
        );
        parse("m.xml", &text).map_or_else(|e| e.to_string().replace('\n', " "), |_| "fine".into())
    }

    #[test]
    fn well_formed_files_are_read() {
        let text = format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
             <topology version=\"2.0\"><!-- x -->{}</object>\
             <distances2 nbobjs=\"1\"><indexes>0</indexes><u64values length=\"3\">1 </u64values></distances2>\
             </topology>\n",
            machine()
        );
        assert_eq!(
            parse("m.xml", &text)
                .map(|parts| parts.cpus.len())
                .map_err(|e| e.to_string()),
            Ok(0)
        );
    }

    #[test]
    fn malformed_files_are_errors() {
        assert_eq!(
            message(""),
            "m.xml:1: this is not valid XML: the document does not have a root node"
        );
        assert_eq!(message("hello"), "m.xml:1: this is not valid XML: unknown token");
        assert_eq!(
            message("<html/>"),
            "m.xml:1: the top-level element is <html>, expected <topology>"
        );
        assert_eq!(
            message("<topology/>"),
            "m.xml:1: the file has the format of hwloc 1, expected hwloc 2"
        );
        assert!(message("<!DOCTYPE topology>").ends_with("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"));
        let top = "<topology version=\"2.0\">\n";
        let with = |rest: &str| message(&format!("{top}{rest}"));
        assert_eq!(
            with("<a>\n</b>"),
            "m.xml:3: this is not valid XML: expected 'a' tag, not 'b'"
        );
        assert_eq!(
            with("<b a=b>"),
            "m.xml:2: this is not valid XML: expected a quote not 'b'"
        );
        assert_eq!(
            with("<b a=\"1\" a=\"1\">"),
            "m.xml:2: this is not valid XML: attribute 'a' is already defined"
        );
        assert_eq!(
            with("</topology>\n<a/>"),
            "m.xml:3: this is not valid XML: unknown token"
        );
        assert_eq!(with("</topology>"), "m.xml:1: the <topology> contains no object");
        let deep = "<object type=\"Group\" cpuset=\"0x3\" complete_cpuset=\"0x3\">".repeat(200);
        let ends = "</object>".repeat(201);
        assert!(with(&format!("{}{deep}{ends}</topology>", machine())).ends_with("too deeply"));
    }

    #[test]
    fn cpu_sets_form_a_tree() {
        let pu = |index: u32, set: &str| {
            format!(
                "<object type=\"PU\" os_index=\"{index}\" cpuset=\"{set}\" complete_cpuset=\"{set}\" \
                 {SETS} gp_index=\"{}\"/>",
                10 + index
            )
        };
        assert_eq!(inside(&(pu(0, "0x1") + &pu(1, "0x2"))), "fine");
        for (objects, expected) in [
            (
                pu(4_000_000_000, "0x1"),
                "m.xml:3: os_index 4000000000 is not a number below 16384",
            ),
            (pu(1, "0x1"), "m.xml:3: the cpuset of a PU does not match its os_index"),
            (pu(2, "0x4"), "m.xml:3: cpuset is not part of the parent's cpuset"),
            (
                pu(0, "0xz"),
                "m.xml:3: cpuset contains 'z', which is not part of a bitmap",
            ),
            (pu(0, "0xf...f"), "m.xml:3: cpuset is infinite"),
            (
                pu(1, "0x2") + &pu(0, "0x1"),
                "m.xml:3: the objects are not ordered by their CPUs",
            ),
            (
                pu(0, "0x1") + &pu(0, "0x1").replace("10", "11"),
                "m.xml:3: cpuset contains CPUs of a previous object",
            ),
            ("<object cpuset=\"0x1\"/>".into(), "m.xml:3: an <object> has no type"),
            ("<object type=\"Core\"/>".into(), "m.xml:3: an object has no cpuset"),
        ] {
            let error = inside(&objects);
            assert!(error.starts_with(expected), "{objects}\n{error}");
        }
    }
}
