// SPDX-License-Identifier: GPL-2.0-only
//! Links the code of an object. The linker finds functions by their symbols. The linked code
//! contains the global functions of all program sections, and all functions that they call or refer
//! to. The file `function` links one function, and `constant` fills in the operands that depend on
//! addresses or on the target.
//!
//! The target is the kernel for which the object is linked. A reference to something that the
//! target does not have becomes a trap, an instruction that raises a fault when it is executed.

mod constant;
mod function;

use std::collections::{BTreeMap, BTreeSet};

use super::DataSection;
use super::externs::{Externs, MissingSymbol};
use super::target::Target;
use crate::btf::TypeKind;
use crate::error::Error;
use crate::image::{Code, Insn, LocalType, LocalTypes, MapDef, TRAP};
use crate::memory::Region;
use crate::object::elf::{R_BPF_64_ABS64, Relocation, Symbol, SymbolKind};
use crate::object::fields::special_fields;
use crate::object::program::parse_section;
use crate::object::{Object, Program, SectionKind};
use input::to_usize;

/// Base of the addresses that kfuncs have as values. A kfunc's address is this base plus its index.
/// Programs only compare such an address with 0 and never call it.
const KFUNC_BASE: u64 = 0xffff_ffff_d000_0000;
/// Size in bytes of one instruction in the object. A 64-bit constant takes two such slots.
const SLOT: u64 = 8;

/// A function of the object that can be added to the linked code.
struct Source<'a> {
    section: usize,
    offset: u64,
    size: u64,
    symbol: &'a Symbol,
}

/// State of the linker: the functions that were added so far, and the meaning of symbols.
pub(super) struct Linker<'a> {
    object: &'a Object,
    target: &'a Target,
    externs: Externs<'a>,
    maps: &'a [MapDef],
    data: &'a [DataSection],
    /// All functions of the object, sorted by section and offset.
    sources: Vec<Source<'a>>,
    /// Functions of the linked code, as indices in `sources`.
    added: Vec<usize>,
    /// For each function in `added`: its index in `sources` is the key, its index in `added` the
    /// value.
    index: BTreeMap<usize, usize>,
    /// Names of called kfuncs, numbered in the order of their first use.
    kfuncs: BTreeMap<String, usize>,
    /// Messages of traps, numbered in the order of their first use.
    traps: BTreeMap<String, usize>,
    types: LocalTypes,
    /// Fields, types and enumerators that the target lacks, if the code tests somewhere whether
    /// they exist.
    asked: BTreeSet<String>,
    /// Fields, types and enumerators that the target lacks and that the code uses. Each has a
    /// message.
    unresolved: Vec<(String, String)>,
    /// Fields of the target that the code accesses.
    accessed: BTreeSet<String>,
    warnings: BTreeMap<String, usize>,
}

/// Result of [`Linker::finish`]: parts of an [`Image`](super::Image).
pub(super) struct Linked {
    pub(super) code: Code,
    pub(super) types: LocalTypes,
    pub(super) warnings: Vec<String>,
    pub(super) missing: Vec<MissingSymbol>,
    pub(super) accessed: BTreeSet<String>,
}

