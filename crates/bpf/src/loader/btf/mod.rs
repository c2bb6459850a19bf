// SPDX-License-Identifier: GPL-2.0-only
//! BTF, the BPF type format, which describes the types of an object or a kernel.
//!
//! A [`Btf`] is a table of types. A type's id is its index in the table, and id 0 is `void`. A
//! table is parsed from an object's .BTF section ([`Btf::parse`]), or built from C declarations
//! ([`declare`]) or Rust structs ([`kstruct!`](macro@crate::kstruct)). Every table is well-formed:
//! all references are valid, and the nesting of types that contain other types by value is at most
//! [`MAX_DEPTH`] deep. Code that walks a table therefore need not check for invalid ids or cycles.
//!
//! Reference: Documentation/bpf/btf.rst, include/uapi/linux/btf.h.

pub mod build;
pub mod declare;
mod encode;
mod field;
pub mod kstruct;
pub(crate) mod parse;
mod print;

use std::collections::BTreeMap;

/// Maximum length of a chain of typedefs, modifiers, arrays and members by value.
pub const MAX_DEPTH: u32 = 64;

/// Encoding bit of a signed integer; see [`TypeKind::Int`].
pub const INT_SIGNED: u8 = 1;
/// Encoding bit of a character.
pub const INT_CHAR: u8 = 2;
/// Encoding bit of a truth value.
pub const INT_BOOL: u8 = 4;

/// Value of `linkage` for a `static` function or variable.
pub const STATIC: u32 = 0;
/// Value of `linkage` for a function or variable that the object defines and others may use.
pub const GLOBAL: u32 = 1;
/// Value of `linkage` for a function or variable that is defined elsewhere.
pub const EXTERN: u32 = 2;

/// A table of types, by id.
#[derive(Clone, Debug)]
pub struct Btf {
    types: Vec<Type>,
    /// Ids of the types by name without flavour (see [`essential_name`]). With this index, CO-RE
    /// finds the candidates for a type with one look-up. Only the BTF of target kernels has it.
    names: BTreeMap<String, Vec<u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name, or an empty text for an anonymous type.
    pub name: Box<str>,
    /// Kind of the type, with its data.
    pub kind: TypeKind,
}

/// Kinds of types, with the data of each kind. A `u32` without a name, or with the name `ty`, is
/// the id of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// `void`, id 0.
    Void,
    /// An integer.
    Int {
        /// Size in bytes.
        size: u32,
        /// [`INT_SIGNED`], [`INT_CHAR`], [`INT_BOOL`].
        encoding: u8,
        /// First bit of the value in its bytes. 0 in the output of all current compilers.
        offset: u8,
        /// Number of bits of the value.
        bits: u8,
    },
    /// A pointer.
    Ptr(u32),
    Array {
        /// Type of an element.
        ty: u32,
        /// Type of the index.
        index: u32,
        /// Number of elements, 0 for a flexible array.
        len: u32,
    },
    Struct(Composite),
    Union(Composite),
    /// An enumeration.
    Enum {
        /// Size in bytes.
        size: u32,
        /// Whether the values are signed.
        signed: bool,
        /// Whether BTF encodes the enumeration as ENUM64.
        wide: bool,
        /// Names and values. An unsigned value is stored as the signed number with the same bits.
        values: Vec<(Box<str>, i64)>,
    },
    /// A struct or union that is declared but not defined.
    Fwd {
        union: bool,
    },
    /// An alias.
    Typedef(u32),
    /// A `volatile` type.
    Volatile(u32),
    /// A `const` type.
    Const(u32),
    /// A `restrict` type.
    Restrict(u32),
    /// A function.
    Func {
        /// The function's type, a FuncProto.
        ty: u32,
        /// [`STATIC`], [`GLOBAL`] or [`EXTERN`].
        linkage: u32,
    },
    /// A function type.
    FuncProto {
        /// Type of the result.
        ret: u32,
        /// Parameters. A variadic function ends with a parameter that has no name and type 0.
        params: Vec<Param>,
    },
    /// A variable.
    Var {
        /// Type of the variable.
        ty: u32,
        /// [`STATIC`], [`GLOBAL`] or [`EXTERN`].
        linkage: u32,
    },
    /// The variables of a section.
    Datasec {
        /// Size in bytes.
        size: u32,
        /// Variables in the order of declaration or offset.
        vars: Vec<VarInfo>,
    },
    /// A floating point number, with its size in bytes.
    Float(u32),
    /// A tag on a declaration. The type's name is the text of the tag.
    DeclTag {
        /// Tagged type, variable or function.
        ty: u32,
        /// Index of the tagged member or parameter, or -1 for the whole type.
        component: i32,
    },
    /// A tag on a type. The type's name is the text of the tag.
    TypeTag(u32),
}

