// SPDX-License-Identifier: GPL-2.0-only
//! Parses a BPF object file: the part of loading that does not depend on the kernel.
//!
//! [`Object::parse`] reads the output of clang or libbpf's linker. Before linking, the caller can
//! [set](Object::set) globals and [resize](Object::resize) arrays and maps, as users of libbpf do
//! between open and load.

pub(crate) mod differences;
pub(crate) mod elf;
pub(crate) mod ext;
pub(crate) mod fields;
mod maps;
pub(crate) mod param;
pub(crate) mod program;
pub(crate) mod value;

pub use differences::Difference;
pub use param::Variable;
pub use program::{Program, ProgramKind};

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::btf::{Btf, parse};
use crate::error::Error;
use crate::image::MapDef;
use elf::Elf;
use ext::Ext;

/// Name of the section with the globals that lie in the arena.
pub(crate) const ARENA_SECTION: &str = ".addr_space.1";

/// An object file that was parsed and checked but not yet linked for a kernel.
#[derive(Clone, Debug)]
pub struct Object {
    /// File name, for messages.
    pub file: String,
    /// License string, or an empty text if the object has no license.
    pub license: String,
    pub(crate) elf: Elf,
    pub(crate) btf: Btf,
    pub(crate) ext: Ext,
    pub(crate) maps: Vec<DeclaredMap>,
    pub(crate) variables: Vec<Variable>,
    /// Static variables. User space cannot set them, because the compiler may have replaced them by
    /// their values.
    pub(crate) statics: Vec<Variable>,
}

/// A map variable of the .maps section.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredMap {
    pub(crate) def: MapDef,
    /// Offset of the variable in .maps. Symbols refer to this offset.
    pub(crate) offset: u64,
    /// For a map of maps or a program array, the offset in .maps of its initial values, which are
    /// pointers.
    pub(crate) values_offset: Option<u64>,
    /// End of the variable in .maps, including its initial values.
    pub(crate) end: u64,
}

/// How the loader uses a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// Instructions.
    Code,
    /// Global variables that a policy cannot change.
    Rodata,
    /// Global variables.
    Data,
    /// Global variables in the arena.
    Arena,
    /// Map definitions.
    Maps,
    /// struct_ops variables.
    StructOps,
    /// The loader does not use the section after parsing.
    Other,
}

/// Maximum size of an object file in bytes. Objects of real schedulers have less than 10 MiB with
/// debug information.
const MAX_FILE: u64 = 64 << 20;

impl Object {
    /// Reads the object file at a path.
    pub fn open(path: &Path) -> Result<Object, Error> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|open| open.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| Error::new(error.to_string()).in_file(&file))?;
        Object::parse(&bytes, &file)
    }

    /// Parses an object file in memory. `file` is its name for messages.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Object, Error> {
        parse_object(bytes, file).map_err(|error| error.in_file(file))
    }

    /// Returns the object's types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// Returns the maps that the object declares.
    pub fn maps(&self) -> impl Iterator<Item = &MapDef> {
        self.maps.iter().map(|map| &map.def)
    }

    /// Returns the names of the object's programs.
    pub fn program_names(&self) -> impl Iterator<Item = &str> {
        let functions = self.elf.symbols.iter().filter(|symbol| {
            let section = symbol
                .section
                .filter(|&index| self.section_kind(index) == SectionKind::Code);
            let is_program = section.is_some_and(|index| self.elf.sections[index].name != ".text");
            symbol.kind == elf::SymbolKind::Function && !symbol.local && is_program
        });
        functions.map(|symbol| symbol.name.as_str())
    }

    /// Returns the kernel functions and tracepoints to which the object's programs are to be attached.
    pub fn attach_points(&self) -> Vec<(ProgramKind, String)> {
        let sections = self.elf.sections.iter().filter(|section| section.executable);
        let points = sections.map(|section| {
            let (kind, target, ..) = program::parse_section(&section.name);
            (kind, target.to_owned())
        });
        points.filter(|(_, target)| !target.is_empty()).collect()
    }

    /// Returns the names and the sizes of the sections of globals that become maps.
    pub fn data_sections(&self) -> impl Iterator<Item = (&str, u64)> {
        let sections = self.elf.sections.iter().enumerate();
        sections
            .filter(|&(index, _)| matches!(self.section_kind(index), SectionKind::Rodata | SectionKind::Data))
            .map(|(_, section)| (section.name.as_str(), section.size))
    }

    /// Replaces the contents of a section of globals. It may become longer or shorter. Returns false
    /// if there is no such section.
    pub fn set_section(&mut self, name: &str, bytes: &[u8]) -> bool {
        let Some(section) = self.elf.sections.iter_mut().find(|section| section.name == name) else {
            return false;
        };
        section.size = bytes.len() as u64;
        // Zeros at the end take no memory.
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        section.data = bytes[..end].to_vec();
        section.pages.clear();
        true
    }

    /// Sets the number of entries of a map, as `bpf_map__set_max_entries` does.
    pub fn set_max_entries(&mut self, map: &str, entries: u32) -> Result<(), Error> {
        self.map_mut(map)?.max_entries = entries;
        Ok(())
    }

    /// Sets the value size of a map in bytes, as `bpf_map__set_value_size` does.
    pub fn set_value_size(&mut self, map: &str, bytes: u32) -> Result<(), Error> {
        self.map_mut(map)?.value_size = bytes;
        Ok(())
    }

    fn map_mut(&mut self, name: &str) -> Result<&mut MapDef, Error> {
        let file = self.file.clone();
        let found = self.maps.iter_mut().find(|map| map.def.name == name);
        found
            .map(|map| &mut map.def)
            .ok_or_else(|| Error::new(format!("no map is called {name}")).in_file(&file))
    }

    pub(crate) fn section_kind(&self, index: usize) -> SectionKind {
        section_kind(&self.elf.sections[index])
    }
}

