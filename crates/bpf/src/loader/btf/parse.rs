// SPDX-License-Identifier: GPL-2.0-only
//! Parses the bytes of a .BTF section.

use super::{Btf, Composite, MAX_DEPTH, Member, Param, Type, TypeKind, VarInfo};
use crate::error::Error;
use input::to_usize;

const MAGIC: u16 = 0xeb9f;
const SECTION: &str = ".BTF";

/// Reads little-endian numbers from a section. An error names the offset at which it occurred.
pub(crate) struct Reader<'a> {
    section: &'a str,
    data: &'a [u8],
    pos: usize,
}

impl<'a> Reader<'a> {
    /// Makes a reader of `data[start..end]`. The offsets in errors count from the start of `data`.
    pub(crate) fn new(section: &'a str, data: &'a [u8], start: u64, end: u64) -> Result<Reader<'a>, Error> {
        if start > end || end > data.len() as u64 {
            let message = format!(
                "the table from {start:#x} to {end:#x} is outside of the section's {} bytes",
                data.len()
            );
            return Err(Error::at(section, 0, message));
        }
        Ok(Reader {
            section,
            data: &data[..to_usize(end)],
            pos: to_usize(start),
        })
    }

    pub(crate) fn at_end(&self) -> bool {
        self.pos >= self.data.len()
    }

    pub(crate) fn pos(&self) -> u64 {
        self.pos as u64
    }

    /// Returns the number of bytes that are not read yet.
    pub(crate) fn left(&self) -> usize {
        self.data.len() - self.pos
    }

    pub(crate) fn error(&self, message: impl Into<Error>) -> Error {
        Error::at(self.section, self.pos as u64, message)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.data[self.pos..].first_chunk::<N>().copied();
        let bytes = bytes.ok_or_else(|| self.error(format!("truncated: expected {N} bytes, found {}", self.left())))?;
        self.pos += N;
        Ok(bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub(crate) fn skip(&mut self, bytes: u32) -> Result<(), Error> {
        if bytes as usize > self.left() {
            return Err(self.error(format!("truncated: expected {bytes} bytes, found {}", self.left())));
        }
        self.pos += bytes as usize;
        Ok(())
    }
}

/// Returns the string at an offset of a string table.
pub(crate) fn string(strings: &[u8], offset: u32) -> Result<&str, Error> {
    let rest = strings.get(offset as usize..).filter(|rest| !rest.is_empty());
    let rest = rest.ok_or_else(|| {
        format!(
            "name offset {offset:#x} is outside of the {} string bytes",
            strings.len()
        )
    })?;
    let end = rest
        .iter()
        .position(|&b| b == 0)
        .ok_or("the string table does not end with a NUL")?;
    std::str::from_utf8(&rest[..end])
        .map_err(|_| Error::new(format!("the name at string offset {offset:#x} is not UTF-8")))
}

/// A parsed .BTF section and its string table. The section .BTF.ext also uses this string table.
pub(crate) struct Parsed {
    pub(crate) btf: Btf,
    pub(crate) strings: Vec<u8>,
}

impl Btf {
    /// Parses the bytes of a .BTF section or of /sys/kernel/btf/vmlinux.
    pub fn parse(data: &[u8]) -> Result<Btf, Error> {
        Ok(parse(data)?.btf)
    }
}

pub(crate) fn parse(data: &[u8]) -> Result<Parsed, Error> {
    let mut header = Reader::new(SECTION, data, 0, data.len() as u64)?;
    let magic = header.u16()?;
    if magic != MAGIC {
        let hint = if magic == MAGIC.swap_bytes() {
            "the section is big-endian"
        } else {
            "is the file a BPF object?"
        };
        return Err(Error::at(
            SECTION,
            0,
            format!("the magic number is {magic:#x} instead of {MAGIC:#x}"),
        )
        .hint(hint));
    }
    let version = header.u16()? & 0xff;
    if version != 1 {
        return Err(Error::at(
            SECTION,
            2,
            format!("the BTF version is {version}, but only version 1 is supported"),
        ));
    }
    let header_len = u64::from(header.u32()?);
    let [type_off, type_len, str_off, str_len] =
        [header.u32()?, header.u32()?, header.u32()?, header.u32()?].map(u64::from);
    let (start, end) = (header_len + str_off, header_len + str_off + str_len);
    Reader::new(SECTION, data, start, end)?;
    let strings = data[to_usize(start)..to_usize(end)].to_vec();
    let types = Reader::new(SECTION, data, header_len + type_off, header_len + type_off + type_len)?;
    let mut table = Table {
        reader: types,
        strings: &strings,
        btf: Btf::default(),
    };
    let mut starts = vec![0];
    while !table.reader.at_end() {
        starts.push(table.reader.pos());
        let ty = table.ty()?;
        table.btf.types.push(ty);
    }
    let btf = table.btf;
    check(&btf).map_err(|(id, message)| Error::at(SECTION, starts[id as usize], format!("type {id}: {message}")))?;
    Ok(Parsed { btf, strings })
}

struct Table<'a> {
    reader: Reader<'a>,
    strings: &'a [u8],
    btf: Btf,
}

