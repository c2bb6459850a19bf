// SPDX-License-Identifier: GPL-2.0-only
//! Reads the ELF file: sections, symbols, relocations.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};

use crate::error::Error;
use crate::memory::PAGE;
use input::to_usize;
use std::collections::BTreeMap;

/// Relocation type R_BPF_64_64, for a 64-bit constant in a pair of instructions.
pub(crate) const R_BPF_64_64: u32 = 1;
/// Relocation type R_BPF_64_ABS64, for a pointer in data.
pub(crate) const R_BPF_64_ABS64: u32 = 2;
/// Relocation type R_BPF_64_32, for the target of a call.
pub(crate) const R_BPF_64_32: u32 = 10;

/// Maximum size of a data section in bytes, which is the size of an arena.
const MAX_SECTION: u64 = 4 << 30;

/// Size of a page in bytes, as a `usize`.
const PAGE_BYTES: usize = 4096;
const _: () = assert!(PAGE_BYTES as u64 == PAGE);

/// A section. For sections that the loader does not use (debug information, string tables), `data`
/// and `relocations` are empty.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// Size in bytes. `data` contains the first bytes of the section, and `pages` some of the
    /// others. All further bytes are zeros.
    pub(crate) size: u64,
    pub(crate) data: Vec<u8>,
    /// Pages that contain a value which was set beyond `data`, by their offset in the section.
    /// Sections of zeros can be large, and are copied for each run.
    pub(crate) pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
    pub(crate) executable: bool,
    /// Whether the section occupies memory when it is loaded.
    pub(crate) allocated: bool,
    pub(crate) relocations: Vec<Relocation>,
}

/// A location in a section whose value depends on a symbol. The addend, which is added to the value
/// of the symbol, is stored at the location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) offset: u64,
    pub(crate) kind: u32,
    /// Index in [`Elf::symbols`].
    pub(crate) symbol: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Function,
    Object,
    Section,
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// Section of the symbol, or `None` if the symbol is external.
    pub(crate) section: Option<usize>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) kind: SymbolKind,
    pub(crate) local: bool,
    pub(crate) weak: bool,
}

/// The parts of the ELF file that the loader uses.
#[derive(Clone, Debug)]
pub(crate) struct Elf {
    /// Sections by ELF section index.
    pub(crate) sections: Vec<Section>,
    /// Symbols by ELF symbol index.
    pub(crate) symbols: Vec<Symbol>,
}

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Elf, Error> {
        if !bytes.starts_with(b"\x7fELF") {
            let hint = "give the .bpf.o file that clang -target bpf writes";
            return Err(Error {
                offset: Some(0),
                ..Error::new("the file is not an ELF file")
            }
            .hint(hint));
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            let error = Error {
                offset: Some(4),
                ..Error::new("the file is not a 64-bit little-endian ELF file")
            };
            return Err(error.hint("compile with -target bpf -mlittle-endian"));
        }
        let header = elf::FileHeader64::<LE>::parse(bytes).map_err(broken("ELF header"))?;
        let machine = header.e_machine(LE);
        if machine != elf::EM_BPF {
            let error = Error {
                offset: Some(18),
                ..Error::new(format!("the machine is {machine:?}, not BPF"))
            };
            return Err(error.hint("compile with -target bpf"));
        }
        if header.e_type(LE) != elf::ET_REL {
            return Err(Error {
                offset: Some(16),
                ..Error::new("the file is not a relocatable object file")
            });
        }
        let table = header.sections(LE, bytes).map_err(broken("ELF section table"))?;
        let mut sections = Vec::new();
        for (index, section) in table.enumerate() {
            if index.0 == 0 {
                sections.push(Section::empty(""));
                continue;
            }
            let name = table
                .section_name(LE, section)
                .map_err(broken(&format!("name of section {}", index.0)))?;
            let name = String::from_utf8_lossy(name).into_owned();
            let (kind, size, flags) = (section.sh_type(LE), section.sh_size(LE), section.sh_flags(LE));
            let wanted = !name.starts_with(".debug") && (kind == elf::SHT_PROGBITS || kind == elf::SHT_NOBITS);
            if !wanted {
                sections.push(Section::empty(&name));
                continue;
            }
            if size > MAX_SECTION {
                return Err(Error::new(format!(
                    "the section has {size} bytes, but at most {MAX_SECTION} are possible"
                ))
                .in_section(&name));
            }
            let data = section.data(LE, bytes).map_err(|error| {
                let message = format!("{error}: {size} bytes at file offset {:#x}", section.sh_offset(LE));
                Error::at(&name, 0, message)
            })?;
            let executable = flags.contains(elf::SHF_EXECINSTR) && kind == elf::SHT_PROGBITS;
            let allocated = flags.contains(elf::SHF_ALLOC);
            sections.push(Section {
                name,
                size,
                data: data.to_vec(),
                pages: BTreeMap::new(),
                executable,
                allocated,
                relocations: Vec::new(),
            });
        }
        let symbols = symbols(&table, bytes, &sections)?;
        for (_, section) in table.enumerate() {
            let target = section.sh_info(LE) as usize;
            let rel = section.rel(LE, bytes).map_err(broken("relocations"))?;
            let (Some((entries, _)), Some(place)) = (rel, sections.get_mut(target)) else {
                continue;
            };
            if place.size == 0 || place.name.starts_with(".BTF") {
                continue;
            }
            for entry in entries {
                let (offset, symbol, kind) = (entry.r_offset.get(LE), entry.r_sym(LE) as usize, entry.r_type(LE));
                if symbol >= symbols.len() {
                    let message = format!("a relocation refers to symbol {symbol}, which does not exist");
                    return Err(Error::at(&place.name, offset, message));
                }
                if offset.checked_add(8).is_none_or(|end| end > place.size) {
                    let message = format!("a relocation lies beyond the section's {} bytes", place.size);
                    return Err(Error::at(&place.name, offset, message));
                }
                place.relocations.push(Relocation {
                    offset,
                    kind: kind.0,
                    symbol,
                });
            }
            place.relocations.sort_by_key(|relocation| relocation.offset);
        }
        Ok(Elf { sections, symbols })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

fn broken(part: &str) -> impl Fn(object::read::Error) -> Error {
    move |error| Error::new(format!("{part}: {error}"))
}

impl Section {
    /// Number of bytes from the start of the section after which all bytes are zeros.
    pub(crate) fn stored(&self) -> u64 {
        let pages = self.pages.last_key_value().map_or(0, |(&at, _)| at + PAGE);
        pages.min(self.size).max(self.data.len() as u64)
    }

    /// Fills `bytes` with the contents of the section from `offset` on.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let end = offset + bytes.len() as u64;
        let split = end.min(self.data.len() as u64);
        if offset < split {
            let from = &self.data[to_usize(offset)..to_usize(split)];
            bytes[..from.len()].copy_from_slice(from);
        }
        for (&at, page) in self.pages.range(offset - offset % PAGE..end) {
            let (from, to) = (at.max(offset).max(split), end.min(at + PAGE));
            if from < to {
                bytes[to_usize(from - offset)..to_usize(to - offset)]
                    .copy_from_slice(&page[to_usize(from - at)..to_usize(to - at)]);
            }
        }
    }

    /// Changes the contents of the section from `offset` on.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let split = end.min(self.data.len() as u64).max(offset);
        let first = &bytes[..to_usize(split - offset)];
        if !first.is_empty() {
            self.data[to_usize(offset)..to_usize(split)].copy_from_slice(first);
        }
        let mut from = split;
        while from < end {
            let at = from - from % PAGE;
            let to = end.min(at + PAGE);
            let page = self.pages.entry(at).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[to_usize(from - at)..to_usize(to - at)]
                .copy_from_slice(&bytes[to_usize(from - offset)..to_usize(to - offset)]);
            from = to;
        }
    }

    /// Changes the size of the section. Bytes beyond the old or the new size become zeros.
    pub(crate) fn resize(&mut self, size: u64) {
        self.size = size;
        self.data.truncate(to_usize(size));
        self.pages.retain(|&at, _| at < size);
        if let Some(mut last) = self.pages.last_entry()
            && size - last.key() < PAGE
        {
            let end = to_usize(size - last.key());
            last.get_mut()[end..].fill(0);
        }
    }

    fn empty(name: &str) -> Section {
        Section {
            name: name.to_string(),
            size: 0,
            data: Vec::new(),
            pages: BTreeMap::new(),
            executable: false,
            allocated: false,
            relocations: Vec::new(),
        }
    }

    pub(crate) fn relocation_at(&self, offset: u64) -> Option<&Relocation> {
        let index = self
            .relocations
            .binary_search_by_key(&offset, |relocation| relocation.offset)
            .ok()?;
        Some(&self.relocations[index])
    }
}

