// SPDX-License-Identifier: GPL-2.0-only
//! Builder of BTF (a table of C types), which adds one type at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Btf, Composite, EXTERN, GLOBAL, INT_BOOL, INT_CHAR, INT_SIGNED, Member, Param, Type, TypeKind};

/// A table of types under construction. Equal types share one id.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    btf: Btf,
    /// Ids of the types. The key is a text that identifies the type. For a named type, the text
    /// consists of C's name space ("tagged" for structs, unions and enumerations, otherwise
    /// "ordinary") and the name.
    known: BTreeMap<String, u32>,
    /// Structs that are being defined.
    begun: BTreeSet<u32>,
}

/// Integer types of C on a 64-bit kernel: name, size in bytes, encoding.
const INTS: [(&str, u32, u8); 12] = [
    ("char", 1, INT_SIGNED | INT_CHAR),
    ("signed char", 1, INT_SIGNED),
    ("unsigned char", 1, 0),
    ("_Bool", 1, INT_BOOL),
    ("short", 2, INT_SIGNED),
    ("unsigned short", 2, 0),
    ("int", 4, INT_SIGNED),
    ("unsigned int", 4, 0),
    ("long", 8, INT_SIGNED),
    ("unsigned long", 8, 0),
    ("long long", 8, INT_SIGNED),
    ("unsigned long long", 8, 0),
];

/// Names that the kernel and the C library use for integer types.
const ALIASES: [(&str, &str); 28] = [
    ("bool", "_Bool"),
    ("u8", "unsigned char"),
    ("u16", "unsigned short"),
    ("u32", "unsigned int"),
    ("u64", "unsigned long long"),
    ("s8", "signed char"),
    ("s16", "short"),
    ("s32", "int"),
    ("s64", "long long"),
    ("__u8", "unsigned char"),
    ("__u16", "unsigned short"),
    ("__u32", "unsigned int"),
    ("__u64", "unsigned long long"),
    ("__s8", "signed char"),
    ("__s16", "short"),
    ("__s32", "int"),
    ("__s64", "long long"),
    ("uint8_t", "unsigned char"),
    ("uint32_t", "unsigned int"),
    ("uint64_t", "unsigned long long"),
    ("int32_t", "int"),
    ("int64_t", "long long"),
    ("size_t", "unsigned long"),
    ("ssize_t", "long"),
    ("uintptr_t", "unsigned long"),
    ("pid_t", "int"),
    ("gfp_t", "unsigned int"),
    ("ktime_t", "long long"),
];

impl Builder {
    /// Makes a table that contains only the type `void`.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Returns the types so far.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// Returns the finished table, with an index of the names.
    pub fn finish(mut self) -> Btf {
        self.btf.index();
        self.btf
    }

    /// Returns the id of the type that `key` identifies. Adds the type if it is not known yet.
    fn intern(&mut self, key: String, make: impl FnOnce(&mut Builder) -> Type) -> u32 {
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let ty = make(self);
        let id = self.btf.push(ty);
        self.known.insert(key, id);
        id
    }

    fn unnamed(&mut self, key: String, kind: TypeKind) -> u32 {
        self.intern(key, |_| Type { name: "".into(), kind })
    }

    /// Returns the type with this name: an integer type (`unsigned int`), an alias (`u32`), or a
    /// typedef that was added before. Returns `None` if the name is unknown.
    pub fn by_name(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.known.get(&format!("ordinary {name}")) {
            return Some(id);
        }
        if let Some(&(name, size, encoding)) = INTS.iter().find(|int| int.0 == name) {
            let bits = if encoding == INT_BOOL {
                8
            } else {
                u8::try_from(size * 8).unwrap_or(u8::MAX)
            };
            let kind = TypeKind::Int {
                size,
                encoding,
                offset: 0,
                bits,
            };
            return Some(self.intern(format!("ordinary {name}"), |_| Type {
                name: name.into(),
                kind,
            }));
        }
        let (_, base) = ALIASES.iter().find(|alias| alias.0 == name)?;
        let base = self.by_name(base)?;
        Some(self.typedef(name, base))
    }

    /// Adds a typedef with this name for the type `to`, unless the name is already defined.
    pub fn typedef(&mut self, name: &str, to: u32) -> u32 {
        self.intern(format!("ordinary {name}"), |_| Type {
            name: name.into(),
            kind: TypeKind::Typedef(to),
        })
    }

    /// Adds the type "pointer to `to`".
    pub fn ptr(&mut self, to: u32) -> u32 {
        self.unnamed(format!("ptr {to}"), TypeKind::Ptr(to))
    }

    /// Adds the type "const `to`".
    pub fn constant(&mut self, to: u32) -> u32 {
        self.unnamed(format!("const {to}"), TypeKind::Const(to))
    }

    /// Adds the type "volatile `to`".
    pub fn volatile(&mut self, to: u32) -> u32 {
        self.unnamed(format!("volatile {to}"), TypeKind::Volatile(to))
    }

    /// Adds the type "array of `len` elements of type `ty`".
    pub fn array(&mut self, ty: u32, len: u32) -> u32 {
        let index = self.by_name("unsigned int").unwrap_or(0);
        self.unnamed(format!("array {ty} {len}"), TypeKind::Array { ty, index, len })
    }

