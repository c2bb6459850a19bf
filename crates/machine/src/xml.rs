// SPDX-License-Identifier: GPL-2.0-only
//! A look at hwloc XML before hwloc sees it.
//!
//! hwloc's own reader is C, trusts what it reads (sizes of index sets above all) and reports any
//! trouble as "invalid argument" or by crashing. So the shape is checked here first: well-formed
//! tags, properly nested, numbers that a machine can have, CPU sets that form a tree. What the
//! elements mean stays hwloc's business.

use crate::MAX_CPUS;
use crate::error::Error;
use crate::xml_tree::{Object, Problem};
use std::collections::BTreeSet;

/// Largest file that is looked at, in bytes; the XML of a 4096-CPU machine has about 4 MB.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// The only declaration hwloc writes; its reader stumbles over a document type without a system id.
const DOCTYPE: &str = "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">";
/// hwloc reads objects recursively; real machines stay below 30 with their I/O trees.
const MAX_DEPTH: usize = 100;

/// Checks that `text` can be given to hwloc. `place` is the file's name.
pub(crate) fn check(place: &str, text: &str) -> Result<(), Error> {
    let source = Source { place, text };
    let (gp_indexes, nodes) = (BTreeSet::new(), BTreeSet::new());
    Scanner {
        source,
        pos: 0,
        gp_indexes,
        nodes,
    }
    .document()
}

/// One attribute of a start tag.
struct Attribute<'a> {
    name: &'a str,
    value: &'a str,
    at: usize,
}

/// An element that has not ended.
struct Open<'a> {
    name: &'a str,
    object: Option<Object>,
}

#[derive(Clone, Copy)]
struct Source<'a> {
    place: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        let line = 1 + self.text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count();
        Error::new(format!("{}:{line}", self.place), message)
            .hint("an hwloc XML file is written by `lstopo --of xml FILE`")
    }
}

