// SPDX-License-Identifier: GPL-2.0-only
//! The catalog of named machines, and the function that loads the machine which a user specifies.

use crate::costs::Costs;
use crate::definition::Definition;
use crate::parts::Found;
use crate::{CpuIdle, KernelConfig, MachineSpec, file, host, smt, synthetic, xml};
use input::{Error, Source, suggest};
use std::collections::BTreeMap;
use std::path::Path;

/// The machines that are built in, so that the command works without the repository.
const BUILT_IN: [(&str, &str); 12] = [
    ("epyc-2s", include_str!("../../../machines/epyc-2s.toml")),
    ("hybrid", include_str!("../../../machines/hybrid.toml")),
    ("hybrid-itmt", include_str!("../../../machines/hybrid-itmt.toml")),
    ("numa16", include_str!("../../../machines/numa16.toml")),
    ("numa32", include_str!("../../../machines/numa32.toml")),
    ("rpi4", include_str!("../../../machines/rpi4.toml")),
    ("smp1", include_str!("../../../machines/smp1.toml")),
    ("smp2", include_str!("../../../machines/smp2.toml")),
    ("smp4", include_str!("../../../machines/smp4.toml")),
    ("smp8", include_str!("../../../machines/smp8.toml")),
    ("up", include_str!("../../../machines/up.toml")),
    ("x6-2", include_str!("../../../machines/x6-2.toml")),
];

/// Ticks per second if the description does not specify them. Debian and most other distributions
/// use this value.
const DEFAULT_HZ: u32 = 250;

const KINDS: &str = "use a name (`machine list`), a machine file (NAME.toml), an hwloc XML \
     file (`lstopo --of xml FILE`), an hwloc synthetic string (\"node:2 core:8 pu:2\"), or `host`";

/// A named machine, as `machine list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub description: String,
    pub cpus: u32,
    pub nodes: u32,
    pub llcs: u32,
}

/// Loads a machine.
///
/// `spec` is one of
///
/// - a name: of a file `NAME.toml` in the first directory of `search` that contains such a file, or
///   else of a built-in machine,
/// - the path of a machine file or of an hwloc XML file,
/// - an hwloc synthetic string,
/// - `host`.
///
/// # Errors
/// The error contains the position of the error (file and line, if there are any), and what was
/// expected.
pub fn load(spec: &str, search: &[&Path]) -> Result<MachineSpec, Error> {
    define(spec, search).map(|definition| definition.spec)
}

/// Loads a machine as [`load`] does, together with the source of each of its numbers: the
/// measurement, document or assumption from which the number comes.
///
/// # Errors
/// The same as those of [`load`].
pub fn define(spec: &str, search: &[&Path]) -> Result<Definition, Error> {
    let spec = spec.trim();
    if spec.is_empty() {
        return Err(Error::at("machine", "the machine is empty").hint(KINDS));
    }
    if spec == "host" {
        return this_machine();
    }
    let path = Path::new(spec);
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if extension == "toml" || path.is_file() && extension != "xml" && !begins_as_xml(path) {
        return machine_file(path);
    }
    if extension == "xml" || path.is_file() {
        let source = Source::read(path, xml::MAX_BYTES).map_err(|e| e.hint(KINDS))?;
        return from_xml(spec, &source.text);
    }
    if is_name(spec) {
        for dir in search {
            let path = dir.join(format!("{spec}.toml"));
            if path.is_file() {
                return machine_file(&path);
            }
        }
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == spec) {
            let path = format!("machines/{name}.toml");
            let mut definition = file::parse(name, &Source::new(path, *text), None)?;
            definition.origin = "built in".into();
            return Ok(definition);
        }
    }
    if spec.starts_with(|c: char| c.is_ascii_digit()) || spec.contains([':', ' ', '(', '[']) {
        return from_synthetic(spec);
    }
    let error = Error::at("machine", format!("there is no machine {spec:?}"));
    let names = names(search);
    Err(match suggest::nearest(spec, names.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}? {KINDS}")),
        None => error.hint(format!("known names: {}; {KINDS}", names.join(", "))),
    })
}

/// Loads a machine from the text of a machine file. The text cannot refer to another file.
///
/// # Errors
/// The same as those of [`load`].
pub fn from_toml(name: &str, text: &str) -> Result<Definition, Error> {
    file::parse(name, &Source::new(name, text), None)
}

