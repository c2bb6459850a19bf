// SPDX-License-Identifier: GPL-2.0-only
//! CO-RE relocations ("compile once, run everywhere"). Code contains constants that depend on the
//! kernel's types, such as the offset of a field. The loader computes these constants for the
//! target kernel.
//!
//! For each such constant the compiler records three things:
//!
//! - a type, which is looked up in the target by its name without flavour (`task_struct` for
//!   `task_struct___old`);
//! - an access path from that type to a field, which is followed in the target by the members'
//!   names;
//! - a question about the field or type ([`Ask`]), for example its offset.
//!
//! The rules are those of libbpf's relo_core.c:
//!
//! - If several types of the target have a matching field or enumerator, all of them must yield the
//!   same answer.
//! - If the target lacks the type, the questions for the type's existence, its size and its id in
//!   the target yield 0. If the target lacks a field or enumerator, the question for its existence
//!   yields 0.
//! - Any other question about a missing field or enumerator yields [`Unresolved`]. The linker turns
//!   this answer into a trap: an instruction that faults when it is executed. A program that tests
//!   first whether the field exists never executes the trap.

mod compat;
mod path;

use crate::error::Error;
pub use compat::{types_compatible, types_match};
use path::Path;
pub(crate) use path::find_member;

use crate::btf::{Btf, INT_SIGNED, TypeKind, essential_name};

/// Question of a relocation: which constant it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Offset of a field in bytes.
    FieldOffset,
    /// Size of a field in bytes.
    FieldSize,
    FieldExists,
    FieldSigned,
    /// Number of bits by which a loaded value is shifted left, so that a bitfield's top bit becomes
    /// bit 63.
    FieldLshift,
    /// Number of bits by which the shifted value is then shifted right, so that only the bitfield
    /// remains.
    FieldRshift,
    /// The type's id in the object.
    TypeIdLocal,
    /// The type's id in the target.
    TypeIdTarget,
    TypeExists,
    /// Size of the type in bytes.
    TypeSize,
    /// Whether the enumerator exists.
    EnumExists,
    /// Value of an enumerator.
    EnumValue,
    /// Whether the target's type has all members of the object's type.
    TypeMatches,
}

const ASKS: [Ask; 13] = [
    Ask::FieldOffset,
    Ask::FieldSize,
    Ask::FieldExists,
    Ask::FieldSigned,
    Ask::FieldLshift,
    Ask::FieldRshift,
    Ask::TypeIdLocal,
    Ask::TypeIdTarget,
    Ask::TypeExists,
    Ask::TypeSize,
    Ask::EnumExists,
    Ask::EnumValue,
    Ask::TypeMatches,
];

/// Maximum length of an access path.
const MAX_PATH: usize = 64;

/// A relocation, as the compiler recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Type in the object's BTF.
    pub ty: u32,
    /// Access path. The first number is an index into an array of the type itself, usually 0. The
    /// other numbers are indices of members and elements. For an enumerator, the path is only the
    /// enumerator's index.
    pub access: Vec<u32>,
    /// Question of the relocation.
    pub ask: Ask,
}

impl Relocation {
    /// Makes a relocation from the fields of a record in .BTF.ext. `access` is a text like "0:3:1".
    pub fn new(ty: u32, access: &str, kind: u32) -> Result<Relocation, Error> {
        let ask = *ASKS
            .get(kind as usize)
            .ok_or_else(|| format!("unknown CO-RE relocation kind {kind}"))?;
        let access: Result<Vec<u32>, _> = access.split(':').map(str::parse).collect();
        match access {
            Ok(access) if access.len() <= MAX_PATH => Ok(Relocation { ty, access, ask }),
            _ => Err("bad CO-RE access string".into()),
        }
    }
}

/// Answer to a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The constant.
    pub value: u64,
    /// Sizes of a field in the object's types and in the target's types. If they differ, the load
    /// or store must use the target's size. Set only in the answer to the question for a field's
    /// offset.
    pub sizes: Option<Sizes>,
}

