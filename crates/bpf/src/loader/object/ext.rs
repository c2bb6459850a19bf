// SPDX-License-Identifier: GPL-2.0-only
//! Reads the .BTF.ext section. It contains the function and source line of each instruction, and
//! the CO-RE relocations (constants that depend on the kernel's types).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::btf::{parse, parse::Reader};
use crate::core_relo::Relocation;
use crate::error::Error;

const SECTION: &str = ".BTF.ext";
const MAGIC: u16 = 0xeb9f;

/// A source line. It belongs to the instructions from `offset` up to the offset of the next entry.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) offset: u64,
    pub(crate) file: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The tables of .BTF.ext. The key of each table is the name of an ELF section. The entries for a
/// section are ordered by their offset in the section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ext {
    /// For each function, its offset in the section and the id of its BTF type.
    pub(crate) functions: BTreeMap<String, Vec<(u64, u32)>>,
    pub(crate) lines: BTreeMap<String, Vec<Line>>,
    pub(crate) relocations: BTreeMap<String, Vec<(u64, Relocation)>>,
}

impl Ext {
    pub(crate) fn parse(data: &[u8], strings: &[u8], types: u32) -> Result<Ext, Error> {
        let mut header = Reader::new(SECTION, data, 0, data.len() as u64)?;
        let magic = header.u16()?;
        if magic != MAGIC {
            return Err(Error::at(
                SECTION,
                0,
                format!("the magic number is {magic:#x} instead of {MAGIC:#x}"),
            ));
        }
        header.u16()?;
        let header_len = header.u32()?;
        let mut table = || Ok::<_, Error>((header.u32()?, header.u32()?));
        let (functions, lines) = (table()?, table()?);
        // The CO-RE table was added to the format later. A short header therefore lacks this table.
        let relocations = if header_len >= 32 { table()? } else { (0, 0) };

        let mut ext = Ext::default();
        let mut names = Names {
            strings,
            known: BTreeMap::new(),
        };
        let tables = Tables {
            data,
            strings,
            base: u64::from(header_len),
        };
        let check = |reader: &Reader, id: u32| match id < types {
            true => Ok(id),
            false => Err(reader.error(format!("type {id} does not exist"))),
        };
        tables.for_each_record(functions, 8, |section, reader| {
            let entry = (u64::from(reader.u32()?), reader.u32()?);
            check(reader, entry.1)?;
            ext.functions.entry(section.to_string()).or_default().push(entry);
            Ok(())
        })?;
        tables.for_each_record(lines, 16, |section, reader| {
            let offset = u64::from(reader.u32()?);
            let (file, text, line_column) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let (file, text) = (names.get(reader, file)?, names.get(reader, text)?);
            let line = Line {
                offset,
                file,
                text,
                line: line_column >> 10,
                column: line_column & 0x3ff,
            };
            ext.lines.entry(section.to_string()).or_default().push(line);
            Ok(())
        })?;
        tables.for_each_record(relocations, 16, |section, reader| {
            let (offset, ty) = (u64::from(reader.u32()?), reader.u32()?);
            let (access, kind) = (reader.u32()?, reader.u32()?);
            check(reader, ty)?;
            let access = parse::string(strings, access).map_err(|message| reader.error(message))?;
            let relocation = Relocation::new(ty, access, kind).map_err(|message| reader.error(message))?;
            ext.relocations
                .entry(section.to_string())
                .or_default()
                .push((offset, relocation));
            Ok(())
        })?;
        ext.functions
            .values_mut()
            .for_each(|table| table.sort_by_key(|entry| entry.0));
        ext.lines
            .values_mut()
            .for_each(|table| table.sort_by_key(|entry| entry.offset));
        ext.relocations
            .values_mut()
            .for_each(|table| table.sort_by_key(|entry| entry.0));
        Ok(ext)
    }
}

/// File names and source lines, each stored only once.
struct Names<'a> {
    strings: &'a [u8],
    known: BTreeMap<u32, Arc<str>>,
}

impl Names<'_> {
    fn get(&mut self, reader: &Reader, offset: u32) -> Result<Arc<str>, Error> {
        if let Some(known) = self.known.get(&offset) {
            return Ok(known.clone());
        }
        let text = parse::string(self.strings, offset).map_err(|message| reader.error(message))?;
        let text: Arc<str> = text.trim().into();
        self.known.insert(offset, text.clone());
        Ok(text)
    }
}

struct Tables<'a> {
    data: &'a [u8],
    strings: &'a [u8],
    /// Position in the section from which the offsets of tables are counted.
    base: u64,
}

impl Tables<'_> {
    /// Calls `entry` for each record of a table. `entry` reads the first `known` bytes of the
    /// record. If the record is longer, the rest is skipped.
    fn for_each_record(
        &self,
        (offset, len): (u32, u32),
        known: u32,
        mut entry: impl FnMut(&str, &mut Reader) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let start = self.base + u64::from(offset);
        let mut reader = Reader::new(SECTION, self.data, start, start + u64::from(len))?;
        let size = reader.u32()?;
        if size < known {
            return Err(reader.error(format!(
                "expected records of at least {known} bytes, found {size} bytes"
            )));
        }
        while !reader.at_end() {
            let (name, count) = (reader.u32()?, reader.u32()?);
            let section = parse::string(self.strings, name).map_err(|message| reader.error(message))?;
            for _ in 0..count {
                entry(section, &mut reader)?;
                reader.skip(size - known)?;
            }
        }
        Ok(())
    }
}