impl Table<'_> {
    fn u32(&mut self) -> Result<u32, Error> {
        self.reader.u32()
    }

    fn name(&mut self) -> Result<Box<str>, Error> {
        let offset = self.u32()?;
        let position = self.reader.pos() - 4;
        string(self.strings, offset)
            .map(Box::from)
            .map_err(|message| Error::at(SECTION, position, message))
    }

    /// Reads `count` entries of `size` bytes each. If the section is too short for all of them,
    /// returns an error before memory is allocated for the entries.
    fn list<T>(
        &mut self,
        count: u32,
        size: usize,
        mut entry: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        if count as usize * size > self.reader.left() {
            let message = format!(
                "truncated: expected {count} entries of {size} bytes, found {} bytes",
                self.reader.left()
            );
            return Err(self.reader.error(message));
        }
        (0..count).map(|_| entry(self)).collect()
    }

    fn ty(&mut self) -> Result<Type, Error> {
        let position = self.reader.pos();
        let name = self.name()?;
        let info = self.u32()?;
        // The third word is a size or a type id, depending on the kind of the type.
        let third = self.u32()?;
        let (vlen, flag) = (info & 0xffff, info >> 31 != 0);
        let kind = match info >> 24 & 0x1f {
            1 => {
                let bits = self.u32()?;
                let [nr, _, offset, encoding] = bits.to_le_bytes();
                let encoding = encoding & 0xf;
                if third == 0 || third > 16 || u32::from(nr) + u32::from(offset) > third * 8 {
                    return Err(Error::at(
                        SECTION,
                        position,
                        format!("an integer has {nr} bits in {third} bytes"),
                    ));
                }
                TypeKind::Int {
                    size: third,
                    encoding,
                    offset,
                    bits: nr,
                }
            }
            2 => TypeKind::Ptr(third),
            3 => TypeKind::Array {
                ty: self.u32()?,
                index: self.u32()?,
                len: self.u32()?,
            },
            kind @ (4 | 5) => {
                let members = self.list(vlen, 12, |t| {
                    let (name, ty, offset) = (t.name()?, t.u32()?, t.u32()?);
                    let (bit_offset, bit_size) = if flag {
                        (offset & 0xff_ffff, (offset >> 24) as u8)
                    } else {
                        (offset, 0)
                    };
                    Ok(Member {
                        name,
                        ty,
                        bit_offset,
                        bit_size,
                    })
                })?;
                let composite = Composite { size: third, members };
                if kind == 4 {
                    TypeKind::Struct(composite)
                } else {
                    TypeKind::Union(composite)
                }
            }
            kind @ (6 | 19) => {
                if !matches!(third, 1 | 2 | 4 | 8) {
                    return Err(Error::at(
                        SECTION,
                        position,
                        format!("an enumeration has {third} bytes"),
                    ));
                }
                let wide = kind == 19;
                let values = self.list(vlen, if wide { 12 } else { 8 }, |t| {
                    let (name, low) = (t.name()?, t.u32()?);
                    let value = match (wide, flag) {
                        (true, _) => u64::from(low) | u64::from(t.u32()?) << 32,
                        (false, true) => i64::from(low.cast_signed()).cast_unsigned(),
                        (false, false) => u64::from(low),
                    };
                    Ok((name, value.cast_signed()))
                })?;
                TypeKind::Enum {
                    size: third,
                    signed: flag,
                    wide,
                    values,
                }
            }
            7 => TypeKind::Fwd { union: flag },
            8 => TypeKind::Typedef(third),
            9 => TypeKind::Volatile(third),
            10 => TypeKind::Const(third),
            11 => TypeKind::Restrict(third),
            12 => TypeKind::Func {
                ty: third,
                linkage: vlen,
            },
            13 => {
                let params = self.list(vlen, 8, |t| {
                    Ok(Param {
                        name: t.name()?,
                        ty: t.u32()?,
                    })
                })?;
                TypeKind::FuncProto { ret: third, params }
            }
            14 => TypeKind::Var {
                ty: third,
                linkage: self.u32()?,
            },
            15 => {
                let vars = self.list(vlen, 12, |t| {
                    Ok(VarInfo {
                        ty: t.u32()?,
                        offset: t.u32()?,
                        size: t.u32()?,
                    })
                })?;
                TypeKind::Datasec { size: third, vars }
            }
            16 => TypeKind::Float(third),
            17 => TypeKind::DeclTag {
                ty: third,
                component: self.u32()?.cast_signed(),
            },
            18 => TypeKind::TypeTag(third),
            kind => return Err(Error::at(SECTION, position, format!("unknown type kind {kind}"))),
        };
        Ok(Type { name, kind })
    }
}

