// SPDX-License-Identifier: GPL-2.0-only
//! Machine files: `machines/NAME.toml`.
//!
//! ```toml
//! description = "two sockets of 8 cores"
//! hz = 250
//! cpuperf_min = 256                         # how slow a policy can make CPUs, of 1024; default 1024: frequencies are fixed
//! topology = "pack:2 [numa] l3:1(size=25952256) core:8 pu:2(indexes=2*16:16*1)"
//! distances = [[10, 21], [21, 10]]          # SLIT; optional
//! memory = "flat"                           # tasks' is not placed by node; default "first-touch"
//! kernel_node = 0                           # all of the kernel's is there; default: where it is used
//! policies = "native"                       # they stand for schedulers in C; default "bpf"
//!
//! [task_struct]                             # so far apart they compete for an L2 of so many ways; default: they do not
//! apart = "8 KiB"
//! ways = 8
//! line = { ns = { same = 0, core = 20, llc = 20, node = 200, remote = 200 }, source = "..." }
//!
//! [costs]                                   # what is missing stands at Costs::default()
//! context_switch = { ns = 600, source = "lat_ctx" }
//! bpf_insn = { ps = 350, source = "..." }
//! cache_line = { ns = { same = 0, core = 5, llc = 25, node = 60, remote = 120 }, source = "..." }
//! [costs.kfuncs]
//! scx_bpf_kick_cpu = { ns = 40, source = "..." }
//! ```
//!
//! `topology` is one of: an hwloc synthetic string; `{ xml = "FILE" }`, hwloc XML beside the
//! machine file; `{ inline = '''TEXT''' }`, the XML itself; absent, with `[[cpus]]` groups instead, for machines hwloc strings cannot say:
//!
//! ```toml
//! [[cpus]]                                  # CPU ids run on from group to group
//! cores = 6                                 # threads of a core get adjacent ids
//! threads = 2                               # default 1
//! capacity = 1024                           # default 1024, the fastest
//! package = 0                               # default 0
//! node = 0                                  # default 0
//! llc = 0                                   # default: one for each group
//! l1d = "48 KiB"                            # caches as one CPU sees them; default none
//! l2 = "1280 KiB"
//! llc_size = "24 MiB"
//! ```
//!
//! With `topology`, `[[kind]]` entries (`cpus = "4-7"`, `capacity = 600`) set capacities.
//! Unknown keys are errors: a misspelt constant would silently stand at its default.

use crate::costs::{ByDistance, CONSTANTS, Costs, Slot, TASK_LINE};
use crate::definition::Definition;
use crate::error::{Error, nearest};
use crate::parts::Found;
use crate::topology::{Cpu, TaskSets, Topology};
use crate::{MAX_CPUS, MachineSpec, synthetic, xml};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest machine file that is read, in bytes.
pub(crate) const MAX_BYTES: u64 = 8 << 20;

type Value<'a> = Spanned<DeValue<'a>>;

