// SPDX-License-Identifier: GPL-2.0-only
//! Finds the fields of a type that the kernel treats specially, such as locks, timers and kptrs.

use crate::btf::{Btf, TypeKind};
use crate::core_relo::find_member;
use crate::error::Error;
use crate::image::{Contains, Field, FieldKind};

/// Maximum number of special fields in one type. The time for the initialisation of a value grows
/// with this number.
const MAX_FIELDS: usize = 4096;

/// Returns the special fields of a type by ascending offset, including those inside nested structs
/// and arrays.
pub(crate) fn special_fields(btf: &Btf, id: u32) -> Result<Vec<Field>, Error> {
    let mut search = Search {
        btf,
        fields: Vec::new(),
        steps: 1 << 18,
    };
    search.visit(id, 0)?;
    search.fields.sort_by_key(|field| field.offset);
    Ok(search.fields)
}

struct Search<'a> {
    btf: &'a Btf,
    fields: Vec<Field>,
    /// Number of types that may still be visited. Without a limit, nested types could require an
    /// exponential number of visits.
    steps: u32,
}

impl Search<'_> {
    /// Visits a value of type `id` at `offset` and adds the special fields in it. Returns whether
    /// there are any.
    fn visit(&mut self, id: u32, offset: u64) -> Result<bool, Error> {
        self.steps = self.steps.checked_sub(1).ok_or("the type is nested too deeply")?;
        let btf = self.btf;
        let before = self.fields.len();
        let resolved = btf.resolve(id);
        match btf.kind(resolved) {
            TypeKind::Struct(c) => {
                let kind = match btf.name(resolved) {
                    "bpf_spin_lock" => Some(FieldKind::SpinLock),
                    "bpf_res_spin_lock" => Some(FieldKind::ResSpinLock),
                    "bpf_timer" => Some(FieldKind::Timer),
                    "bpf_wq" => Some(FieldKind::Workqueue),
                    "bpf_task_work" => Some(FieldKind::TaskWork),
                    "bpf_refcount" => Some(FieldKind::Refcount),
                    "bpf_list_node" => Some(FieldKind::ListNode),
                    "bpf_rb_node" => Some(FieldKind::RbNode),
                    _ => None,
                };
                if let Some(kind) = kind {
                    self.add(offset, c.size, kind)?;
                    return Ok(true);
                }
                for (index, member) in c.members.iter().enumerate().filter(|(_, member)| member.bit_size == 0) {
                    let member_offset = offset + u64::from(member.bit_offset / 8);
                    let tag = || btf.member_tag(resolved, index, "contains:");
                    if !self.root(member.ty, member_offset, tag)? {
                        self.visit(member.ty, member_offset)?;
                    }
                }
            }
            TypeKind::Union(c) => {
                for member in &c.members {
                    self.visit(member.ty, offset)?;
                }
            }
            TypeKind::Array { ty, len, .. } => {
                let size = u64::from(btf.size_of(*ty).unwrap_or(0));
                // If the first element has no special fields, the others have none either.
                let special = *len > 0 && self.visit(*ty, offset)?;
                for index in 1..u64::from(if special { *len } else { 0 }) {
                    self.visit(*ty, offset + index * size)?;
                }
            }
            TypeKind::Ptr(to) => {
                let (mut to, mut kind) = (*to, None);
                while let TypeKind::TypeTag(next)
                | TypeKind::Const(next)
                | TypeKind::Volatile(next)
                | TypeKind::Restrict(next) = *btf.kind(to)
                {
                    if let TypeKind::TypeTag(_) = btf.kind(to) {
                        kind = kind.or(match btf.name(to) {
                            "kptr" => Some((true, false)),
                            "percpu_kptr" => Some((true, true)),
                            "kptr_untrusted" => Some((false, false)),
                            _ => None,
                        });
                        if btf.name(to) == "uptr" {
                            self.add(offset, 8, FieldKind::Uptr)?;
                            return Ok(true);
                        }
                    }
                    to = next;
                }
                if let Some((owned, percpu)) = kind {
                    let id = btf.resolve(to);
                    self.add(
                        offset,
                        8,
                        FieldKind::Kptr {
                            to: btf.name(id).to_string(),
                            id,
                            owned,
                            percpu,
                        },
                    )?;
                }
            }
            _ => (),
        }
        Ok(self.fields.len() > before)
    }

    /// If the type `id` is a list head or tree root, adds the field and returns true. `tag` returns
    /// the text of the declaration tag that names the type of the elements. This tag is attached to
    /// the member or variable that has the type `id`, not to the type.
    fn root<'t>(&mut self, id: u32, offset: u64, tag: impl Fn() -> Option<&'t str>) -> Result<bool, Error> {
        let resolved = self.btf.resolve(id);
        let list = match self.btf.name(resolved) {
            "bpf_list_head" => true,
            "bpf_rb_root" => false,
            _ => return Ok(false),
        };
        let Some((name, node)) = tag().and_then(|tag| tag.split_once(':')) else {
            return Ok(true);
        };
        let id = self
            .btf
            .find_struct(name)
            .ok_or_else(|| format!("its elements have type struct {name}, which is not in BTF"))?;
        let found = find_member(self.btf, id, node, 0);
        let (bits, ..) = found.ok_or_else(|| format!("struct {name} has no member {node}"))?;
        let contains = Contains {
            id,
            node: u32::try_from(bits / 8).map_err(|_| format!("member {node} of struct {name} lies beyond 4 GiB"))?,
        };
        let kind = if list {
            FieldKind::ListHead(contains)
        } else {
            FieldKind::RbRoot(contains)
        };
        self.add(offset, self.btf.size_of(resolved).unwrap_or(16), kind)?;
        Ok(true)
    }

    fn add(&mut self, offset: u64, size: u32, kind: FieldKind) -> Result<(), Error> {
        if self.fields.len() == MAX_FIELDS {
            return Err(Error::new(format!(
                "the type has more than {MAX_FIELDS} special fields"
            )));
        }
        let offset = u32::try_from(offset).map_err(|_| "a special field lies beyond 4 GiB")?;
        self.fields.push(Field { offset, size, kind });
        Ok(())
    }
}

