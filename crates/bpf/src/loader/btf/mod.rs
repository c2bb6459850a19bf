// SPDX-License-Identifier: GPL-2.0-only
//! BTF, the BPF type format: what the types of an object or of a kernel look like.
//!
//! A [`Btf`] is a table of types; a type's id is its index, and id 0 is `void`. One is read from an object's .BTF
//! section ([`Btf::parse`]), or made: from C declarations ([`declare`]) and from Rust structs
//! ([`kstruct!`](macro@crate::kstruct)). Whatever the origin, references are valid and containment by value ends within
//! [`MAX_DEPTH`] steps, so that walking needs no checks.
//!
//! Reference: Documentation/bpf/btf.rst, include/uapi/linux/btf.h.

pub mod build;
pub mod declare;
mod encode;
pub mod kstruct;
pub(crate) mod parse;
mod print;

use std::collections::BTreeMap;

/// Longest chain of typedefs, modifiers, arrays and members by value.
pub const MAX_DEPTH: u32 = 64;

/// Integer encoding bits: see [`Kind::Int`].
pub const INT_SIGNED: u8 = 1;
/// A character.
pub const INT_CHAR: u8 = 2;
/// A truth value.
pub const INT_BOOL: u8 = 4;

/// Linkage of functions and variables: `static`.
pub const STATIC: u32 = 0;
/// Linkage of functions and variables: defined here, visible elsewhere.
pub const GLOBAL: u32 = 1;
/// Linkage of functions and variables: defined elsewhere.
pub const EXTERN: u32 = 2;

/// Types by id.
#[derive(Clone, Debug)]
pub struct Btf {
    types: Vec<Type>,
    /// Ids by essential name, so that CO-RE candidates are one look-up; only kept by targets.
    names: BTreeMap<String, Vec<u32>>,
}

/// One type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Empty when anonymous.
    pub name: Box<str>,
    /// What it is.
    pub kind: Kind,
}

/// The kinds of types. `u32`s named `ty`, and those without a name, are type ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `void`, id 0.
    Void,
    /// An integer.
    Int {
        /// Bytes.
        size: u32,
        /// [`INT_SIGNED`], [`INT_CHAR`], [`INT_BOOL`].
        encoding: u8,
        /// First bit of the value in its bytes; 0 in all current compilers' output.
        offset: u8,
        /// Bits of the value.
        bits: u8,
    },
    /// A pointer.
    Ptr(u32),
    /// An array; `len` is 0 of a flexible one.
    Array {
        /// Type of an element.
        ty: u32,
        /// Type of the index.
        index: u32,
        /// Elements.
        len: u32,
    },
    /// A struct.
    Struct(Composite),
    /// A union.
    Union(Composite),
    /// An enumeration.
    Enum {
        /// Bytes.
        size: u32,
        /// Are values signed?
        signed: bool,
        /// Encoded as ENUM64?
        wide: bool,
        /// Names and values; of unsigned ones, the bits.
        values: Vec<(Box<str>, i64)>,
    },
    /// A struct or union only declared.
    Fwd {
        /// A union?
        union: bool,
    },
    /// An alias.
    Typedef(u32),
    /// A modifier.
    Volatile(u32),
    /// A modifier.
    Const(u32),
    /// A modifier.
    Restrict(u32),
    /// A function: its prototype.
    Func {
        /// A FuncProto.
        ty: u32,
        /// [`STATIC`], [`GLOBAL`] or [`EXTERN`].
        linkage: u32,
    },
    /// A function's type.
    FuncProto {
        /// What it returns.
        ret: u32,
        /// Its parameters; a variadic function ends with one without name and type.
        params: Vec<Param>,
    },
    /// A variable.
    Var {
        /// Its type.
        ty: u32,
        /// [`STATIC`], [`GLOBAL`] or [`EXTERN`].
        linkage: u32,
    },
    /// The variables of a section.
    Datasec {
        /// Bytes.
        size: u32,
        /// In the order of declaration or offset.
        vars: Vec<VarInfo>,
    },
    /// A floating point number: bytes.
    Float(u32),
    /// A tag on a declaration, the name being its text.
    DeclTag {
        /// What it is on.
        ty: u32,
        /// Member or parameter, -1 for the whole.
        component: i32,
    },
    /// A tag on a type, the name being its text.
    TypeTag(u32),
}