/// Reads the machine file `text`. `place` names it in messages; `dir` is where it lies (none for
/// the built-in machines, which refer to no other file).
pub(crate) fn parse(name: &str, place: &str, text: &str, dir: Option<&Path>) -> Result<Definition, Error> {
    let source = Source { place, text };
    let root = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        source.error(at, format!("not TOML: {}", e.message().replace('\n', " ")))
    })?;
    let root = Section {
        source,
        at: 0,
        what: "a machine file",
        table: root.get_ref(),
    };
    root.only(&[
        "description",
        "hz",
        "cpuperf_min",
        "topology",
        "cpus",
        "kind",
        "distances",
        "memory",
        "kernel_node",
        "task_struct",
        "policies",
        "costs",
    ])?;

    let description = root.required("description")?;
    let description = source.string(description, "description")?.to_owned();
    if description.is_empty() || description.contains('\n') {
        return Err(source.error(root.at("description"), "description is not one line of text"));
    }
    let hz = root.required("hz")?;
    let hz = source.number(hz, "hz", 10, 10_000)?;
    let cpuperf_min = match root.table.get("cpuperf_min") {
        Some(value) => source.number(value, "cpuperf_min", 1, 1024)?,
        None => 1024,
    };

    let mut found = match (root.table.get("topology"), root.table.get("cpus")) {
        (Some(topology), None) => topology_value(source, topology, dir)?,
        (None, Some(groups)) => groups_value(source, groups)?,
        (Some(_), Some(_)) => {
            return Err(source
                .error(root.at("cpus"), "both topology and [[cpus]]")
                .hint("one of them says what the machine is"));
        }
        (None, None) => {
            return Err(source
                .error(0, "neither topology nor [[cpus]]")
                .hint("topology = \"node:2 core:8 pu:2\", topology = { xml = \"FILE\" }, or [[cpus]] groups"));
        }
    };
    if let Some(kinds) = root.table.get("kind") {
        kinds_value(source, kinds, &mut found.topology)?;
    }
    let fastest = found.topology.cpus.iter().map(|c| c.capacity).max().unwrap_or(0);
    if fastest != 1024 {
        let key = if root.table.contains_key("kind") {
            "kind"
        } else {
            "cpus"
        };
        return Err(source
            .error(root.at(key), format!("the fastest CPU has capacity {fastest}"))
            .hint("capacities are relative: the fastest kind is 1024"));
    }
    if let Some(distances) = root.table.get("distances") {
        let nodes = found.topology.nodes.len();
        let matrix = distances_value(source, distances, nodes)?;
        found.topology = Topology::new(found.topology.cpus, matrix);
    }
    let (mut costs, mut cost_sources) = (Costs::default(), BTreeMap::new());
    if let Some(table) = root.table.get("costs") {
        costs_value(source, table, &mut costs, &mut cost_sources)?;
    }
    if let Some(memory) = root.table.get("memory") {
        costs.flat_memory = match source.string(memory, "memory")? {
            "first-touch" => false,
            "flat" => true,
            other => {
                return Err(source
                    .error(root.at("memory"), format!("memory {other:?}"))
                    .hint("\"first-touch\" (the default) or \"flat\": not placed by node"));
            }
        };
    }
    if let Some(policies) = root.table.get("policies") {
        costs.native = match source.string(policies, "policies")? {
            "bpf" => false,
            "native" => true,
            other => {
                return Err(source
                    .error(root.at("policies"), format!("policies {other:?}"))
                    .hint("\"bpf\" (the default) or \"native\": they stand for schedulers in C"));
            }
        };
    }
    if let Some(node) = root.table.get("kernel_node") {
        let nodes = found.topology.nodes.len() as u32;
        found.topology.kernel_node = Some(source.number(node, "kernel_node", 0, nodes - 1)?);
    }
    if let Some(value) = root.table.get("task_struct") {
        let section = source.section(value, "task_struct")?;
        section.only(&["apart", "ways", "line"])?;
        let apart = section.required("apart")?;
        let bytes = source.bytes(apart, "apart")?;
        if !bytes.is_power_of_two() {
            return Err(source
                .error(apart.span().start, format!("apart is {bytes}"))
                .hint("a power of two: structures compete when they begin at the same place of a cache's way"));
        }
        let entry = source.section(section.required("line")?, "line")?;
        entry.only(&["ns", "source"])?;
        let line = by_distance(source, entry.required("ns")?, "line")?;
        cost_sources.insert(TASK_LINE.to_owned(), entry.source_text()?);
        let sets = TaskSets {
            apart: bytes,
            ways: source.number(section.required("ways")?, "ways", 1, 64)?,
            line,
        };
        let cpus = found.topology.cpus.iter();
        let most = cpus.map(|cpu| sets.count(cpu.l2_bytes)).max().unwrap_or(1);
        if most > MAX_SETS {
            return Err(source
                .error(
                    apart.span().start,
                    format!("an L2 has {most} sets of task_structs that are {bytes} bytes apart"),
                )
                .hint(format!(
                    "at most {MAX_SETS}: use a larger distance, more ways or a smaller L2"
                )));
        }
        found.topology.task_sets = Some(sets);
    }
    Ok(Definition {
        spec: MachineSpec {
            name: name.to_owned(),
            description,
            topology: found.topology,
            hz,
            cpuperf_min,
            costs,
        },
        origin: place.to_owned(),
        notes: found.notes,
        cost_sources,
    })
}

/// Most sets of task_structs in an L2: the simulation keeps the lines of each set of each core.
const MAX_SETS: u64 = 4096;

