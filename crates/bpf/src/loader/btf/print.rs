// SPDX-License-Identifier: GPL-2.0-only
//! Formats types in C syntax.

use super::{Btf, TypeKind};

/// Maximum nesting of declarators. Deeper parts are replaced by "...".
const MAX_NESTING: u32 = 16;

impl Btf {
    /// Returns the type's name in C syntax: `struct task_struct *`, `char[16]`, `u64`.
    pub fn c_name(&self, id: u32) -> String {
        self.declare(id, "", 0)
    }

    /// Returns a C declaration of `name` with this type, for example `int (*less)(struct a *,
    /// struct b *)`.
    pub fn c_declaration(&self, id: u32, name: &str) -> String {
        self.declare(id, name, 0)
    }

    /// Returns the definition of a struct, union or enumeration. Each member is on a line with its
    /// offset in bytes. For other types, returns [`Btf::c_name`].
    pub fn c_definition(&self, id: u32) -> String {
        let mut text = self.c_name(id);
        match self.kind(id) {
            TypeKind::Struct(c) | TypeKind::Union(c) => {
                text += " {\n";
                for m in &c.members {
                    text += &format!("\t{}", self.c_declaration(m.ty, &m.name));
                    match m.bit_size {
                        0 => text += &format!("; /* {} */\n", m.bit_offset / 8),
                        bits => text += &format!(" : {bits}; /* {}:{} */\n", m.bit_offset / 8, m.bit_offset % 8),
                    }
                }
                text += &format!("}}; /* {} bytes */", c.size);
            }
            TypeKind::Enum { signed, values, .. } => {
                text += " {\n";
                for (name, value) in values {
                    match signed {
                        true => text += &format!("\t{name} = {value},\n"),
                        false => text += &format!("\t{name} = {:#x},\n", value.cast_unsigned()),
                    }
                }
                text += "};";
            }
            _ => (),
        }
        text
    }

    fn declare(&self, id: u32, inner: &str, nesting: u32) -> String {
        if nesting > MAX_NESTING {
            return "...".to_string();
        }
        let spaced = |base: &str| match inner {
            "" => base.to_string(),
            // C has no space before an array's bracket, nor between the star and the name of a
            // pointer.
            _ if inner.starts_with('[') => format!("{base}{inner}"),
            _ => format!("{base} {inner}"),
        };
        let tagged = |word: &str| match self.name(id) {
            "" => spaced(&format!("{word} {{...}}")),
            name => spaced(&format!("{word} {name}")),
        };
        match self.kind(id) {
            TypeKind::Void => spaced("void"),
            TypeKind::Struct(_) => tagged("struct"),
            TypeKind::Union(_) => tagged("union"),
            TypeKind::Enum { .. } => tagged("enum"),
            TypeKind::Fwd { union } => tagged(if *union { "union" } else { "struct" }),
            TypeKind::Ptr(to) => {
                let target = self.kind(self.skip_modifiers(*to));
                match matches!(target, TypeKind::Array { .. } | TypeKind::FuncProto { .. }) {
                    true => self.declare(*to, &format!("(*{inner})"), nesting + 1),
                    false => self.declare(*to, &format!("*{inner}"), nesting + 1),
                }
            }
            TypeKind::Array { ty, len, .. } => self.declare(*ty, &format!("{inner}[{len}]"), nesting + 1),
            TypeKind::Const(to) => self.qualified("const", *to, inner, nesting),
            TypeKind::Volatile(to) => self.qualified("volatile", *to, inner, nesting),
            TypeKind::Restrict(to) => self.qualified("restrict", *to, inner, nesting),
            TypeKind::TypeTag(to) => self.declare(*to, inner, nesting + 1),
            TypeKind::FuncProto { ret, params } => {
                let params: Vec<String> = params
                    .iter()
                    .map(|p| match (p.ty, &*p.name) {
                        (0, "") => "...".to_string(),
                        (ty, name) => self.declare(ty, name, nesting + 1),
                    })
                    .collect();
                let params = if params.is_empty() {
                    "void".to_string()
                } else {
                    params.join(", ")
                };
                self.declare(*ret, &format!("{inner}({params})"), nesting + 1)
            }
            TypeKind::Func { ty, .. } => self.declare(*ty, self.name(id), nesting + 1),
            TypeKind::Var { ty, .. } => self.declare(*ty, self.name(id), nesting + 1),
            _ => spaced(self.name(id)),
        }
    }

    /// Adds a qualifier. It stands before a base type, but after the star of a pointer.
    fn qualified(&self, word: &str, to: u32, inner: &str, nesting: u32) -> String {
        match self.kind(self.skip_modifiers(to)) {
            TypeKind::Ptr(_) => {
                let space = if inner.is_empty() { "" } else { " " };
                self.declare(to, &format!("{word}{space}{inner}"), nesting + 1)
            }
            _ => format!("{word} {}", self.declare(to, inner, nesting + 1)),
        }
    }
}