/// A struct or a union.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composite {
    /// Size in bytes.
    pub size: u32,
    /// Members in the order of declaration.
    pub members: Vec<Member>,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name, or an empty text for an anonymous member.
    pub name: Box<str>,
    /// Type of the member.
    pub ty: u32,
    /// Offset from the start of the struct in bits.
    pub bit_offset: u32,
    /// Width of a bitfield in bits, or 0 for other members.
    pub bit_size: u8,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name, or an empty text for an anonymous parameter.
    pub name: Box<str>,
    /// Type of the parameter.
    pub ty: u32,
}

/// A variable in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarInfo {
    /// A Var, or a Func in .ksyms.
    pub ty: u32,
    /// Offset from the start of the section in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// Returns a name without its flavour: `task_struct___old` becomes `task_struct`. A flavour is a
/// suffix after three underscores, which distinguishes versions of a type. Only the last suffix is
/// removed.
pub fn essential_name(name: &str) -> &str {
    let bytes = name.as_bytes();
    // A flavour is `x___y`, where `x` and `y` are not underscores.
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
            kind: TypeKind::Void,
        };
        Btf {
            types: vec![void],
            names: BTreeMap::new(),
        }
    }
}

impl Btf {
    /// Returns the type with this id, or `void` for an invalid id.
    pub fn get(&self, id: u32) -> &Type {
        self.types.get(id as usize).unwrap_or(&self.types[0])
    }

    /// Returns the kind of the type with this id.
    pub fn kind(&self, id: u32) -> &TypeKind {
        &self.get(id).kind
    }

    /// Returns the name of the type with this id.
    pub fn name(&self, id: u32) -> &str {
        &self.get(id).name
    }