    /// Adds `struct name` or `union name` as a forward declaration and returns its id. If the type
    /// is already [defined](Builder::define), only returns its id.
    pub fn forward(&mut self, name: &str, union: bool) -> u32 {
        self.intern(format!("tagged {name}"), |_| Type {
            name: name.into(),
            kind: TypeKind::Fwd { union },
        })
    }

    /// Returns whether the type is so far only declared and not defined.
    pub fn is_forward(&self, id: u32) -> bool {
        matches!(self.btf.kind(id), TypeKind::Fwd { .. })
    }

    /// Starts the definition of a struct. From then on its members may be pointers to the struct.
    /// Returns `false` if the definition has already started.
    pub(crate) fn begin(&mut self, id: u32) -> bool {
        self.is_forward(id) && self.begun.insert(id)
    }

    /// Turns a [forward declaration](Builder::forward) into a definition with the same id. Does
    /// nothing if the type is already defined.
    pub fn define(&mut self, id: u32, composite: Composite) {
        if let TypeKind::Fwd { union } = self.btf.types[id as usize].kind {
            self.btf.types[id as usize].kind = if union {
                TypeKind::Union(composite)
            } else {
                TypeKind::Struct(composite)
            };
        }
    }

    /// Adds an enumeration of `size` bytes. It is encoded as ENUM64 if `size` is 8.
    pub fn enumeration(&mut self, name: &str, size: u32, signed: bool, values: &[(&str, i64)]) -> u32 {
        let values = values.iter().map(|&(name, value)| (name.into(), value)).collect();
        let kind = TypeKind::Enum {
            size,
            signed,
            wide: size == 8,
            values,
        };
        match self.find_tagged(name) {
            // A prototype may have mentioned the enumeration before its definition.
            Some(id) if matches!(self.btf.kind(id), TypeKind::Enum { values, .. } if values.is_empty()) => {
                self.btf.replace(id, kind);
                id
            }
            _ => self.intern(format!("tagged {name}"), |_| Type {
                name: name.into(),
                kind,
            }),
        }
    }

    /// Adds an enumeration with this name and size in bytes, but without values.
    /// [`Builder::enumeration`] may add the values later.
    pub fn named_enum(&mut self, name: &str, size: u32) -> u32 {
        self.find_tagged(name)
            .unwrap_or_else(|| self.enumeration(name, size, false, &[]))
    }

    /// Returns the struct, union or enum with this name, if it was added before.
    pub fn find_tagged(&self, name: &str) -> Option<u32> {
        self.known.get(&format!("tagged {name}")).copied()
    }

    /// Changes the size of a struct that ends with an array of unknown length.
    pub fn resize(&mut self, id: u32, bytes: u32) {
        if let TypeKind::Struct(all) | TypeKind::Union(all) = &mut self.btf.types[id as usize].kind {
            all.size = bytes;
        }
    }

    /// Adds a member to a struct without changing the struct's size. The member may overlap others.
    pub fn add_member(&mut self, of: &str, name: &str, ty: u32, offset: u32) {
        let found = self.find_tagged(of);
        if let Some(TypeKind::Struct(all) | TypeKind::Union(all)) =
            found.map(|id| &mut self.btf.types[id as usize].kind)
        {
            all.members.push(Member {
                name: name.into(),
                ty,
                bit_offset: offset * 8,
                bit_size: 0,
            });
        }
    }

    /// Removes a member from a struct without changing the struct's size.
    pub fn remove_member(&mut self, of: &str, name: &str) {
        let found = self.find_tagged(of);
        if let Some(TypeKind::Struct(all) | TypeKind::Union(all)) =
            found.map(|id| &mut self.btf.types[id as usize].kind)
        {
            all.members.retain(|member| *member.name != *name);
        }
    }

    /// Removes the name of a struct, union or enum, so that it cannot be found.
    pub fn remove_type(&mut self, name: &str) {
        if let Some(id) = self.known.remove(&format!("tagged {name}")) {
            self.btf.types[id as usize].name = "".into();
        }
    }

    /// Adds a function type.
    pub fn func_proto(&mut self, ret: u32, params: Vec<Param>) -> u32 {
        let mut key = format!("proto {ret}");
        for param in &params {
            key += &format!(" {}:{}", param.name, param.ty);
        }
        self.unnamed(key, TypeKind::FuncProto { ret, params })
    }

    /// Adds a function.
    pub fn func(&mut self, name: &str, proto: u32) -> u32 {
        self.intern(format!("ordinary {name}"), |_| Type {
            name: name.into(),
            kind: TypeKind::Func {
                ty: proto,
                linkage: GLOBAL,
            },
        })
    }

    /// Adds an external variable.
    pub fn var(&mut self, name: &str, ty: u32) -> u32 {
        self.intern(format!("ordinary {name}"), |_| Type {
            name: name.into(),
            kind: TypeKind::Var { ty, linkage: EXTERN },
        })
    }
}

impl Btf {
    /// Appends a type and returns its id.
    pub(crate) fn push(&mut self, ty: Type) -> u32 {
        self.types.push(ty);
        self.len() - 1
    }

    /// Replaces a type's kind.
    pub(crate) fn replace(&mut self, id: u32, kind: TypeKind) {
        self.types[id as usize].kind = kind;
    }
}