fn symbols(
    table: &object::read::elf::SectionTable<'_, elf::FileHeader64<LE>>,
    bytes: &[u8],
    sections: &[Section],
) -> Result<Vec<Symbol>, Error> {
    let symtab = table
        .symbols(LE, bytes, elf::SHT_SYMTAB)
        .map_err(broken("ELF symbol table"))?;
    let mut symbols = Vec::new();
    // The null symbol. Relocations without a symbol refer to it.
    if !symtab.is_empty() {
        symbols.push(Symbol {
            name: String::new(),
            section: None,
            offset: 0,
            size: 0,
            kind: SymbolKind::Other,
            local: true,
            weak: false,
        });
    }
    for (index, symbol) in symtab.enumerate() {
        if index.0 == 0 {
            continue;
        }
        let place = index.0 as u64 * 24;
        let name = symbol
            .name(LE, symtab.strings())
            .map_err(|e| Error::at(".symtab", place, e.to_string()))?;
        let name = String::from_utf8_lossy(name).into_owned();
        let section = symtab
            .symbol_section(LE, symbol, index)
            .map_err(|e| Error::at(".symtab", place, e.to_string()))?;
        let section = section.map(|index| index.0);
        if section.is_some_and(|section| section >= sections.len()) {
            return Err(Error::at(
                ".symtab",
                place,
                format!("symbol {name} is in a section that does not exist"),
            ));
        }
        let kind = match symbol.st_type() {
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_OBJECT => SymbolKind::Object,
            elf::STT_SECTION => SymbolKind::Section,
            _ => SymbolKind::Other,
        };
        let (offset, size) = (symbol.st_value(LE), symbol.st_size(LE));
        if let Some(inside) = section
            .map(|section| &sections[section])
            .filter(|s| !s.data.is_empty() || s.size > 0)
            && offset.checked_add(size).is_none_or(|end| end > inside.size)
        {
            let message = format!(
                "symbol {name} lies beyond the {} bytes of section {}",
                inside.size, inside.name
            );
            return Err(Error::at(".symtab", place, message));
        }
        let bind = symbol.st_bind();
        let (local, weak) = (bind == elf::STB_LOCAL, bind == elf::STB_WEAK);
        symbols.push(Symbol {
            name,
            section,
            offset,
            size,
            kind,
            local,
            weak,
        });
    }
    Ok(symbols)
}