    /// Returns the number of types, including `void`. All ids are smaller than this number.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u32 {
        input::index(self.types.len())
    }

    /// Returns all types with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Type)> {
        (0..).zip(&self.types)
    }

    /// Returns the type without its qualifiers (`const`, `volatile`, `restrict`) and type tags.
    pub fn skip_modifiers(&self, mut id: u32) -> u32 {
        while let TypeKind::Volatile(to) | TypeKind::Const(to) | TypeKind::Restrict(to) | TypeKind::TypeTag(to) =
            *self.kind(id)
        {
            id = to;
        }
        id
    }

    /// Returns the type without typedefs, qualifiers and type tags.
    pub fn resolve(&self, mut id: u32) -> u32 {
        while let TypeKind::Typedef(to)
        | TypeKind::Volatile(to)
        | TypeKind::Const(to)
        | TypeKind::Restrict(to)
        | TypeKind::TypeTag(to) = *self.kind(id)
        {
            id = to;
        }
        id
    }

    /// Returns the size of a value of this type in bytes. Returns `None` for types without a size:
    /// void, functions, forward declarations.
    pub fn size_of(&self, id: u32) -> Option<u32> {
        match self.kind(self.resolve(id)) {
            TypeKind::Int { size, .. }
            | TypeKind::Enum { size, .. }
            | TypeKind::Datasec { size, .. }
            | TypeKind::Float(size) => Some(*size),
            TypeKind::Struct(c) | TypeKind::Union(c) => Some(c.size),
            TypeKind::Ptr(_) => Some(8),
            TypeKind::Array { ty, len, .. } => self.size_of(*ty)?.checked_mul(*len),
            TypeKind::Var { ty, .. } => self.size_of(*ty),
            _ => None,
        }
    }

    /// Returns whether this is the type of a character, so that an array of it is a text.
    pub fn is_text(&self, id: u32) -> bool {
        let id = self.resolve(id);
        matches!(self.kind(id), TypeKind::Int { size: 1, encoding, .. }
            if encoding & INT_CHAR != 0 || self.name(id) == "char")
    }

    /// Returns the struct or union with this id. The id may also be that of a typedef or qualified
    /// type of the struct or union.
    pub fn composite(&self, id: u32) -> Option<&Composite> {
        match self.kind(self.resolve(id)) {
            TypeKind::Struct(c) | TypeKind::Union(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the first type with this name that `wanted` accepts.
    pub fn find(&self, name: &str, wanted: impl Fn(&TypeKind) -> bool) -> Option<u32> {
        if self.names.is_empty() {
            return self
                .iter()
                .find(|(_, t)| *t.name == *name && wanted(&t.kind))
                .map(|(id, _)| id);
        }
        self.named(essential_name(name))
            .find(|&id| self.name(id) == name && wanted(self.kind(id)))
    }

    pub fn find_struct(&self, name: &str) -> Option<u32> {
        self.find(name, |kind| matches!(kind, TypeKind::Struct(_)))
    }

    /// Returns the ids of the types whose name without flavour is `essential`. Returns no ids if
    /// [`Btf::index`] has not been called.
    pub fn named(&self, essential: &str) -> impl Iterator<Item = u32> {
        self.names.get(essential).into_iter().flatten().copied()
    }

    /// Builds the index of names.
    pub fn index(&mut self) {
        self.names.clear();
        for (id, ty) in (0..).zip(&self.types).filter(|(_, ty)| !ty.name.is_empty()) {
            self.names
                .entry(essential_name(&ty.name).to_string())
                .or_default()
                .push(id);
        }
    }

    /// Returns the texts of the declaration tags that are attached to a type as a whole, not to one
    /// of its members.
    pub fn decl_tags(&self, on: u32) -> impl Iterator<Item = &str> {
        self.types.iter().filter_map(move |t| match t.kind {
            TypeKind::DeclTag { ty, component: -1 } if ty == on => Some(&*t.name),
            _ => None,
        })
    }

    /// Finds a declaration tag of a member whose text starts with `prefix`. Returns the rest of the
    /// text.
    pub fn member_tag(&self, on: u32, member: usize, prefix: &str) -> Option<&str> {
        let member = i32::try_from(member).ok()?;
        self.types.iter().find_map(|t| match t.kind {
            TypeKind::DeclTag { ty, component } if ty == on && component == member => t.name.strip_prefix(prefix),
            _ => None,
        })
    }

    /// Returns the types that a type contains by value. They determine its size and layout.
    fn contains(&self, id: u32) -> impl Iterator<Item = u32> {
        let (one, many): (Option<u32>, &[Member]) = match self.kind(id) {
            TypeKind::Typedef(to)
            | TypeKind::Volatile(to)
            | TypeKind::Const(to)
            | TypeKind::Restrict(to)
            | TypeKind::TypeTag(to) => (Some(*to), &[]),
            TypeKind::Array { ty, .. } | TypeKind::Func { ty, .. } | TypeKind::Var { ty, .. } => (Some(*ty), &[]),
            TypeKind::Struct(c) | TypeKind::Union(c) => (None, &c.members),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().map(|m| m.ty))
    }

    /// Returns the id of a type that contains itself by value, or that is nested deeper than
    /// [`MAX_DEPTH`].
    fn find_cycle(&self) -> Option<u32> {
        // Depth of each type: 0 if unknown, MAX while it is being computed.
        let mut depth = vec![0; self.types.len()];
        (0..self.len()).find(|&id| self.depth(id, 0, &mut depth).is_none())
    }

    /// Returns the depth of a type: 1 plus the greatest depth of the types that it contains by
    /// value. Returns `None` if the type contains itself, or if `above` outer levels and this type
    /// together are nested too deeply. `known` has the depths that are already computed.
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
    fn the_last_suffix_is_the_flavour() {
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