/// Sizes of a field in bytes, with which the linker adjusts the size of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size in the object's types in bytes.
    pub local: u32,
    /// Size in the target's types in bytes.
    pub target: u32,
    /// Whether a load or store may use another size. This is possible only for unsigned integers
    /// and pointers. A smaller or larger signed integer would need sign extension, which the load
    /// does not do.
    pub adjustable: bool,
}

/// The name of a type, field or enumerator that the target does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved(pub String);

/// Computes the constant for a relocation. `target` must be [indexed](Btf::index).
pub fn resolve(local: &Btf, target: &Btf, relocation: &Relocation) -> Result<Answer, Unresolved> {
    let plain = |value| Ok(Answer { value, sizes: None });
    let ask = relocation.ask;
    match ask {
        Ask::TypeIdLocal => plain(u64::from(relocation.ty)),
        Ask::EnumExists | Ask::EnumValue => enumerator(local, target, relocation),
        Ask::TypeIdTarget | Ask::TypeExists | Ask::TypeSize | Ask::TypeMatches => {
            let fits = |&id: &u32| match ask {
                Ask::TypeMatches => types_match(local, relocation.ty, target, id),
                _ => types_compatible(local, relocation.ty, target, id),
            };
            let mut found = candidates(local, target, relocation.ty).into_iter().filter(fits);
            match (found.next(), ask) {
                (None, _) => plain(0),
                (Some(_), Ask::TypeExists | Ask::TypeMatches) => plain(1),
                (Some(id), Ask::TypeSize) => plain(u64::from(target.size_of(id).unwrap_or(0))),
                (Some(id), _) => plain(u64::from(id)),
            }
        }
        _ => field(local, target, relocation),
    }
}

/// A field that the target lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingField {
    /// Whether the target has the struct in which the access path begins.
    pub has_struct: bool,
    /// Whether the field is an integer, so that a number can stand for its value.
    pub is_integer: bool,
    /// Lowest bit of the field in the bytes that the object loads.
    pub first_bit: u32,
    /// Number of bits of the field.
    pub bits: u32,
}

/// Describes the field of a relocation if the target lacks it. Returns `None` if the target has the
/// field, or if the access path is not valid.
pub fn missing_field(local: &Btf, target: &Btf, relocation: &Relocation) -> Option<MissingField> {
    let path = Path::local(local, relocation).ok()?;
    let structs = candidates(local, target, relocation.ty);
    if structs.iter().any(|&id| path.find_in(local, target, id).is_some()) {
        return None;
    }
    let location = path.locate(local).ok()?;
    let kind = local.kind(local.resolve(path.ty()));
    Some(MissingField {
        has_struct: !structs.is_empty(),
        is_integer: matches!(kind, TypeKind::Int { .. } | TypeKind::Enum { .. }),
        first_bit: location.first_bit,
        bits: location.bits,
    })
}

/// Describes the subject of a relocation, for example "struct task_struct.scx.flags" or "enum
/// scx_enq_flags::SCX_ENQ_HEAD".
pub fn describe(local: &Btf, relocation: &Relocation) -> String {
    let ty = local.c_name(relocation.ty);
    match relocation.ask {
        Ask::EnumExists | Ask::EnumValue => match (local.kind(local.resolve(relocation.ty)), relocation.access.first())
        {
            (TypeKind::Enum { values, .. }, Some(&index)) => values
                .get(index as usize)
                .map_or(ty.clone(), |(name, _)| format!("{ty}::{name}")),
            _ => ty,
        },
        Ask::TypeIdLocal | Ask::TypeIdTarget | Ask::TypeExists | Ask::TypeSize | Ask::TypeMatches => ty,
        _ => Path::local(local, relocation).map_or(ty, |path| path.text(local)),
    }
}

/// Returns the types of the target that may correspond to a type of the object. They have the same
/// kind and the same name. The flavour of the object's type (the suffix after `___`) is ignored.
fn candidates(local: &Btf, target: &Btf, id: u32) -> Vec<u32> {
    let id = local.skip_modifiers(id);
    let name = essential_name(local.name(id));
    let same_kind = |a: &TypeKind, b: &TypeKind| std::mem::discriminant(a) == std::mem::discriminant(b);
    let found: Vec<u32> = target
        .named(name)
        // A type of the target that itself has a flavour is a different type.
        .filter(|&other| target.name(other) == name && same_kind(local.kind(id), target.kind(other)))
        .collect();
    match *local.kind(id) {
        // The target may have a struct but not a typedef for it.
        TypeKind::Typedef(to) if found.is_empty() => candidates(local, target, to),
        _ => found,
    }
}