/// Returns the special fields of a global variable. If the variable is a list head or tree root,
/// the declaration tag that names the type of the elements is attached to the variable.
pub(crate) fn variable_fields(btf: &Btf, var: u32, ty: u32, offset: u64) -> Result<Vec<Field>, Error> {
    let mut search = Search {
        btf,
        fields: Vec::new(),
        steps: 1 << 18,
    };
    let tag = || btf.decl_tags(var).find_map(|tag| tag.strip_prefix("contains:"));
    if !search.root(ty, offset, tag)? {
        search.visit(ty, offset)?;
    }
    search.fields.sort_by_key(|field| field.offset);
    Ok(search.fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::{Composite, Member, Type};

    fn composite(name: &str, member: &str, ty: u32, bit_offset: u32) -> Type {
        let member = Member {
            name: member.into(),
            ty,
            bit_offset,
            bit_size: 0,
        };
        Type {
            name: name.into(),
            kind: TypeKind::Struct(Composite {
                size: 16,
                members: vec![member],
            }),
        }
    }

    #[test]
    fn a_node_whose_offset_exceeds_32_bits_is_refused() {
        let mut btf = Btf::default();
        btf.push(Type {
            name: "".into(),
            kind: TypeKind::Void,
        });
        // The anonymous structs are nested. Each begins almost 512 MiB after the start of the
        // struct around it.
        let mut inner = btf.push(composite("", "rb", 0, u32::MAX - 7));
        for _ in 0..8 {
            inner = btf.push(composite("", "", inner, u32::MAX - 7));
        }
        btf.push(composite("node", "", inner, 0));
        let root = btf.push(composite("bpf_rb_root", "opaque", 0, 0));
        let holder = btf.push(composite("holder", "tree", root, 0));
        btf.push(Type {
            name: "contains:node:rb".into(),
            kind: TypeKind::DeclTag {
                ty: holder,
                component: 0,
            },
        });
        let error = special_fields(&btf, holder).expect_err("the node lies beyond 4 GiB");
        assert_eq!(error, "member rb of struct node lies beyond 4 GiB".into());
    }
}