/// Loads a machine from the text of an hwloc XML file.
///
/// # Errors
/// The same as those of [`load`].
pub fn from_xml(name: &str, text: &str) -> Result<Definition, Error> {
    let found = xml::parse(name, text)?.number(name)?;
    let description = described(&found, "hwloc topology");
    Ok(from_hwloc(name, description, name, DEFAULT_HZ, found))
}

/// Loads a machine from an hwloc synthetic string.
///
/// # Errors
/// The same as those of [`load`].
pub fn from_synthetic(text: &str) -> Result<Definition, Error> {
    let found = synthetic::parse("machine", text)?.number("machine")?;
    let description = described(&found, "hwloc synthetic machine");
    let origin = "hwloc synthetic string";
    Ok(from_hwloc(text, description, origin, DEFAULT_HZ, found))
}

/// Returns all named machines, sorted by name: the built-in ones and those with a file in a
/// directory of `search`. Also returns the errors of invalid files.
pub fn list(search: &[&Path]) -> (Vec<Listed>, Vec<Error>) {
    let (mut listed, mut errors) = (Vec::new(), Vec::new());
    for name in names(search) {
        match load(&name, search) {
            Ok(spec) => listed.push(Listed {
                description: spec.description,
                cpus: spec.topology.nr_cpus(),
                nodes: input::index(spec.topology.nodes.len()),
                llcs: input::index(spec.topology.llcs.len()),
                name,
            }),
            Err(error) => errors.push(error),
        }
    }
    (listed, errors)
}

/// Returns all names, sorted.
fn names(search: &[&Path]) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect();
    for dir in search {
        let Ok(entries) = std::fs::read_dir(dir) else {
            continue;
        };
        for path in entries.flatten().map(|e| e.path()) {
            let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
            if path.extension().is_some_and(|e| e == "toml") && is_name(stem) {
                names.push(stem.to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

fn is_name(spec: &str) -> bool {
    spec != "host"
        && spec.starts_with(|c: char| c.is_ascii_alphanumeric())
        && spec.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn begins_as_xml(path: &Path) -> bool {
    use std::io::Read;
    let mut first = [0; 64];
    let read = std::fs::File::open(path)
        .and_then(|mut f| f.read(&mut first))
        .unwrap_or(0);
    first[..read].trim_ascii_start().starts_with(b"<")
}

fn machine_file(path: &Path) -> Result<Definition, Error> {
    let source = Source::read(path, file::MAX_BYTES).map_err(|e| e.hint(KINDS))?;
    let name = path
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    file::parse(&name, &source, path.parent())
}

fn this_machine() -> Result<Definition, Error> {
    let mut found = host::read(Path::new("/"))?.parts().number("host")?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let config = std::fs::read_to_string(format!("/boot/config-{}", release.trim()));
    let hz = config.ok().and_then(|c| {
        c.lines()
            .find_map(|l| l.strip_prefix("CONFIG_HZ="))
            .and_then(|hz| hz.parse().ok())
    });
    if hz.is_none() {
        found.notes.push(format!(
            "CONFIG_HZ of this kernel cannot be read, so {DEFAULT_HZ} is assumed"
        ));
    }
    let description = described(&found, "this machine");
    Ok(from_hwloc("host", description, "host", hz.unwrap_or(DEFAULT_HZ), found))
}

fn described(found: &Found, otherwise: &str) -> String {
    found.model.clone().unwrap_or_else(|| otherwise.to_owned())
}

fn from_hwloc(name: &str, description: String, origin: &str, hz: u32, found: Found) -> Definition {
    Definition {
        spec: MachineSpec {
            name: name.to_owned(),
            description,
            smt_throughput: smt::default_throughput(&found.topology),
            turn_ns: 0,
            topology: found.topology,
            hz,
            cpuperf_min: 1024,
            frequency: crate::Frequency::default(),
            priorities: Vec::new(),
            nohz_full: Vec::new(),
            speeds: Vec::new(),
            kernel: KernelConfig::default(),
            noise: None,
            cpuidle: CpuIdle::default(),
            costs: Costs::default(),
        },
        origin: origin.to_owned(),
        notes: [found.notes, found.speed_notes].concat(),
        cost_sources: BTreeMap::new(),
    }
}