/// A struct or a union.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composite {
    /// Bytes.
    pub size: u32,
    /// By declaration.
    pub members: Vec<Member>,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Empty when anonymous.
    pub name: Box<str>,
    /// Its type.
    pub ty: u32,
    /// Bits from the start of the struct.
    pub bit_offset: u32,
    /// Bits of a bitfield, otherwise 0.
    pub bit_size: u8,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Empty when anonymous.
    pub name: Box<str>,
    /// Its type.
    pub ty: u32,
}

/// A variable in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarInfo {
    /// A Var, or in .ksyms a Func.
    pub ty: u32,
    /// Bytes from the start of the section.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// A name without its flavour: `task_struct___old` means `task_struct`. Only the last suffix counts.
pub fn essential_name(name: &str) -> &str {
    let bytes = name.as_bytes();
    // x___y with something on both sides that is not an underscore.
    let flavour = |i: usize| bytes[i] != b'_' && &bytes[i + 1..i + 4] == b"___" && bytes[i + 4] != b'_';
    match (0..bytes.len().saturating_sub(4)).rev().find(|&i| flavour(i)) {
        Some(i) => &name[..i + 1],
        None => name,
    }
}

impl Default for Btf {
    fn default() -> Btf {
        let void = Type {
            name: "".into(),
            kind: Kind::Void,
        };
        Btf {
            types: vec![void],
            names: BTreeMap::new(),
        }
    }
}

impl Btf {
    /// The type of this id; `void` for ids that do not exist.
    pub fn get(&self, id: u32) -> &Type {
        self.types.get(id as usize).unwrap_or(&self.types[0])
    }

    /// The kind of this id.
    pub fn kind(&self, id: u32) -> &Kind {
        &self.get(id).kind
    }

    /// The name of this id.
    pub fn name(&self, id: u32) -> &str {
        &self.get(id).name
    }