fn topology_value(source: Source, value: &Value, dir: Option<&Path>) -> Result<Found, Error> {
    let at = value.span().start;
    if let DeValue::String(text) = value.get_ref() {
        let place = source.line(at);
        return synthetic::parse(&place, text)?.number(&place);
    }
    let section = source.section(value, "topology")?;
    section.only(&["xml", "inline"])?;
    if let Some(inline) = section.table.get("inline") {
        if section.table.contains_key("xml") {
            return Err(source.error(at, "both xml and inline"));
        }
        let text = source.string(inline, "inline")?;
        let place = format!("{} (inline)", source.line(inline.span().start));
        return xml::parse(&place, text)?.number(&place);
    }
    let file = source.string(section.required("xml")?, "xml")?;
    let Some(dir) = dir else {
        return Err(source.error(at, "a built-in machine cannot refer to a file"));
    };
    let path = dir.join(file);
    let text = read(&path, xml::MAX_BYTES).map_err(|e| source.error(at, e.to_string()))?;
    let place = path.display().to_string();
    xml::parse(&place, &text)?.number(&place)
}

fn groups_value(source: Source, value: &Value) -> Result<Found, Error> {
    const KEYS: [&str; 9] = [
        "cores", "threads", "capacity", "package", "node", "llc", "l1d", "l2", "llc_size",
    ];
    let mut cpus = Vec::new();
    let mut cores = 0;
    let mut labels = Labels::default();
    for (group, value) in source.array(value, "cpus")?.iter().enumerate() {
        let section = source.section(value, "a [[cpus]] group")?;
        section.only(&KEYS)?;
        let number = |key: &str, default: u32, min: u32, max: u32| match section.table.get(key) {
            Some(value) => source.number(value, key, min, max),
            None => Ok(default),
        };
        let bytes = |key: &str| match section.table.get(key) {
            Some(value) => source.bytes(value, key),
            None => Ok(0),
        };
        section.required("cores")?;
        let group_cores = number("cores", 0, 1, MAX_CPUS)?;
        let threads = number("threads", 1, 1, 8)?;
        // A group without an llc label has one of its own, past every label a file may use.
        let llc = number("llc", MAX_CPUS + group as u32, 0, MAX_CPUS - 1)?;
        let package = number("package", 0, 0, MAX_CPUS - 1)?;
        let cpu = Cpu {
            core: 0,
            thread: 0,
            llc: labels
                .llc(llc, package)
                .ok_or_else(|| source.error(section.at("llc"), format!("llc {llc} is in two packages")))?,
            node: labels.node(number("node", 0, 0, MAX_CPUS - 1)?),
            package: labels.package(package),
            capacity: number("capacity", 1024, 1, 1024)?,
            l1d_bytes: bytes("l1d")?,
            l2_bytes: bytes("l2")?,
            llc_bytes: bytes("llc_size")?,
        };
        if cpus.len() as u64 + u64::from(group_cores) * u64::from(threads) > u64::from(MAX_CPUS) {
            let message = format!("more than the {MAX_CPUS} CPUs supported");
            return Err(source.error(section.at("cores"), message));
        }
        for _ in 0..group_cores {
            for thread in 0..threads {
                cpus.push(Cpu {
                    core: cores,
                    thread,
                    ..cpu.clone()
                });
            }
            cores += 1;
        }
    }
    if cpus.is_empty() {
        return Err(source.error(value.span().start, "no [[cpus]] group"));
    }
    Ok(Found {
        topology: Topology::new(cpus, Vec::new()),
        notes: Vec::new(),
        model: None,
    })
}

/// Labels of a file to dense ids, in order of appearance.
#[derive(Default)]
struct Labels {
    llcs: Vec<(u32, u32)>,
    nodes: Vec<u32>,
    packages: Vec<u32>,
}

impl Labels {
    fn dense<T: PartialEq>(known: &mut Vec<T>, label: T) -> u32 {
        let id = known.iter().position(|k| *k == label).unwrap_or(known.len());
        if id == known.len() {
            known.push(label);
        }
        id as u32
    }

