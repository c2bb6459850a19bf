// SPDX-License-Identifier: GPL-2.0-only
//! CO-RE: constants in the code that depend on the kernel's types, computed for the target's.
//!
//! The compiler records for each such constant the type, the path of accesses and what is asked ([`Ask`]). The type is
//! sought in the target by name without flavour (`task_struct___old` is `task_struct`), the path by member names; all
//! candidates that fit must agree. What is not there answers "exists" questions with 0; for other questions it is an
//! [`Unresolved`], which linking turns into a trap: guarded uses are never executed. Rules as libbpf's relo_core.c has
//! them.

mod compat;
mod path;

pub use compat::{types_compatible, types_match};
use path::Path;
pub(crate) use path::find_member;

use crate::btf::{Btf, INT_SIGNED, Kind, essential_name};

/// What a relocation asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Offset of a field in bytes.
    FieldOffset,
    /// Bytes of a field.
    FieldSize,
    /// Is there such a field?
    FieldExists,
    /// Is the field signed?
    FieldSigned,
    /// Left shift that puts a bitfield's top bit at bit 63.
    FieldLshift,
    /// Right shift after that.
    FieldRshift,
    /// The type's id in the object.
    TypeIdLocal,
    /// The type's id in the target.
    TypeIdTarget,
    /// Is there such a type?
    TypeExists,
    /// Bytes of the type.
    TypeSize,
    /// Is there such an enumerator?
    EnumExists,
    /// Value of an enumerator.
    EnumValue,
    /// Is there a type that has everything which the local one has?
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

/// Longest access path.
const MAX_PATH: usize = 64;

/// One relocation as recorded by the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The type in the object's BTF.
    pub ty: u32,
    /// Index on the type as an array, then member and element indices; for enumerators their index.
    pub access: Vec<u32>,
    /// What is asked.
    pub ask: Ask,
}

impl Relocation {
    /// From the record's fields; `access` is like "0:3:1".
    pub fn new(ty: u32, access: &str, kind: u32) -> Result<Relocation, String> {
        let ask = *ASKS
            .get(kind as usize)
            .ok_or_else(|| format!("unknown CO-RE relocation kind {kind}"))?;
        let access: Result<Vec<u32>, _> = access.split(':').map(str::parse).collect();
        match access {
            Ok(access) if access.len() <= MAX_PATH => Ok(Relocation { ty, access, ask }),
            _ => Err("bad CO-RE access string".to_string()),
        }
    }
}

/// The answer to a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The constant.
    pub value: u64,
    /// Of a field's offset: its bytes in the object's and in the target's types, when a load or store of the one may
    /// become one of the other. `None` for other questions.
    pub sizes: Option<Sizes>,
}

/// Sizes of a field for adjusting a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes in the object's types.
    pub local: u32,
    /// Bytes in the target's types.
    pub target: u32,
    /// May an access change its size? Only of unsigned integers: a wider load must not need sign extension.
    pub adjustable: bool,
}

/// The target does not have it: a sentence that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved(pub String);

/// Computes the constant. `target` must be [indexed](Btf::index).
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

/// What a relocation is about: "struct task_struct.scx.flags", "enum scx_enq_flags::SCX_ENQ_HEAD", a type.
pub fn describe(local: &Btf, relocation: &Relocation) -> String {
    let ty = local.c_name(relocation.ty);
    match relocation.ask {
        Ask::EnumExists | Ask::EnumValue => match (local.kind(local.resolve(relocation.ty)), relocation.access.first())
        {
            (Kind::Enum { values, .. }, Some(&index)) => values
                .get(index as usize)
                .map_or(ty.clone(), |(name, _)| format!("{ty}::{name}")),
            _ => ty,
        },
        Ask::TypeIdLocal | Ask::TypeIdTarget | Ask::TypeExists | Ask::TypeSize | Ask::TypeMatches => ty,
        _ => Path::local(local, relocation).map_or(ty, |path| path.text(local)),
    }
}

/// Types of the target that may be the local one: same name but for the flavour, same kind.
fn candidates(local: &Btf, target: &Btf, id: u32) -> Vec<u32> {
    let id = local.skip_modifiers(id);
    let name = essential_name(local.name(id));
    let same_kind = |a: &Kind, b: &Kind| std::mem::discriminant(a) == std::mem::discriminant(b);
    let found: Vec<u32> = target
        .named(name)
        // The target's own flavours are other types.
        .filter(|&other| target.name(other) == name && same_kind(local.kind(id), target.kind(other)))
        .collect();
    match *local.kind(id) {
        // The target may lack an alias of a struct that it has.
        Kind::Typedef(to) if found.is_empty() => candidates(local, target, to),
        _ => found,
    }
}

fn enumerator(local: &Btf, target: &Btf, relocation: &Relocation) -> Result<Answer, Unresolved> {
    let enumeration = local.resolve(relocation.ty);
    let Kind::Enum { values, .. } = local.kind(enumeration) else {
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
        let Kind::Enum { values, .. } = target.kind(target.resolve(id)) else {
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
            value: value as u64,
            sizes: None,
        }),
        (_, None) => Err(Unresolved(format!(
            "{name} of {} is not modelled",
            local.c_name(relocation.ty)
        ))),
    }
}

fn field(local: &Btf, target: &Btf, relocation: &Relocation) -> Result<Answer, Unresolved> {
    let path = Path::local(local, relocation).map_err(Unresolved)?;
    let mut found: Option<Answer> = None;
    for id in candidates(local, target, relocation.ty) {
        let Some(there) = path.find_in(local, target, id) else {
            continue;
        };
        let answer = answer(local, &path, target, &there, relocation.ask).map_err(Unresolved)?;
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

fn answer(local: &Btf, from: &Path, target: &Btf, path: &Path, ask: Ask) -> Result<Answer, String> {
    let place = path.place(target)?;
    let plain = |value| Ok(Answer { value, sizes: None });
    match ask {
        Ask::FieldExists => plain(1),
        Ask::FieldSize => plain(u64::from(place.size)),
        Ask::FieldSigned => {
            let signed = match target.kind(target.resolve(path.ty())) {
                Kind::Int { encoding, .. } => encoding & INT_SIGNED != 0,
                Kind::Enum { signed, .. } => *signed,
                _ => false,
            };
            plain(signed.into())
        }
        Ask::FieldLshift => plain(64 - u64::from(place.first_bit + place.bits)),
        Ask::FieldRshift => plain(64 - u64::from(place.bits)),
        _ => {
            let adjustable = |btf: &Btf, id| match btf.kind(btf.resolve(id)) {
                Kind::Int { encoding, .. } => encoding & INT_SIGNED == 0,
                Kind::Ptr(_) => true,
                _ => false,
            };
            let sizes = Sizes {
                local: from.place(local).map_or(place.size, |place| place.size),
                target: place.size,
                adjustable: adjustable(local, from.ty()) && adjustable(target, path.ty()),
            };
            Ok(Answer {
                value: place.offset,
                sizes: Some(sizes),
            })
        }
    }
}
