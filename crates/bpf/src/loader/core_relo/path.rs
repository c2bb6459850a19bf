// SPDX-License-Identifier: GPL-2.0-only
//! Access paths of CO-RE relocations. A path leads from a type through its members to a field,
//! either in the object's types or in the target's types.

use super::{Relocation, Unresolved, compat::fields_compatible};
use crate::btf::{Btf, Composite, TypeKind};

/// Maximum nesting of anonymous members.
const MAX_ANONYMOUS: u32 = 16;

/// One step of an access path, into a member or an element.
#[derive(Clone, Debug)]
struct Step {
    /// Type into which the step leads: the struct or union that has the member, or the type of an
    /// array's elements.
    ty: u32,
    /// Index of the member or element.
    index: u32,
    /// Whether the step leads to a named member. Otherwise it leads to an array element.
    member: bool,
}

/// An access path to a field.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Type in which the path starts.
    root: u32,
    steps: Vec<Step>,
    /// Offset of the field in bits from the start of the type `root`.
    bit_offset: u64,
    /// Type of the field at the end of the path.
    reached: u32,
}

/// Location of a field: the aligned bytes that a load reads, and the bits of the field in them.
pub(super) struct FieldLocation {
    /// Offset of the bytes to load.
    pub(super) offset: u64,
    /// Number of bytes to load.
    pub(super) size: u32,
    /// First bit of the field in these bytes.
    pub(super) first_bit: u32,
    /// Number of bits of the field.
    pub(super) bits: u32,
}

impl Path {
    /// Returns the path of a relocation in the object's types. The relocation describes it by
    /// indices. Anonymous members add no step to the path.
    pub(super) fn local(btf: &Btf, relocation: &Relocation) -> Result<Path, Unresolved> {
        let bad = || {
            Unresolved(format!(
                "bad CO-RE access {:?} of {}",
                relocation.access,
                btf.c_name(relocation.ty)
            ))
        };
        let (&first, rest) = relocation.access.split_first().ok_or_else(bad)?;
        let root = relocation.ty;
        let mut path = Path {
            root,
            steps: Vec::new(),
            bit_offset: 0,
            reached: root,
        };
        path.element(btf, root, first);
        for &index in rest {
            let container = btf.resolve(path.reached);
            match btf.kind(container) {
                TypeKind::Struct(c) | TypeKind::Union(c) => {
                    let member = c.members.get(index as usize).ok_or_else(bad)?;
                    path.bit_offset = path.bit_offset.wrapping_add(member.bit_offset.into());
                    path.reached = member.ty;
                    if !member.name.is_empty() {
                        path.steps.push(Step {
                            ty: container,
                            index,
                            member: true,
                        });
                    }
                }
                TypeKind::Array { ty, .. } => path.element(btf, *ty, index),
                _ => return Err(bad()),
            }
        }
        Ok(path)
    }

    fn element(&mut self, btf: &Btf, ty: u32, index: u32) {
        // In a damaged object, invalid sizes may make the sum wrap. This does no harm.
        let bytes = u64::from(index) * u64::from(btf.size_of(ty).unwrap_or(0));
        self.bit_offset = self.bit_offset.wrapping_add(bytes.wrapping_mul(8));
        self.steps.push(Step {
            ty,
            index,
            member: false,
        });
        self.reached = ty;
    }

    /// Returns the type of the field.
    pub(super) fn ty(&self) -> u32 {
        self.reached
    }

    /// Formats the path, for example "struct task_struct.scx.flags".
    pub(super) fn text(&self, btf: &Btf) -> String {
        let mut text = btf.c_name(self.root);
        for step in &self.steps[1..] {
            match member_name(btf, step) {
                Some(name) => text += &format!(".{name}"),
                None => text += &format!("[{}]", step.index),
            }
        }
        text
    }