    /// None if the label was used in another package.
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

fn kinds_value(source: Source, value: &Value, topology: &mut Topology) -> Result<(), Error> {
    for value in source.array(value, "kind")? {
        let section = source.section(value, "a [[kind]]")?;
        section.only(&["cpus", "capacity"])?;
        let capacity = source.number(section.required("capacity")?, "capacity", 1, 1024)?;
        let list = source.string(section.required("cpus")?, "cpus")?;
        let bad = |message: String| {
            source
                .error(section.at("cpus"), message)
                .hint("a CPU list reads like \"0-3,8\"")
        };
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
                return Err(bad(format!("{range:?} is not a range of CPUs")));
            };
            if first > last || last >= topology.nr_cpus() {
                return Err(bad(format!(
                    "CPUs {range} of a machine with CPUs 0-{}",
                    topology.nr_cpus() - 1
                )));
            }
            for cpu in first..=last {
                topology.cpus[cpu as usize].capacity = capacity;
            }
        }
    }
    Ok(())
}

fn distances_value(source: Source, value: &Value, nodes: usize) -> Result<Vec<Vec<u32>>, Error> {
    let shape = |at: usize, rows: usize| {
        source
            .error(at, format!("{rows} distances for a machine of {nodes} nodes"))
            .hint("a square matrix, one row a node: distances = [[10, 20], [20, 10]]")
    };
    let rows = source.array(value, "distances")?;
    if rows.len() != nodes {
        return Err(shape(value.span().start, rows.len()));
    }
    let mut matrix = Vec::with_capacity(nodes);
    for (from, row) in rows.iter().enumerate() {
        let values = source.array(row, "a row of distances")?;
        if values.len() != nodes {
            return Err(shape(row.span().start, values.len()));
        }
        let mut out = Vec::with_capacity(nodes);
        for (to, value) in values.iter().enumerate() {
            let distance = source.number(value, "a distance", 10, 255)?;
            if (from == to) != (distance == 10) {
                return Err(source
                    .error(
                        value.span().start,
                        format!("distance {distance} from node {from} to {to}"),
                    )
                    .hint("10 is a node's distance to itself and to no other (ACPI SLIT)"));
            }
            out.push(distance);
        }
        matrix.push(out);
    }
    Ok(matrix)
}

fn by_distance(source: Source, value: &Value, what: &str) -> Result<ByDistance, Error> {
    let section = source.section(value, what)?;
    section.only(&ByDistance::NAMES)?;
    let mut values = [0; 5];
    for (value, name) in values.iter_mut().zip(ByDistance::NAMES) {
        *value = source.number(section.required(name)?, name, 0, u32::MAX)?;
    }
    Ok(ByDistance::from_values(values))
}

fn costs_value(
    source: Source,
    value: &Value,
    costs: &mut Costs,
    sources: &mut BTreeMap<String, String>,
) -> Result<(), Error> {
    let section = source.section(value, "[costs]")?;
    let names: Vec<&str> = CONSTANTS.iter().map(|c| c.name).chain(["kfuncs"]).collect();
    section.only(&names)?;
    for constant in &CONSTANTS {
        let Some(value) = section.table.get(constant.name) else {
            continue;
        };
        let entry = source.section(value, constant.name)?;
        let unit = if matches!(constant.slot, Slot::Ps(_)) {
            "ps"
        } else {
            "ns"
        };
        entry.only(&[unit, "source"])?;
        let amount = entry.required(unit)?;
        match constant.slot {
            Slot::Ps(slot) | Slot::Ns(slot) => {
                *slot(costs) = source.number(amount, unit, 0, u32::MAX)?;
            }
            Slot::ByDistance(slot) => {
                *slot(costs) = by_distance(source, amount, constant.name)?;
            }
        }
        sources.insert(constant.name.to_owned(), entry.source_text()?);
    }
    if let Some(kfuncs) = section.table.get("kfuncs") {
        for (name, value) in source.section(kfuncs, "[costs.kfuncs]")?.table {
            let name = name.get_ref();
            let entry = source.section(value, "a kfunc's cost")?;
            entry.only(&["ns", "source"])?;
            let ns = source.number(entry.required("ns")?, "ns", 0, u32::MAX)?;
            costs.kfuncs.insert(name.to_string(), ns);
            sources.insert(format!("kfuncs.{name}"), entry.source_text()?);
        }
    }
    Ok(())
}

/// A whole text file, refused when larger than `max_bytes`.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<String, Error> {
    let place = path.display().to_string();
    let size = std::fs::metadata(path)
        .map_err(|e| Error::new(&place, e.to_string()))?
        .len();
    if size > max_bytes {
        return Err(Error::new(
            &place,
            format!("{size} bytes: more than the {max_bytes} allowed"),
        ));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::new(&place, e.to_string()))?;
    String::from_utf8(bytes).map_err(|_| Error::new(&place, "not a text file (invalid UTF-8)"))
}