impl<'a> Linker<'a> {
    pub(super) fn new(
        object: &'a Object,
        target: &'a Target,
        region: &'a Region,
        maps: &'a [MapDef],
        data: &'a [DataSection],
    ) -> Result<Linker<'a>, Error> {
        let mut sources = Vec::new();
        for symbol in object
            .elf
            .symbols
            .iter()
            .filter(|symbol| symbol.kind == SymbolKind::Function)
        {
            let Some(section) = symbol
                .section
                .filter(|&index| object.section_kind(index) == SectionKind::Code)
            else {
                continue;
            };
            let (offset, size) = (symbol.offset, symbol.size);
            let bytes = &object.elf.sections[section];
            let inside = offset
                .checked_add(size)
                .is_some_and(|end| end <= bytes.data.len() as u64);
            if size == 0 || !inside || !offset.is_multiple_of(SLOT) || !size.is_multiple_of(SLOT) {
                let message = format!(
                    "function {} has {size} bytes, which are not whole instructions of the section",
                    symbol.name
                );
                return Err(Error::at(&bytes.name, offset, message));
            }
            sources.push(Source {
                section,
                offset,
                size,
                symbol,
            });
        }
        // If a function has a global and a local name, the global name is used.
        sources.sort_by_key(|source| (source.section, source.offset, source.symbol.local));
        sources.dedup_by_key(|source| (source.section, source.offset));
        let externs = Externs::new(object, target, region);
        Ok(Linker {
            object,
            target,
            externs,
            maps,
            data,
            sources,
            added: Vec::new(),
            index: BTreeMap::new(),
            kfuncs: BTreeMap::new(),
            traps: BTreeMap::new(),
            types: LocalTypes::new(),
            asked: BTreeSet::new(),
            unresolved: Vec::new(),
            accessed: BTreeSet::new(),
            warnings: BTreeMap::new(),
        })
    }

    /// Records a warning for the user. If the same warning occurs again, it is not recorded again.
    pub(super) fn warn(&mut self, message: String) {
        number(&mut self.warnings, message);
    }

    /// Adds the global functions of all program sections to the linked code, and returns the
    /// programs among them.
    pub(super) fn programs(&mut self) -> Vec<Program> {
        let mut programs = Vec::new();
        for source in 0..self.sources.len() {
            let Source { section, symbol, .. } = self.sources[source];
            let section = &self.object.elf.sections[section].name;
            if section == ".text" || symbol.local {
                continue;
            }
            let (kind, target, auto_attach, sleepable) = parse_section(section);
            let (name, attach_to) = (symbol.name.clone(), target.to_string());
            let function = self.add_function(source);
            programs.push(Program {
                name,
                function,
                kind,
                attach_to,
                auto_attach,
                sleepable,
            });
        }
        programs
    }

    /// Adds a function to the linked code, unless it was added before. Returns its index there.
    fn add_function(&mut self, source: usize) -> usize {
        *self.index.entry(source).or_insert_with(|| {
            self.added.push(source);
            self.added.len() - 1
        })
    }

    /// Adds the function that starts at this offset of a section to the linked code. Returns its
    /// index there, or `None` if no function starts at the offset.
    fn function_at(&mut self, section: usize, offset: u64) -> Option<usize> {
        let found = self
            .sources
            .binary_search_by_key(&(section, offset), |source| (source.section, source.offset));
        Some(self.add_function(found.ok()?))
    }

    /// Returns the function to which a pointer in the data section `section` points.
    pub(super) fn function_target(&mut self, section: &str, relocation: &Relocation) -> Result<usize, Error> {
        let symbol = &self.object.elf.symbols[relocation.symbol];
        let fail = || Error::at(section, relocation.offset, format!("{} is not a function", symbol.name));
        let offset = symbol.offset.wrapping_add(self.addend(section, relocation));
        self.function_at(symbol.section.ok_or_else(fail)?, offset)
            .ok_or_else(fail)
    }

    /// Returns the map to which a pointer in the data section `section` points.
    pub(super) fn map_target(&self, section: &str, relocation: &Relocation) -> Result<usize, Error> {
        let symbol = &self.object.elf.symbols[relocation.symbol];
        let offset = symbol.offset.wrapping_add(self.addend(section, relocation));
        let is_map = symbol
            .section
            .is_some_and(|index| self.object.section_kind(index) == SectionKind::Maps);
        let found = self.object.maps.iter().position(|map| is_map && map.offset == offset);
        found.ok_or_else(|| Error::at(section, relocation.offset, format!("{} is not a map", symbol.name)))
    }

    fn addend(&self, section: &str, relocation: &Relocation) -> u64 {
        let data = self
            .object
            .elf
            .section(section)
            .map_or(&[][..], |section| &section.data);
        let bytes = data
            .get(to_usize(relocation.offset)..)
            .and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn kfunc(&mut self, name: String) -> usize {
        number(&mut self.kfuncs, name)
    }

    fn trap(&mut self, message: String) -> Insn {
        let index = number(&mut self.traps, message);
        Insn {
            op: TRAP,
            dst: 0,
            src: 0,
            off: 0,
            imm: index.cast_signed() as i64,
        }
    }

    /// Links the functions that were added and all functions that they reach.
    pub(super) fn finish(mut self) -> Result<Linked, Error> {
        let mut code = Code::default();
        let mut next = 0;
        while let Some(&source) = self.added.get(next) {
            let function = self.function(source, &mut code.insns)?;
            code.functions.push(function);
            next += 1;
        }
        for (name, message) in std::mem::take(&mut self.unresolved) {
            // If the program tests whether a feature exists, the feature causes no warning. The
            // program may also test a struct that contains the feature. The description of this
            // struct is a prefix of `name`.
            let starts = name.char_indices().map(|(end, c)| &name[..end + c.len_utf8()]);
            if !self.asked.contains("") && !starts.into_iter().any(|start| self.asked.contains(start)) {
                self.warn(message);
            }
        }
        for section in &self.object.elf.sections {
            let pointers = section
                .relocations
                .iter()
                .any(|relocation| relocation.kind == R_BPF_64_ABS64);
            if pointers && self.data.iter().any(|data| data.name == section.name) {
                let message = format!(
                    "section {}: globals that are initialised with addresses stay 0, as in the kernel",
                    section.name
                );
                self.warn(message);
            }
        }
        for map in self.maps {
            self.field_types(map.fields.clone())?;
        }
        for data in self.data {
            self.field_types(data.fields.clone())?;
        }
        (code.kfuncs, code.traps) = (in_order(self.kfuncs), in_order(self.traps));
        let mut warnings = self.externs.warnings;
        warnings.extend(in_order(self.warnings));
        Ok(Linked {
            code,
            types: self.types,
            warnings,
            missing: self.externs.missing,
            accessed: self.accessed,
        })
    }

    /// Records the types of the objects to which special fields (kptrs, lists and trees) refer.
    /// Fails for types that the kernel would also reject (btf_parse_struct_metas).
    fn field_types(&mut self, fields: Vec<crate::image::Field>) -> Result<(), Error> {
        use crate::image::FieldKind::{Kptr, ListHead, RbRoot};
        for field in fields {
            match field.kind {
                Kptr { id, .. } => self.local_type(id)?,
                ListHead(contains) | RbRoot(contains) => self.local_type(contains.id)?,
                _ => (),
            }
        }
        Ok(())
    }

    /// Records a type of which code may allocate objects.
    fn local_type(&mut self, id: u32) -> Result<(), Error> {
        let btf = &self.object.btf;
        let id = btf.resolve(id);
        let TypeKind::Struct(composite) = btf.kind(id) else {
            return Ok(());
        };
        if self.types.contains_key(&id) {
            return Ok(());
        }
        let fields = special_fields(btf, id).map_err(|error| format!("struct {}: {error}", btf.name(id)))?;
        let ty = LocalType {
            name: btf.name(id).to_string(),
            size: composite.size,
            fields: fields.clone(),
        };
        self.types.insert(id, ty);
        self.field_types(fields)
    }
}

/// Returns the number of a text. A text that has no number yet gets the next one.
fn number(numbers: &mut BTreeMap<String, usize>, text: String) -> usize {
    let next = numbers.len();
    *numbers.entry(text).or_insert(next)
}

/// Returns the texts in the order of their numbers.
fn in_order(numbers: BTreeMap<String, usize>) -> Vec<String> {
    let mut texts = vec![String::new(); numbers.len()];
    for (text, number) in numbers {
        texts[number] = text;
    }
    texts
}