    /// Number of types, `void` included: ids are below this.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u32 {
        self.types.len() as u32
    }

    /// All types with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Type)> {
        (0..).zip(&self.types)
    }

    /// The type behind modifiers and type tags.
    pub fn skip_modifiers(&self, mut id: u32) -> u32 {
        while let Kind::Volatile(to) | Kind::Const(to) | Kind::Restrict(to) | Kind::TypeTag(to) = *self.kind(id) {
            id = to;
        }
        id
    }

    /// The type behind typedefs, modifiers and type tags.
    pub fn resolve(&self, mut id: u32) -> u32 {
        while let Kind::Typedef(to) | Kind::Volatile(to) | Kind::Const(to) | Kind::Restrict(to) | Kind::TypeTag(to) =
            *self.kind(id)
        {
            id = to;
        }
        id
    }

    /// Bytes of a value of this type; `None` for what has no size: void, functions, forward declarations.
    pub fn size_of(&self, id: u32) -> Option<u32> {
        match self.kind(self.resolve(id)) {
            Kind::Int { size, .. } | Kind::Enum { size, .. } | Kind::Datasec { size, .. } | Kind::Float(size) => {
                Some(*size)
            }
            Kind::Struct(c) | Kind::Union(c) => Some(c.size),
            Kind::Ptr(_) => Some(8),
            Kind::Array { ty, len, .. } => self.size_of(*ty)?.checked_mul(*len),
            Kind::Var { ty, .. } => self.size_of(*ty),
            _ => None,
        }
    }

    /// The struct or union behind this id.
    pub fn composite(&self, id: u32) -> Option<&Composite> {
        match self.kind(self.resolve(id)) {
            Kind::Struct(c) | Kind::Union(c) => Some(c),
            _ => None,
        }
    }

    /// The first type of this name which `wanted` accepts.
    pub fn find(&self, name: &str, wanted: impl Fn(&Kind) -> bool) -> Option<u32> {
        if self.names.is_empty() {
            return self
                .iter()
                .find(|(_, t)| *t.name == *name && wanted(&t.kind))
                .map(|(id, _)| id);
        }
        self.named(essential_name(name))
            .find(|&id| self.name(id) == name && wanted(self.kind(id)))
    }

    /// The struct of this name.
    pub fn find_struct(&self, name: &str) -> Option<u32> {
        self.find(name, |kind| matches!(kind, Kind::Struct(_)))
    }

    /// Ids whose name without flavour is this; empty before [`Btf::index`].
    pub fn named(&self, essential: &str) -> impl Iterator<Item = u32> {
        self.names.get(essential).into_iter().flatten().copied()
    }

    /// Makes names quick to find.
    pub fn index(&mut self) {
        self.names.clear();
        for (id, ty) in (0..).zip(&self.types).filter(|(_, ty)| !ty.name.is_empty()) {
            self.names
                .entry(essential_name(&ty.name).to_string())
                .or_default()
                .push(id);
        }
    }

    /// Texts of the declaration tags on a type as a whole.
    pub fn decl_tags(&self, on: u32) -> impl Iterator<Item = &str> {
        self.types.iter().filter_map(move |t| match t.kind {
            Kind::DeclTag { ty, component: -1 } if ty == on => Some(&*t.name),
            _ => None,
        })
    }

    /// Text of the declaration tag on a member of a type that starts with this.
    pub fn member_tag(&self, on: u32, member: usize, prefix: &str) -> Option<&str> {
        self.types.iter().find_map(|t| match t.kind {
            Kind::DeclTag { ty, component } if ty == on && component == member as i32 => t.name.strip_prefix(prefix),
            _ => None,
        })
    }

    /// What a type refers to by value: where its size and layout come from.
    fn contains(&self, id: u32) -> impl Iterator<Item = u32> {
        let (one, many): (Option<u32>, &[Member]) = match self.kind(id) {
            Kind::Typedef(to) | Kind::Volatile(to) | Kind::Const(to) | Kind::Restrict(to) | Kind::TypeTag(to) => {
                (Some(*to), &[])
            }
            Kind::Array { ty, .. } | Kind::Func { ty, .. } | Kind::Var { ty, .. } => (Some(*ty), &[]),
            Kind::Struct(c) | Kind::Union(c) => (None, &c.members),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().map(|m| m.ty))
    }

    /// A type that contains itself by value or nests deeper than [`MAX_DEPTH`].
    fn find_cycle(&self) -> Option<u32> {
        // Depth of each type; 0 = not known yet, MAX = being computed.
        let mut depth = vec![0; self.types.len()];
        (0..self.len()).find(|&id| self.depth(id, 0, &mut depth).is_none())
    }

    fn depth(&self, id: u32, above: u32, known: &mut [u32]) -> Option<u32> {
        match known[id as usize] {
            u32::MAX => return None,
            0 if above >= MAX_DEPTH => return None,
            0 => (),
            depth => return (above + depth <= MAX_DEPTH).then_some(depth),
        }
        known[id as usize] = u32::MAX;
        let mut deepest = 0;
        for inner in self.contains(id) {
            deepest = deepest.max(self.depth(inner, above + 1, known)?);
        }
        known[id as usize] = deepest + 1;
        Some(deepest + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::essential_name;

    #[test]
    fn flavours() {
        let check = |name, expect| assert_eq!(essential_name(name), expect);
        check("task_struct", "task_struct");
        check("task_struct___old", "task_struct");
        check("a___b___c", "a___b");
        check("a____b", "a____b");
        check("___b", "___b");
        check("a___", "a___");
        check("scx_bpf_dsq_insert___v2___compat", "scx_bpf_dsq_insert___v2");
    }
}