struct Scanner<'a> {
    source: Source<'a>,
    pos: usize,
    /// Identities of the objects and OS indexes of the NUMA nodes so far.
    gp_indexes: BTreeSet<u64>,
    nodes: BTreeSet<u32>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.source.text[self.pos..]
    }

    /// Skips to behind the next `end`.
    fn skip(&mut self, end: &str, what: &str) -> Result<(), Error> {
        match self.rest().find(end) {
            Some(n) => {
                self.pos += n + end.len();
                Ok(())
            }
            None => Err(self.source.error(self.pos, format!("{what} without an end ({end})"))),
        }
    }

    fn space(&mut self) {
        self.pos += self.rest().len() - self.rest().trim_start().len();
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_-.:".contains(c)))
            .unwrap_or(rest.len());
        self.pos += end;
        &rest[..end]
    }

    fn document(&mut self) -> Result<(), Error> {
        if let Some(at) = self.source.text.find('\0') {
            return Err(self.source.error(at, "a NUL character: not an XML file"));
        }
        let mut open: Vec<Open> = Vec::new();
        let mut roots = 0;
        while let Some(lt) = self.rest().find('<') {
            let text = &self.rest()[..lt];
            if open.is_empty() && !text.trim().is_empty() {
                return Err(self.source.error(self.pos, "text outside of the <topology> element"));
            }
            self.pos += lt;
            let start = self.pos;
            if self.rest().starts_with("<!--") {
                self.skip("-->", "a comment")?;
            } else if self.rest().starts_with("<?") {
                self.skip("?>", "a processing instruction")?;
            } else if self.rest().starts_with("<!") {
                self.skip(">", "a declaration")?;
                if self.source.text[start..self.pos] != *DOCTYPE {
                    return Err(self.source.error(start, format!("a declaration other than {DOCTYPE}")));
                }
            } else if self.rest().starts_with("</") {
                self.pos += 2;
                let name = self.word();
                self.space();
                if !self.rest().starts_with('>') {
                    return Err(self.source.error(start, format!("</{name} is not closed with >")));
                }
                self.pos += 1;
                match open.pop() {
                    Some(opened) if opened.name == name => {}
                    Some(opened) => {
                        return Err(self.source.error(start, format!("</{name}> ends <{}>", opened.name)));
                    }
                    None => {
                        return Err(self.source.error(start, format!("</{name}> ends nothing")));
                    }
                }
            } else {
                self.pos += 1;
                let (name, attributes, stays_open) = self.element(start)?;
                if open.is_empty() {
                    roots += 1;
                    self.root(start, roots, name, &attributes)?;
                }
                let object = match name {
                    "object" => Some(self.object(start, &attributes, &mut open)?),
                    "topology" if !open.is_empty() => {
                        return Err(self.source.error(start, "a <topology> inside of another element"));
                    }
                    _ => self.other(start, name, &attributes, &open).map(|()| None)?,
                };
                if stays_open {
                    open.push(Open { name, object });
                    if open.len() > MAX_DEPTH {
                        return Err(self.source.error(start, "elements nested too deeply"));
                    }
                }
            }
        }
        if let Some(Open { name, .. }) = open.last() {
            return Err(self
                .source
                .error(self.source.text.len(), format!("the file ends inside <{name}>")));
        }
        if roots == 0 {
            return Err(self.source.error(0, "no <topology> element: not an hwloc XML file"));
        }
        if self.nodes.is_empty() {
            return Err(self
                .source
                .error(self.source.text.len(), "the file ends without a NUMANode"));
        }
        if !self.rest().trim().is_empty() {
            return Err(self.source.error(self.pos, "text outside of the <topology> element"));
        }
        Ok(())
    }

    fn root(&self, start: usize, roots: u32, name: &str, attributes: &[Attribute]) -> Result<(), Error> {
        if roots > 1 {
            return Err(self.source.error(start, "a second top-level element"));
        }
        if name != "topology" {
            return Err(self.source.error(start, format!("the top-level element is <{name}>")));
        }
        let version = attributes.iter().find(|a| a.name == "version").map_or("1", |a| a.value);
        if !version.starts_with("2.") {
            return Err(self
                .source
                .error(start, format!("the format of hwloc {version}, expected that of 2"))
                .hint("`lstopo -i OLD.xml NEW.xml` of hwloc 2 converts"));
        }
        Ok(())
    }

    /// Reads a start tag from behind its `<`: name, attributes, whether it stays open.
    fn element(&mut self, start: usize) -> Result<(&'a str, Vec<Attribute<'a>>, bool), Error> {
        let name = self.word();
        if name.is_empty() {
            return Err(self.source.error(start, "< without an element's name"));
        }
        let mut attributes: Vec<Attribute> = Vec::new();
        loop {
            let before = self.pos;
            self.space();
            if self.rest().starts_with("/>") {
                self.pos += 2;
                return Ok((name, attributes, false));
            }
            if self.rest().starts_with('>') {
                self.pos += 1;
                return Ok((name, attributes, true));
            }
            let at = self.pos;
            let attribute = self.word();
            if attribute.is_empty() || before == at {
                return Err(self.source.error(start, format!("the tag <{name} is malformed")));
            }
            if !self.rest().starts_with("=\"") {
                return Err(self
                    .source
                    .error(at, format!("{attribute} has no value in double quotes")));
            }
            self.pos += 2;
            let from = self.pos;
            self.skip("\"", "a value")?;
            let value = &self.source.text[from..self.pos - 1];
            if value.contains('<') {
                return Err(self.source.error(at, format!("the value of {attribute} holds a <")));
            }
            if attributes.iter().any(|a| a.name == attribute) {
                return Err(self.source.error(at, format!("{attribute} is there twice")));
            }
            attributes.push(Attribute {
                name: attribute,
                value,
                at,
            });
        }
    }

    /// Checks an `<object>` against the object it is in.
    fn object(&mut self, start: usize, attributes: &[Attribute], open: &mut [Open]) -> Result<Object, Error> {
        let get = |name: &str| attributes.iter().find(|a| a.name == name).map(|a| a.value);
        let at = |name: &str| attributes.iter().find(|a| a.name == name).map_or(start, |a| a.at);
        let source = self.source;
        let problem = |p: Problem| source.error(p.attribute.map_or(start, at), p.message);
        let object = Object::read(get).map_err(problem)?;
        match get("gp_index").map(str::parse::<u64>) {
            Some(Ok(index)) if index > 0 && self.gp_indexes.insert(index) => {}
            _ => {
                return Err(self.source.error(at("gp_index"), "gp_index is no number of its own"));
            }
        }
        if object.numa.is_some_and(|index| !self.nodes.insert(index)) {
            return Err(self
                .source
                .error(at("os_index"), "a second NUMANode with this os_index"));
        }
        match open {
            [topology] => match topology.object.replace(Object::topology()) {
                None => object.check_root().map_err(problem)?,
                Some(_) => return Err(self.source.error(start, "a second root object")),
            },
            [
                _,
                ..,
                Open {
                    object: Some(parent), ..
                },
            ] => {
                parent.adopt(&object).map_err(problem)?;
            }
            _ => {
                return Err(self.source.error(start, "an <object> outside of the object tree"));
            }
        }
        Ok(object)
    }

    /// Checks the numbers of any other element that hwloc allocates memory by.
    fn other(&self, start: usize, name: &str, attributes: &[Attribute], open: &[Open]) -> Result<(), Error> {
        if open.is_empty() {
            return Ok(());
        }
        for a in attributes {
            if a.name == "cpuset" {
                crate::xml_tree::bits(a.value)
                    .map_err(|message| self.source.error(a.at, format!("cpuset {message}")))?;
            }
            if a.name == "nbobjs" && !a.value.parse::<u32>().is_ok_and(|n| n <= MAX_CPUS) {
                return Err(self
                    .source
                    .error(a.at, format!("{} of them: not up to {MAX_CPUS}", a.value)));
            }
        }
        if name == "distances2" && !attributes.iter().any(|a| a.name == "nbobjs") {
            return Err(self.source.error(start, "<distances2> without nbobjs"));
        }
        Ok(())
    }
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
        let e = check("m.xml", text).unwrap_err();
        format!("{}: {}", e.place, e.message)
    }

    /// What is said of objects within a machine of CPUs 0 and 1, on the file's third line.
    fn inside(objects: &str) -> String {
        let text = format!(
            "<topology version=\"2.0\">\n{}\n{objects}</object></topology>",
            machine()
        );
        check("m.xml", &text).map_or_else(|e| e.to_string().replace('\n', " "), |()| "fine".into())
    }

    #[test]
    fn well_formed() {
        let text = format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
             <topology version=\"2.0\"><!-- x -->{}</object>\
             <distances2 nbobjs=\"1\"><u64values length=\"3\">1 2 </u64values></distances2>\
             </topology>\n",
            machine()
        );
        assert_eq!(check("m.xml", &text), Ok(()));
    }

    #[test]
    fn malformed() {
        assert_eq!(message(""), "m.xml:1: no <topology> element: not an hwloc XML file");
        assert_eq!(
            message("hello"),
            "m.xml:1: no <topology> element: not an hwloc XML file"
        );
        assert_eq!(message("<html/>"), "m.xml:1: the top-level element is <html>");
        assert_eq!(
            message("<topology/>"),
            "m.xml:1: the format of hwloc 1, expected that of 2"
        );
        assert!(message("<!DOCTYPE topology>").ends_with("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"));
        let top = "<topology version=\"2.0\">\n";
        let with = |rest: &str| message(&format!("{top}{rest}"));
        assert_eq!(with("<a>\n</b>"), "m.xml:3: </b> ends <a>");
        assert_eq!(with("<a "), "m.xml:2: the tag <a is malformed");
        assert_eq!(with("\n"), "m.xml:3: the file ends inside <topology>");
        assert_eq!(with("<b a=b>"), "m.xml:2: a has no value in double quotes");
        assert_eq!(with("<b a=\"b>"), "m.xml:2: a value without an end (\")");
        assert_eq!(with("<b a=\"1\" a=\"1\">"), "m.xml:2: a is there twice");
        assert!(with(&"<a>".repeat(200)).ends_with("too deeply"));
        assert_eq!(with("</topology>\n<a/>"), "m.xml:3: a second top-level element");
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
            (pu(1, "0x1"), "m.xml:3: the cpuset of a PU is not its os_index"),
            (pu(2, "0x4"), "m.xml:3: cpuset goes beyond that of the object around it"),
            (pu(0, "0xz"), "m.xml:3: cpuset holds 'z': not a bitmap"),
            (pu(0, "0xf...f"), "m.xml:3: cpuset has no end"),
            (
                pu(1, "0x2") + &pu(0, "0x1"),
                "m.xml:3: objects are not in the order of their CPUs",
            ),
            (
                pu(0, "0x1") + &pu(0, "0x1").replace("10", "11"),
                "m.xml:3: cpuset has CPUs of an object before",
            ),
            (
                pu(0, "0x1") + &pu(0, "0x1"),
                "m.xml:3: gp_index is no number of its own",
            ),
            ("<object cpuset=\"0x1\"/>".into(), "m.xml:3: an <object> without a type"),
            ("<object type=\"Core\"/>".into(), "m.xml:3: an object without a cpuset"),
        ] {
            let said = inside(&objects);
            assert!(said.starts_with(expected), "{objects}\n{said}");
        }
    }
}