/// The file being read, for messages.
#[derive(Clone, Copy)]
struct Source<'a> {
    place: &'a str,
    text: &'a str,
}

impl<'a> Source<'a> {
    fn line(&self, at: usize) -> String {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        format!("{}:{}", self.place, 1 + before.iter().filter(|&&b| b == b'\n').count())
    }

    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error::new(self.line(at), message)
    }

    fn wrong_type(&self, value: &Value, key: &str, expected: &str) -> Error {
        let found = value.get_ref().type_str();
        self.error(
            value.span().start,
            format!("{key} is of type {found}, expected {expected}"),
        )
    }

    fn string<'v>(&self, value: &'v Value, key: &str) -> Result<&'v str, Error> {
        value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.wrong_type(value, key, "a string"))
    }

    fn array<'v, 't>(&self, value: &'v Value<'t>, key: &str) -> Result<&'v [Value<'t>], Error> {
        match value.get_ref() {
            DeValue::Array(array) => Ok(array),
            _ => Err(self.wrong_type(value, key, "an array")),
        }
    }

    fn section<'v>(&self, value: &'v Value<'v>, what: &'v str) -> Result<Section<'v>, Error>
    where
        'a: 'v,
    {
        match value.get_ref().as_table() {
            Some(table) => Ok(Section {
                source: *self,
                at: value.span().start,
                what,
                table,
            }),
            None => Err(self.wrong_type(value, what, "a table")),
        }
    }

    fn number(&self, value: &Value, key: &str, min: u32, max: u32) -> Result<u32, Error> {
        let DeValue::Integer(integer) = value.get_ref() else {
            return Err(self.wrong_type(value, key, "a whole number"));
        };
        i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| (min..=max).contains(n))
            .ok_or_else(|| {
                let at = value.span().start;
                self.error(at, format!("{key} is {integer}, expected {min} to {max}"))
            })
    }

    /// A size: `"32 KiB"`, or a whole number of bytes.
    fn bytes(&self, value: &Value, key: &str) -> Result<u64, Error> {
        let DeValue::String(text) = value.get_ref() else {
            return self.number(value, key, 0, u32::MAX).map(u64::from);
        };
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match text[digits.len()..].trim() {
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => 64,
        };
        match digits.parse::<u64>() {
            Ok(n) if shift < 64 && n < 1 << 32 => Ok(n << shift),
            _ => Err(self
                .error(value.span().start, format!("{key} {text:?} is not a size"))
                .hint("a size reads like \"32 KiB\" or \"8 MiB\"")),
        }
    }
}

/// A table of the file that knows where it is.
struct Section<'a> {
    source: Source<'a>,
    at: usize,
    what: &'a str,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Where a key stands; the table itself if it is missing.
    fn at(&self, key: &str) -> usize {
        self.table
            .get_key_value(key)
            .map_or(self.at, |(key, _)| key.span().start)
    }

    /// Refuses keys other than `allowed`.
    fn only(&self, allowed: &[&str]) -> Result<(), Error> {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !allowed.contains(&name) {
                let hint = match nearest(name, allowed.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("{} has: {}", self.what, allowed.join(", ")),
                };
                return Err(self
                    .source
                    .error(key.span().start, format!("{} has no key {name:?}", self.what))
                    .hint(hint));
            }
        }
        Ok(())
    }

    fn required(&self, key: &str) -> Result<&'a Value<'a>, Error> {
        self.table
            .get(key)
            .ok_or_else(|| self.source.error(self.at, format!("{} without {key:?}", self.what)))
    }

    /// The entry's `source`: where a constant comes from must be said.
    fn source_text(&self) -> Result<String, Error> {
        let value = self.table.get("source").ok_or_else(|| {
            self.source
                .error(self.at, format!("{} without \"source\"", self.what))
                .hint("every cost says where it comes from, if only \"estimate: ...\"")
        })?;
        let text = self.source.string(value, "source")?.trim();
        if text.is_empty() {
            return Err(self.source.error(value.span().start, "source is empty"));
        }
        Ok(text.to_owned())
    }
}