fn enumerator(local: &Btf, target: &Btf, relocation: &Relocation) -> Result<Answer, Unresolved> {
    let enumeration = local.resolve(relocation.ty);
    let TypeKind::Enum { values, .. } = local.kind(enumeration) else {
        return Err(Unresolved(format!(
            "{} is not an enumeration",
            local.c_name(relocation.ty)
        )));
    };
    let index = relocation.access.first().copied().unwrap_or(u32::MAX) as usize;
    let Some((name, _)) = values.get(index) else {
        return Err(Unresolved(format!(
            "{} has no value number {index}",
            local.c_name(relocation.ty)
        )));
    };
    let name = essential_name(name);
    let mut found: Option<i64> = None;
    for id in candidates(local, target, relocation.ty) {
        let TypeKind::Enum { values, .. } = target.kind(target.resolve(id)) else {
            continue;
        };
        let Some(&(_, value)) = values.iter().find(|(other, _)| essential_name(other) == name) else {
            continue;
        };
        match found {
            Some(before) if before != value => return Err(Unresolved(format!("{name} is ambiguous"))),
            _ => found = Some(value),
        }
    }
    match (relocation.ask, found) {
        (Ask::EnumExists, found) => Ok(Answer {
            value: found.is_some().into(),
            sizes: None,
        }),
        (_, Some(value)) => Ok(Answer {
            value: value.cast_unsigned(),
            sizes: None,
        }),
        (_, None) => Err(Unresolved(format!(
            "{name} of {} is not modelled",
            local.c_name(relocation.ty)
        ))),
    }
}

fn field(local: &Btf, target: &Btf, relocation: &Relocation) -> Result<Answer, Unresolved> {
    let path = Path::local(local, relocation)?;
    let mut found: Option<Answer> = None;
    for id in candidates(local, target, relocation.ty) {
        let Some(there) = path.find_in(local, target, id) else {
            continue;
        };
        let answer = answer(local, &path, target, &there, relocation.ask)?;
        match found {
            Some(before) if before != answer => return Err(Unresolved(format!("{} is ambiguous", path.text(local)))),
            _ => found = Some(answer),
        }
    }
    match (found, relocation.ask) {
        (Some(answer), _) => Ok(answer),
        (None, Ask::FieldExists) => Ok(Answer { value: 0, sizes: None }),
        (None, _) => Err(Unresolved(format!("{} is not modelled", path.text(local)))),
    }
}

fn answer(local: &Btf, from: &Path, target: &Btf, path: &Path, ask: Ask) -> Result<Answer, Unresolved> {
    let location = path.locate(target)?;
    let plain = |value| Ok(Answer { value, sizes: None });
    match ask {
        Ask::FieldExists => plain(1),
        Ask::FieldSize => plain(u64::from(location.size)),
        Ask::FieldSigned => {
            let signed = match target.kind(target.resolve(path.ty())) {
                TypeKind::Int { encoding, .. } => encoding & INT_SIGNED != 0,
                TypeKind::Enum { signed, .. } => *signed,
                _ => false,
            };
            plain(signed.into())
        }
        Ask::FieldLshift => plain(64 - u64::from(location.first_bit + location.bits)),
        Ask::FieldRshift => plain(64 - u64::from(location.bits)),
        _ => {
            let adjustable = |btf: &Btf, id| match btf.kind(btf.resolve(id)) {
                TypeKind::Int { encoding, .. } => encoding & INT_SIGNED == 0,
                TypeKind::Ptr(_) => true,
                _ => false,
            };
            let sizes = Sizes {
                local: from.locate(local).map_or(location.size, |location| location.size),
                target: location.size,
                adjustable: adjustable(local, from.ty()) && adjustable(target, path.ty()),
            };
            Ok(Answer {
                value: location.offset,
                sizes: Some(sizes),
            })
        }
    }
}