fn section_kind(section: &elf::Section) -> SectionKind {
    match section.name.strip_prefix('?').unwrap_or(&section.name) {
        _ if section.executable => SectionKind::Code,
        ".maps" => SectionKind::Maps,
        ".struct_ops" | ".struct_ops.link" => SectionKind::StructOps,
        ARENA_SECTION => SectionKind::Arena,
        "license" | "version" | ".BTF" | ".BTF.ext" => SectionKind::Other,
        _ if !section.allocated || section.size == 0 => SectionKind::Other,
        name if name.starts_with(".rodata") => SectionKind::Rodata,
        _ => SectionKind::Data,
    }
}

fn parse_object(bytes: &[u8], file: &str) -> Result<Object, Error> {
    if bytes.len() as u64 > MAX_FILE {
        let error = Error::new(format!(
            "the file is larger than {} MiB, the maximum for an object",
            MAX_FILE >> 20
        ));
        return Err(error.hint("remove debug information with llvm-strip -g"));
    }
    let elf = Elf::parse(bytes)?;
    let license = elf.section("license").map(|section| {
        let text = section.data.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    });
    let (mut btf, mut ext) = (Btf::default(), Ext::default());
    if let Some(section) = elf.section(".BTF").filter(|section| !section.data.is_empty()) {
        let parsed = parse::parse(&section.data)?;
        btf = parsed.btf;
        if let Some(section) = elf.section(".BTF.ext").filter(|section| !section.data.is_empty()) {
            ext = Ext::parse(&section.data, &parsed.strings, btf.len())?;
        }
    }
    if let Some(section) = elf.section("maps").filter(|section| section.size > 0) {
        let error = Error::at(
            &section.name,
            0,
            "legacy map definitions are not supported, as in libbpf 1.0",
        );
        return Err(error.hint("declare maps with BTF in SEC(\".maps\")"));
    }
    let maps = maps::declared(&elf, &btf)?;
    let (variables, statics) = param::variables(&elf, &btf)?;
    let license = license.unwrap_or_default();
    Ok(Object {
        file: file.to_string(),
        license,
        elf,
        btf,
        ext,
        maps,
        variables,
        statics,
    })
}

/// Returns id, offset and size of each variable of a section. The offsets of static variables come
/// from the BTF, the offsets of other variables from their symbols.
pub(crate) fn section_vars(elf: &Elf, btf: &Btf, name: &str) -> Result<Vec<(u32, u64, u32)>, Error> {
    use crate::btf::{STATIC, TypeKind};
    let Some(index) = elf.sections.iter().position(|section| section.name == name) else {
        return Ok(Vec::new());
    };
    let Some(id) = btf.find(name, |kind| matches!(kind, TypeKind::Datasec { .. })) else {
        return Ok(Vec::new());
    };
    let TypeKind::Datasec { vars, .. } = btf.kind(id) else {
        return Ok(Vec::new());
    };
    let symbols: BTreeMap<&str, u64> = elf
        .symbols
        .iter()
        .filter(|symbol| symbol.section == Some(index) && !symbol.local)
        .map(|symbol| (symbol.name.as_str(), symbol.offset))
        .collect();
    let mut found = Vec::new();
    for info in vars {
        let TypeKind::Var { ty, linkage } = *btf.kind(info.ty) else {
            continue;
        };
        let offset = match symbols.get(btf.name(info.ty)) {
            Some(&offset) if linkage != STATIC => offset,
            _ => u64::from(info.offset),
        };
        let size = btf.size_of(ty).unwrap_or(info.size);
        let section = &elf.sections[index];
        if offset + u64::from(size) > section.size {
            // If the compiler has optimised away a part of a static variable, the BTF still has its
            // full size, and the variable may seem to end beyond its section.
            if linkage == STATIC {
                continue;
            }
            let message = format!(
                "variable {} lies beyond the section's {} bytes",
                btf.name(info.ty),
                section.size
            );
            return Err(Error::at(name, offset, message));
        }
        found.push((info.ty, offset, size));
    }
    found.sort_by_key(|var| var.1);
    Ok(found)
}
