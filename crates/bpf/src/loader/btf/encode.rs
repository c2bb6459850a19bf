// SPDX-License-Identifier: GPL-2.0-only
//! Encodes BTF as the bytes of a .BTF section.

use std::collections::BTreeMap;

use super::{Btf, TypeKind};
use input::index;

const HEADER: u32 = 24;

/// Returns the low and the high half of a value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the halves together are the value"
)]
fn halves(value: i64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A string table under construction, which stores equal strings once.
struct Strings<'a> {
    bytes: Vec<u8>,
    offsets: BTreeMap<&'a str, u32>,
}

impl<'a> Strings<'a> {
    fn offset(&mut self, name: &'a str) -> u32 {
        *self.offsets.entry(name).or_insert_with(|| {
            let offset = index(self.bytes.len());
            self.bytes.extend(name.as_bytes());
            self.bytes.push(0);
            offset
        })
    }
}

impl Btf {
    /// Encodes the types as a .BTF section, which `bpftool btf dump` and libbpf can read.
    pub fn encode(&self) -> Vec<u8> {
        let mut strings = Strings {
            bytes: vec![0],
            offsets: BTreeMap::from([("", 0)]),
        };
        let mut out = Vec::new();
        for (_, ty) in self.iter().skip(1) {
            let name = strings.offset(&ty.name);
            // An entry begins with a word that packs the kind, a flag and a count (vlen). A word
            // with a size or a type id follows, and then further words.
            let (kind, flag, vlen, third, rest) = match &ty.kind {
                TypeKind::Void => (0, false, 0, 0, vec![]),
                TypeKind::Int {
                    size,
                    encoding,
                    offset,
                    bits,
                } => {
                    let word = u32::from(*encoding) << 24 | u32::from(*offset) << 16 | u32::from(*bits);
                    (1, false, 0, *size, vec![word])
                }
                TypeKind::Ptr(to) => (2, false, 0, *to, vec![]),
                TypeKind::Array { ty, index, len } => (3, false, 0, 0, vec![*ty, *index, *len]),
                TypeKind::Struct(c) | TypeKind::Union(c) => {
                    let kind = if matches!(ty.kind, TypeKind::Struct(_)) { 4 } else { 5 };
                    let bitfields = c.members.iter().any(|m| m.bit_size > 0);
                    let mut rest = Vec::new();
                    for m in &c.members {
                        rest.extend([
                            strings.offset(&m.name),
                            m.ty,
                            u32::from(m.bit_size) << 24 | m.bit_offset,
                        ]);
                    }
                    (kind, bitfields, c.members.len(), c.size, rest)
                }
                TypeKind::Enum {
                    size,
                    signed,
                    wide,
                    values,
                } => {
                    let mut rest = Vec::new();
                    for (name, value) in values {
                        let [low, high] = halves(*value);
                        rest.extend([strings.offset(name), low]);
                        if *wide {
                            rest.push(high);
                        }
                    }
                    (if *wide { 19 } else { 6 }, *signed, values.len(), *size, rest)
                }
                TypeKind::Fwd { union } => (7, *union, 0, 0, vec![]),
                TypeKind::Typedef(to) => (8, false, 0, *to, vec![]),
                TypeKind::Volatile(to) => (9, false, 0, *to, vec![]),
                TypeKind::Const(to) => (10, false, 0, *to, vec![]),
                TypeKind::Restrict(to) => (11, false, 0, *to, vec![]),
                TypeKind::Func { ty, linkage } => (12, false, *linkage as usize, *ty, vec![]),
                TypeKind::FuncProto { ret, params } => {
                    let rest = params.iter().flat_map(|p| [strings.offset(&p.name), p.ty]).collect();
                    (13, false, params.len(), *ret, rest)
                }
                TypeKind::Var { ty, linkage } => (14, false, 0, *ty, vec![*linkage]),
                TypeKind::Datasec { size, vars } => {
                    let rest = vars.iter().flat_map(|v| [v.ty, v.offset, v.size]).collect();
                    (15, false, vars.len(), *size, rest)
                }
                TypeKind::Float(size) => (16, false, 0, *size, vec![]),
                TypeKind::DeclTag { ty, component } => (17, false, 0, *ty, vec![component.cast_unsigned()]),
                TypeKind::TypeTag(to) => (18, false, 0, *to, vec![]),
            };
            let info = u32::from(flag) << 31 | kind << 24 | index(vlen);
            out.extend([name, info, third].into_iter().chain(rest).flat_map(u32::to_le_bytes));
        }
        let (types, strings) = (index(out.len()), strings.bytes);
        let mut bytes = Vec::with_capacity(HEADER as usize + out.len() + strings.len());
        bytes.extend([0x9f, 0xeb, 1, 0]);
        bytes.extend(
            [HEADER, 0, types, types, index(strings.len())]
                .into_iter()
                .flat_map(u32::to_le_bytes),
        );
        bytes.extend(out);
        bytes.extend(strings);
        bytes
    }
}
