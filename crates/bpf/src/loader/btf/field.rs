// SPDX-License-Identifier: GPL-2.0-only
//! Names of the fields at an offset.

use super::{Btf, TypeKind};

/// Maximum nesting of structs and arrays. A hostile object can nest a type in itself.
const MAX_NESTING: u32 = 16;

impl Btf {
    /// Returns the path from a value of type `ty` to its part at `offset`, as in C: `.queue[].len`.
    /// The indexes of arrays are left out, so that the elements of an array have one name. The path
    /// ends where the type has no smaller part, or at a union, whose parts share the offset. It is
    /// empty for a value without parts.
    pub fn field_at(&self, ty: u32, offset: u64) -> String {
        let mut path = String::new();
        self.extend_path(&mut path, ty, offset, 0);
        path
    }

    fn extend_path(&self, path: &mut String, ty: u32, offset: u64, nesting: u32) {
        if nesting > MAX_NESTING {
            return;
        }
        let size = |ty| u64::from(self.size_of(ty).unwrap_or(0));
        match self.kind(self.resolve(ty)) {
            TypeKind::Struct(composite) => {
                let start = |bits: u32| u64::from(bits / 8);
                // The last member that begins at or before the offset. Bitfields share a start.
                let before = composite
                    .members
                    .iter()
                    .filter(|member| start(member.bit_offset) <= offset && size(member.ty) > 0);
                let found = before.max_by_key(|member| member.bit_offset);
                let Some(member) = found.filter(|member| offset - start(member.bit_offset) < size(member.ty)) else {
                    return;
                };
                if !member.name.is_empty() {
                    *path += &format!(".{}", member.name);
                }
                self.extend_path(path, member.ty, offset - start(member.bit_offset), nesting + 1);
            }
            TypeKind::Union(composite) => {
                // Only an anonymous union with one named part has a name of its own.
                if let [member] = composite.members.as_slice() {
                    if !member.name.is_empty() {
                        *path += &format!(".{}", member.name);
                    }
                    self.extend_path(path, member.ty, offset, nesting + 1);
                }
            }
            TypeKind::Array { ty, .. } if size(*ty) > 0 => {
                *path += "[]";
                self.extend_path(path, *ty, offset % size(*ty), nesting + 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::Builder;
    use super::super::{Composite, Member};

    #[test]
    fn an_offset_has_the_path_of_its_field() {
        let mut types = Builder::new();
        let int = types
            .by_name("u64")
            .unwrap_or_else(|| types.declare_type("unsigned long long").unwrap());
        let member = |name: &str, ty, byte: u32| Member {
            name: name.into(),
            ty,
            bit_offset: 8 * byte,
            bit_size: 0,
        };
        let inner = types.forward("inner", false);
        types.define(
            inner,
            Composite {
                size: 16,
                members: vec![member("a", int, 0), member("b", int, 8)],
            },
        );
        let array = types.array(inner, 4);
        let outer = types.forward("outer", false);
        types.define(
            outer,
            Composite {
                size: 96,
                members: vec![
                    member("first", int, 0),
                    member("table", array, 8),
                    member("last", int, 80),
                ],
            },
        );
        let btf = types.finish();
        let name = |offset| btf.field_at(outer, offset);
        assert_eq!(name(4), ".first");
        assert_eq!(name(8 + 16 + 8), ".table[].b");
        assert_eq!(
            (name(72), name(80)),
            (String::new(), ".last".into()),
            "72 to 80 is a gap"
        );
        assert_eq!(btf.field_at(int, 0), "");
        assert_eq!(btf.field_at(array, 24), "[].b");
    }
}
