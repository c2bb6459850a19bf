// SPDX-License-Identifier: GPL-2.0-only
//! Parser for hwloc's XML format, versions 1 to 3.
//!
//! The parser reads the tree of objects, the distances between NUMA nodes, the CPU kinds and the
//! processor's name. It checks that each object may contain its children: their types and CPU sets
//! must fit. CPUs with an empty cpuset are offline and ignored. I/O devices and instruction caches
//! are skipped.
//!
//! The versions differ as follows. For this parser, version 3 is the same as version 2.
//!
//! | subject | version 1 | versions 2 and 3 |
//! |---|---|---|
//! | NUMA nodes | contain the CPUs | are children of the object whose CPUs are local to the node |
//! | machines without NUMA | may have no node | have one node |
//! | caches | type `Cache`, with level and kind as attributes | types `L1Cache`, `L1iCache`, ... |
//! | node distances | `<distances>` in the machine, in the order of the nodes | `<distances2>` with the numbers of the nodes |
//! | kinds of CPUs | - | `<cpukind>` |

mod object;
mod properties;

use crate::bitmap::Bitmap;
use crate::parts::{CpuParts, ObjectKind, Parts};
use input::Error;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size of a file in bytes. The XML of a machine with 4096 CPUs has about 4 MB.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
const HINT: &str = "`lstopo -i FILE NEW.xml` writes what hwloc reads of the file; `lstopo --of xml NEW.xml` on the \
                    machine itself writes a new file";

/// Parses hwloc XML. `place` is the name of the file for errors.
///
/// # Errors
/// Fails if the text is not valid XML or does not conform to hwloc's format. The error contains the
/// source line.
pub(crate) fn parse(place: &str, text: &str) -> Result<Parts, Error> {
    let text = without_doctype(text);
    let document = Document::parse_with_options(&text, ParsingOptions::default()).map_err(|error| {
        let (line, position) = (error.pos().row, format!(" at {}", error.pos()));
        let message = match error {
            roxmltree::Error::DtdDetected => "the document type declaration is not one of hwloc, for example \
                 <!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"
                .into(),
            _ => format!("this is not valid XML: {}", error.to_string().replace(&position, "")),
        };
        Error::at(format!("{place}:{line}"), message).hint(HINT)
    })?;
    let reader = Reader {
        place,
        document: &document,
        format: Format::Two,
        path: Vec::new(),
        cpus: Vec::new(),
        nodes: BTreeMap::new(),
        node_order: Vec::new(),
        model: None,
    };
    reader.topology(document.root_element())
}

/// Replaces a document type declaration such as `<!DOCTYPE topology SYSTEM "hwloc2.dtd">` by
/// spaces, so that positions in errors stay correct. Declarations of another form are kept, and
/// roxmltree refuses them: they could define entities.
fn without_doctype(text: &str) -> String {
    const BEGIN: &str = "<!DOCTYPE topology SYSTEM \"hwloc";
    let declaration = text.find(BEGIN).and_then(|at| {
        let rest = &text[at + BEGIN.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.')?;
        let closed = rest[end..].strip_prefix("\">")?;
        rest[..end].ends_with(".dtd").then(|| at..text.len() - closed.len())
    });
    match declaration {
        Some(range) => {
            let spaces = " ".repeat(range.len());
            [&text[..range.start], &spaces, &text[range.end..]].concat()
        }
        None => text.to_owned(),
    }
}

/// Versions of the format that are read differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    One,
    /// Versions 2 and 3.
    Two,
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
    format: Format,
    /// Type, key and size of the objects that contain the current one.
    path: Vec<(ObjectKind, u64, u64)>,
    cpus: Vec<CpuParts>,
    /// NUMA nodes by OS index; `None` for an offline node.
    nodes: BTreeMap<u32, Option<Memory>>,
    /// OS indexes of the NUMA nodes in the order of the file.
    node_order: Vec<u32>,
    model: Option<String>,
}

impl<'a, 'input> Reader<'a, 'input> {
    fn error(&self, at: usize, message: impl std::fmt::Display) -> Error {
        let line = self.document.text_pos_at(at).row;
        Error::at(format!("{}:{line}", self.place), message).hint(HINT)
    }

    /// Returns an error at an attribute, or at its element if the attribute is missing.
    fn attribute_error(&self, node: Node, name: &str, message: impl std::fmt::Display) -> Error {
        let at = node.attribute_node(name).map_or(node.range(), |a| a.range()).start;
        self.error(at, message)
    }

    /// Reads the root element.
    fn topology(mut self, root: Node<'a, 'input>) -> Result<Parts, Error> {
        let at = root.range().start;
        let name = root.tag_name().name();
        // The element was called <root> before hwloc 1.0.
        if name != "topology" && name != "root" {
            let error = self.error(at, format!("the top-level element is <{name}>, expected <topology>"));
            return Err(if name == "topologydiff" {
                error.hint("the file only has the differences between two machines; `hwloc-patch` applies them")
            } else {
                error
            });
        }
        self.format = self.version(root)?;
        let mut machine = None;
        for object in objects(root) {
            if machine.is_some() {
                return Err(self.error(object.range().start, "the file has a second root object"));
            }
            machine = Some((object, self.object(object, None, 0)?));
        }
        let (machine_element, machine) = machine.ok_or_else(|| self.error(at, "the <topology> contains no object"))?;
        if self.nodes.is_empty() {
            if self.format == Format::Two {
                return Err(self.error(at, "the <topology> contains no NUMANode"));
            }
            self.add_node(0, &machine.cpuset);
        }
        let speeds = self.speeds(root)?;
        let distances = match self.format {
            Format::One => self.distances_in_order(machine_element)?,
            Format::Two => self.distances(root)?,
        };
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
            cpu.speed = speeds[cpu.os_index as usize].clone();
        }
        self.cpus.sort_by_key(|cpu| cpu.os_index);
        let used: BTreeSet<u32> = self.cpus.iter().filter_map(|cpu| cpu.node).collect();
        let online = self.nodes.iter().filter(|(_, memory)| memory.is_some());
        Ok(Parts {
            offline: machine.complete.len().saturating_sub(self.cpus.len()),
            memory_nodes: online
                .map(|(&index, _)| index)
                .filter(|index| !used.contains(index))
                .collect(),
            cpus: self.cpus,
            distances,
            model: self.model,
        })
    }

    /// Reads the version of the format. Version 1 has no number.
    fn version(&self, root: Node) -> Result<Format, Error> {
        let version = root.attribute("version").unwrap_or("1");
        match version.split('.').next().map(str::parse) {
            Some(Ok(0 | 1)) => Ok(Format::One),
            Some(Ok(2 | 3)) => Ok(Format::Two),
            Some(Ok::<u32, _>(_)) => Err(self
                .attribute_error(
                    root,
                    "version",
                    format!("the file has version {version} of hwloc's format, expected 1 to 3"),
                )
                .hint(
                    "let the hwloc that wrote the file write an older version: `lstopo -i FILE --of xml \
                       --export-xml-flags v2 NEW.xml`",
                )),
            _ => Err(self.attribute_error(
                root,
                "version",
                format!("{version:?} is not a version of hwloc's format"),
            )),
        }
    }

    fn add_node(&mut self, index: u32, cpuset: &Bitmap) {
        let memory = Memory {
            cpus: cpuset.len(),
            cpuset: cpuset.clone(),
        };
        self.nodes.insert(index, Some(memory));
    }
}

fn objects<'a, 'input>(node: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(|child| child.has_tag_name("object"))
}

#[cfg(test)]
mod tests;