/// Checks that all references are valid, members lie inside their struct, and types do not contain
/// themselves.
fn check(btf: &Btf) -> Result<(), (u32, String)> {
    for (id, ty) in btf.iter() {
        let refer = |to: u32, role: &str| match to < btf.len() {
            true => Ok(()),
            false => Err((id, format!("{role} {to} does not exist"))),
        };
        match &ty.kind {
            TypeKind::Void
            | TypeKind::Int { .. }
            | TypeKind::Enum { .. }
            | TypeKind::Fwd { .. }
            | TypeKind::Float(_) => (),
            TypeKind::Ptr(to)
            | TypeKind::Typedef(to)
            | TypeKind::Volatile(to)
            | TypeKind::Const(to)
            | TypeKind::Restrict(to) => {
                refer(*to, "type")?;
            }
            TypeKind::TypeTag(to) | TypeKind::Var { ty: to, .. } | TypeKind::DeclTag { ty: to, .. } => {
                refer(*to, "type")?
            }
            TypeKind::Func { ty, .. } => {
                refer(*ty, "prototype")?;
                if !matches!(btf.kind(*ty), TypeKind::FuncProto { .. }) {
                    return Err((id, format!("type {ty} is not a function prototype")));
                }
            }
            TypeKind::Array { ty, index, .. } => {
                refer(*ty, "element type")?;
                refer(*index, "index type")?;
            }
            TypeKind::Struct(c) | TypeKind::Union(c) => {
                for member in &c.members {
                    refer(member.ty, "member type")?;
                    let end = u64::from(member.bit_offset) + u64::from(member.bit_size);
                    if end > u64::from(c.size) * 8 {
                        return Err((id, format!("member {} is outside of the {} bytes", member.name, c.size)));
                    }
                }
            }
            TypeKind::FuncProto { ret, params } => {
                refer(*ret, "result type")?;
                params.iter().try_for_each(|p| refer(p.ty, "parameter type"))?;
            }
            TypeKind::Datasec { vars, .. } => {
                for var in vars {
                    refer(var.ty, "variable")?;
                    if !matches!(btf.kind(var.ty), TypeKind::Var { .. } | TypeKind::Func { .. }) {
                        return Err((id, format!("type {} is not a variable", var.ty)));
                    }
                }
            }
        }
    }
    if let Some(id) = btf.find_cycle() {
        return Err((
            id,
            format!("the type contains itself or is nested deeper than {MAX_DEPTH} types"),
        ));
    }
    // Sizes are computed only now, because the computation would not end if there were cycles.
    for (id, ty) in btf.iter() {
        let (TypeKind::Struct(c) | TypeKind::Union(c)) = &ty.kind else {
            continue;
        };
        for member in c.members.iter().filter(|member| member.bit_size == 0) {
            let end = u64::from(member.bit_offset / 8) + u64::from(btf.size_of(member.ty).unwrap_or(0));
            if end > u64::from(c.size) {
                return Err((
                    id,
                    format!("member {} ends outside of the {} bytes", member.name, c.size),
                ));
            }
        }
    }
    Ok(())
}
