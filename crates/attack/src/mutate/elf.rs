// SPDX-License-Identifier: GPL-2.0-only
//! Damages object files. A file is split into its sections. Some sections are damaged, each in the
//! way of its type. Then the sections are joined to a file again.

use super::{btf, bytes, code, get, put};
use random::Random;

const HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
const RELOCATION: usize = 16;
const SYMTAB: u64 = 2;
const REL: u64 = 9;
const NOBITS: u64 = 8;

/// An ELF file, split into header and sections.
struct Elf {
    header: Vec<u8>,
    sections: Vec<Section>,
}

struct Section {
    name: String,
    header: Vec<u8>,
    data: Vec<u8>,
}

impl Section {
    fn kind(&self) -> u64 {
        get(&self.header, 4, 4)
    }

    fn is_executable(&self) -> bool {
        get(&self.header, 8, 8) & 4 != 0
    }
}

impl Elf {
    /// Splits a file that has the layout in which compilers write files. Returns `None` for any
    /// other file.
    fn parse(file: &[u8]) -> Option<Elf> {
        let header = file.get(..HEADER)?.to_vec();
        let at = get(&header, 40, 8) as usize;
        let count = get(&header, 60, 2) as usize;
        let mut sections = Vec::new();
        for index in 0..count {
            let start = at + index * SECTION_HEADER;
            let header = file.get(start..start + SECTION_HEADER)?.to_vec();
            let (offset, size) = (get(&header, 24, 8) as usize, get(&header, 32, 8) as usize);
            let stored = if get(&header, 4, 4) == NOBITS { 0 } else { size };
            let data = file.get(offset..offset.checked_add(stored)?)?.to_vec();
            sections.push(Section {
                name: String::new(),
                header,
                data,
            });
        }
        let names = sections.get(get(&header, 62, 2) as usize)?.data.clone();
        for section in &mut sections {
            let name = names.get(get(&section.header, 0, 4) as usize..)?;
            let end = name.iter().position(|&byte| byte == 0)?;
            section.name = String::from_utf8_lossy(&name[..end]).into_owned();
        }
        Some(Elf { header, sections })
    }

    /// Joins the header and the sections to a file. The sizes and offsets in the file are correct,
    /// whatever was damaged in the sections.
    fn write(mut self) -> Vec<u8> {
        let mut file = self.header.clone();
        for section in &mut self.sections {
            file.resize(file.len().next_multiple_of(8), 0);
            if section.kind() != NOBITS {
                put(&mut section.header, 32, 8, section.data.len() as u64);
            }
            put(&mut section.header, 24, 8, file.len() as u64);
            file.extend(&section.data);
        }
        file.resize(file.len().next_multiple_of(8), 0);
        let at = file.len() as u64;
        put(&mut file, 40, 8, at);
        put(&mut file, 60, 2, self.sections.len() as u64);
        for section in &self.sections {
            file.extend(&section.header);
        }
        file
    }

    /// Returns a random section that has data and for which `wanted` returns true.
    fn find(&mut self, random: &mut Random, wanted: impl Fn(&Section) -> bool) -> Option<&mut Section> {
        let mut found: Vec<&mut Section> = self
            .sections
            .iter_mut()
            .filter(|section| !section.data.is_empty() && wanted(section))
            .collect();
        let index = random.below(found.len());
        (!found.is_empty()).then(|| found.swap_remove(index))
    }
}

/// Damages an object in one to four places.
pub fn object(random: &mut Random, mut file: Vec<u8>) -> Vec<u8> {
    let Some(mut elf) = Elf::parse(&file) else {
        bytes(random, &mut file);
        return file;
    };
    for _ in 0..1 + random.below(4) {
        damage(random, &mut elf);
    }
    let mut file = elf.write();
    if random.chance(3) {
        bytes(random, &mut file);
    }
    file
}

fn damage(random: &mut Random, elf: &mut Elf) {
    match random.below(16) {
        0..3 => {
            if let Some(section) = elf.find(random, |section| section.name == ".BTF") {
                btf::damage(random, &mut section.data);
            }
        }
        3..5 => {
            if let Some(section) = elf.find(random, |section| section.name == ".BTF.ext") {
                btf::damage_ext(random, &mut section.data);
            }
        }
        5..7 => {
            if let Some(section) = elf.find(random, |section| section.kind() == REL) {
                relocation(random, &mut section.data);
            }
        }
        7 => {
            if let Some(section) = elf.find(random, |section| section.kind() == SYMTAB) {
                symbol(random, &mut section.data);
            }
        }
        8..10 => {
            if let Some(section) = elf.find(random, |section| section.name.contains(".struct_ops")) {
                let at = 8 * random.below(section.data.len() / 8);
                let value = random.edge();
                put(&mut section.data, at, 8, value);
            }
        }
        10..13 => {
            if let Some(section) = elf.find(random, Section::is_executable) {
                code::damage(random, &mut section.data);
            }
        }
        13 => {
            if let Some(section) = elf.find(random, |section| !section.name.starts_with(".BTF")) {
                bytes(random, &mut section.data);
            }
        }
        14 => {
            let index = random.below(elf.sections.len());
            let field = random.pick(&[
                (0, 4),
                (4, 4),
                (8, 8),
                (16, 8),
                (32, 8),
                (40, 4),
                (44, 4),
                (48, 8),
                (56, 8),
            ]);
            let value = random.edge();
            put(&mut elf.sections[index].header, field.0, field.1, value);
        }
        _ => {
            let at = 16 + random.below(HEADER - 16);
            let value = random.edge();
            put(&mut elf.header, at, random.pick(&[1, 2, 4, 8]), value);
        }
    }
}

fn relocation(random: &mut Random, data: &mut [u8]) {
    let at = RELOCATION * random.below(data.len() / RELOCATION);
    match random.below(3) {
        0 => {
            let offset = if random.chance(50) {
                random.edge()
            } else {
                8 * random.below(1000) as u64
            };
            put(data, at, 8, offset);
        }
        1 => {
            let kind = random.pick(&[0, 1, 2, 3, 4, 10, 77]);
            put(data, at + 8, 4, kind);
        }
        _ => {
            let symbol = if random.chance(20) {
                random.edge()
            } else {
                random.below(200) as u64
            };
            put(data, at + 12, 4, symbol);
        }
    }
}

fn symbol(random: &mut Random, data: &mut [u8]) {
    let at = SYMBOL * random.below(data.len() / SYMBOL);
    let (offset, size) = random.pick(&[(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)]);
    let value = if random.chance(50) {
        random.edge()
    } else {
        random.below(512) as u64
    };
    put(data, at + offset, size, value);
}
