// SPDX-License-Identifier: GPL-2.0-only
//! Finds the BPF objects: in the program's file, where bpftool and libbpf-rs store the whole object, and
//! in the files that its command line names.

use input::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ::bpf::object::Object;

/// Largest size of a program's file.
const LARGEST: u64 = 1 << 30;
/// First bytes of an ELF file with 64 bits in little-endian order.
const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
/// Kind and machine of a BPF object: ET_REL, EM_BPF.
const BPF: [u8; 4] = [1, 0, 247, 0];

/// The place of an object.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub file: PathBuf,
    pub bytes: Range<usize>,
}

/// Returns the objects in the program's file and in the files that its command line names, in their
/// order, and where they lie.
///
/// # Errors
/// A file cannot be read, or no file contains an object.
pub(super) fn find(program: &Path, named_files: &[PathBuf]) -> Result<Vec<(Object, Place)>, Error> {
    let mut objects = Vec::new();
    for path in std::iter::once(program).chain(named_files.iter().map(PathBuf::as_path)) {
        let place = |bytes| Place {
            file: path.to_owned(),
            bytes,
        };
        let found = find_in(path)?.into_iter();
        objects.extend(found.map(|(object, bytes)| (object, place(bytes))));
    }
    match objects.is_empty() {
        true => Err(Error::new(format!(
            "{} contains no BPF object, and its command line names none: a scheduler's program contains its object, as bpftool and libbpf-cargo store it",
            program.display()
        ))),
        false => Ok(objects),
    }
}

fn find_in(path: &Path) -> Result<Vec<(Object, Range<usize>)>, Error> {
    let file = path.display();
    let size = path.metadata().map_err(|error| Error::io(path, &error))?.len();
    if size > LARGEST {
        return Err(Error::new(format!(
            "{file} has more than {} MiB: a program and its objects must be smaller",
            LARGEST >> 20
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, &error))?;
    let mut objects = Vec::new();
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|&byte| byte == MAGIC[0]) {
        at += next;
        let rest = &bytes[at..];
        if rest.starts_with(&MAGIC)
            && rest.get(16..20) == Some(&BPF)
            && let Some(bytes) = rest.get(..extent(rest).unwrap_or(0))
            && let Ok(object) = Object::parse(bytes, &format!("{}.bpf.o", name(path)))
        {
            objects.push((object, at..at + bytes.len()));
        }
        at += 1;
    }
    Ok(objects)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the size of an object: the end of its last section or of its section headers.
fn extent(object: &[u8]) -> Option<usize> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(*object.get(at..)?.first_chunk()?));
    let u16_at = |at: usize| Some(u64::from(u16::from_le_bytes(*object.get(at..)?.first_chunk()?)));
    let (headers, size, count) = (u64_at(40)?, u16_at(58)?, u16_at(60)?);
    let mut end = headers.checked_add(size * count)?;
    for header in 0..count {
        let at = usize::try_from(headers.checked_add(header * size)?).ok()?;
        let kind = u32::from_le_bytes(*object.get(at.checked_add(4)?..)?.first_chunk()?);
        // A section of kind SHT_NOBITS occupies no bytes of the file.
        if kind != 8 {
            end = end.max(u64_at(at + 24)?.checked_add(u64_at(at + 32)?)?);
        }
    }
    usize::try_from(end).ok()
}