    /// Finds the same field in the target's type `root`, by the names of the members. Returns
    /// `None` if this type has no such field, or if the field's type is not compatible.
    pub(super) fn find_in(&self, local: &Btf, target: &Btf, root: u32) -> Option<Path> {
        let mut path = Path {
            root,
            steps: Vec::new(),
            bit_offset: 0,
            reached: root,
        };
        for (nr, step) in self.steps.iter().enumerate() {
            let Some(name) = member_name(local, step) else {
                let element = match target.kind(target.resolve(path.reached)) {
                    _ if nr == 0 => root,
                    // A flexible array allows any index.
                    TypeKind::Array { ty, len, .. } if step.index < *len || *len == 0 => *ty,
                    _ => return None,
                };
                path.element(target, element, step.index);
                continue;
            };
            let container = target.resolve(path.reached);
            let (offset, owner, index) = find_member(target, container, name, 0)?;
            let member = &target.composite(owner)?.members[index];
            let here = local.composite(step.ty)?.members.get(step.index as usize)?;
            if !fields_compatible(local, here.ty, target, member.ty) {
                return None;
            }
            path.bit_offset = path.bit_offset.wrapping_add(offset);
            path.reached = member.ty;
            path.steps.push(Step {
                ty: owner,
                index: input::index(index),
                member: true,
            });
        }
        Some(path)
    }

    /// Returns which bytes must be loaded for this field. If a bitfield lies across two
    /// aligned units of its type's size, more bytes are loaded than the type has.
    pub(super) fn locate(&self, btf: &Btf) -> Result<FieldLocation, Unresolved> {
        let whole = btf.size_of(self.reached);
        let bitfield = self.steps.last().filter(|s| s.member).and_then(|step| {
            let member = btf.composite(step.ty)?.members.get(step.index as usize)?;
            (member.bit_size > 0).then_some(u32::from(member.bit_size))
        });
        let Some(bits) = bitfield else {
            let size = whole.unwrap_or(0);
            return Ok(FieldLocation {
                offset: self.bit_offset / 8,
                size,
                first_bit: 0,
                bits: size.saturating_mul(8).min(64),
            });
        };
        let mut size = whole.unwrap_or(1).clamp(1, 8).next_power_of_two();
        loop {
            let bytes = u64::from(size);
            let offset = self.bit_offset / 8 / bytes * bytes;
            // The result is below 64, because at most 8 bytes are loaded.
            let first_bit = u32::try_from(self.bit_offset - offset * 8).unwrap_or(u32::MAX);
            if first_bit.saturating_add(bits) <= size * 8 {
                return Ok(FieldLocation {
                    offset,
                    size,
                    first_bit,
                    bits,
                });
            }
            if size >= 8 {
                let name = self.text(btf);
                return Err(Unresolved(format!("{name}: the bitfield does not fit into 64 bits")));
            }
            size *= 2;
        }
    }
}

fn member_name<'a>(btf: &'a Btf, step: &Step) -> Option<&'a str> {
    let member = btf
        .composite(step.ty)
        .filter(|_| step.member)?
        .members
        .get(step.index as usize)?;
    Some(&member.name)
}

/// Finds a member by name, also inside anonymous members. Returns three values:
///
/// - the member's offset in bits from the start of `container`;
/// - the id of the struct or union that declares the member: `container` or an anonymous one in it;
/// - the member's index in that struct or union.
pub(crate) fn find_member(btf: &Btf, container: u32, name: &str, nesting: u32) -> Option<(u64, u32, usize)> {
    let composite: &Composite = btf.composite(container)?;
    if let Some(index) = composite.members.iter().position(|member| *member.name == *name) {
        return Some((
            u64::from(composite.members[index].bit_offset),
            btf.resolve(container),
            index,
        ));
    }
    if nesting == MAX_ANONYMOUS {
        return None;
    }
    composite
        .members
        .iter()
        .filter(|member| member.name.is_empty())
        .find_map(|member| {
            let (offset, owner, index) = find_member(btf, member.ty, name, nesting + 1)?;
            Some((offset + u64::from(member.bit_offset), owner, index))
        })
}
