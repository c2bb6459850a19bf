// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether a type of the object is compatible with a type of the target kernel.

use crate::btf::{Btf, INT_SIGNED, Member, TypeKind, essential_name};

/// Maximum depth of a comparison.
const MAX_DEPTH: u32 = 32;

/// Returns whether an access to a field with the object's type can be changed into an access to a
/// field with the target's type. Two structs are always compatible here, because the accesses to
/// their members have relocations of their own.
pub(super) fn fields_compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    let (mut a, mut b) = (local.resolve(local_id), target.resolve(target_id));
    loop {
        return match (local.kind(a), target.kind(b)) {
            (TypeKind::Struct(_) | TypeKind::Union(_), TypeKind::Struct(_) | TypeKind::Union(_)) => true,
            (TypeKind::Ptr(_), TypeKind::Ptr(_)) | (TypeKind::Float(_), TypeKind::Float(_)) => true,
            (TypeKind::Fwd { .. }, TypeKind::Fwd { .. }) | (TypeKind::Enum { .. }, TypeKind::Enum { .. }) => {
                let (a, b) = (essential_name(local.name(a)), essential_name(target.name(b)));
                a.is_empty() || b.is_empty() || a == b
            }
            (TypeKind::Int { offset: 0, .. }, TypeKind::Int { offset: 0, .. }) => true,
            (TypeKind::Array { ty: x, .. }, TypeKind::Array { ty: y, .. }) => {
                (a, b) = (local.resolve(*x), target.resolve(*y));
                continue;
            }
            _ => false,
        };
    }
}

/// Returns whether an argument of a function may have one of the two types in the caller's
/// declaration and the other type in the function's definition. Structs behind pointers are compatible even
/// if their names differ.
pub fn types_compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    compatible(local, local_id, target, target_id, 0)
}

fn compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32, depth: u32) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let next = |a, b| compatible(local, a, target, b, depth + 1);
    match (local.kind(local.resolve(local_id)), target.kind(target.resolve(target_id))) {
        (TypeKind::Void, TypeKind::Void)
        | (TypeKind::Struct(_), TypeKind::Struct(_))
        | (TypeKind::Union(_), TypeKind::Union(_))
        | (TypeKind::Enum { .. }, TypeKind::Enum { .. })
        | (TypeKind::Fwd { .. }, TypeKind::Fwd { .. })
        // One side may have only a forward declaration of the struct or union.
        | (TypeKind::Fwd { union: false }, TypeKind::Struct(_))
        | (TypeKind::Struct(_), TypeKind::Fwd { union: false })
        | (TypeKind::Fwd { union: true }, TypeKind::Union(_))
        | (TypeKind::Union(_), TypeKind::Fwd { union: true })
        | (TypeKind::Int { offset: 0, .. }, TypeKind::Int { offset: 0, .. }) => true,
        (TypeKind::Ptr(a), TypeKind::Ptr(b)) => next(*a, *b),
        (TypeKind::Array { ty: a, .. }, TypeKind::Array { ty: b, .. }) => next(*a, *b),
        (TypeKind::FuncProto { ret: a, params: x }, TypeKind::FuncProto { ret: b, params: y }) => {
            x.len() == y.len() && x.iter().zip(y).all(|(a, b)| next(a.ty, b.ty)) && next(*a, *b)
        }
        _ => false,
    }
}

/// Returns whether the target's type has all members of the object's type, and the members have the
/// same types.
pub fn types_match(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    let mut matcher = Matcher {
        local,
        target,
        steps: 1 << 16,
    };
    matcher.matches(local_id, target_id, false, 0)
}

struct Matcher<'a> {
    local: &'a Btf,
    target: &'a Btf,
    /// Number of comparisons left. Without a limit, nested structs could require an exponential
    /// number of comparisons.
    steps: u32,
}

impl Matcher<'_> {
    fn matches(&mut self, local_id: u32, target_id: u32, behind_pointer: bool, depth: u32) -> bool {
        if depth > MAX_DEPTH || self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        let (local, target) = (self.local, self.target);
        let (a, b) = (local.resolve(local_id), target.resolve(target_id));
        if essential_name(local.name(a)) != essential_name(target.name(b))
            && !matches!(local.kind(a), TypeKind::Int { .. })
        {
            return false;
        }
        match (local.kind(a), target.kind(b)) {
            (TypeKind::Void, TypeKind::Void) => true,
            (TypeKind::Fwd { union: a }, TypeKind::Fwd { union: b }) => a == b,
            (TypeKind::Fwd { union: false }, TypeKind::Struct(_))
            | (TypeKind::Struct(_), TypeKind::Fwd { union: false }) => behind_pointer,
            (TypeKind::Fwd { union: true }, TypeKind::Union(_))
            | (TypeKind::Union(_), TypeKind::Fwd { union: true }) => behind_pointer,
            (TypeKind::Enum { values: x, .. }, TypeKind::Enum { values: y, .. }) => x
                .iter()
                .all(|(name, _)| y.iter().any(|(other, _)| essential_name(name) == essential_name(other))),
            (TypeKind::Struct(x), TypeKind::Struct(y)) | (TypeKind::Union(x), TypeKind::Union(y)) => {
                behind_pointer || self.members(&x.members, &y.members, depth)
            }
            (
                TypeKind::Int {
                    size: s,
                    encoding: e,
                    offset: 0,
                    ..
                },
                TypeKind::Int {
                    size: t,
                    encoding: f,
                    offset: 0,
                    ..
                },
            ) => s == t && (e & INT_SIGNED) == (f & INT_SIGNED),
            (TypeKind::Ptr(x), TypeKind::Ptr(y)) => self.matches(*x, *y, true, depth + 1),
            (TypeKind::Array { ty: x, len: m, .. }, TypeKind::Array { ty: y, len: n, .. }) => {
                m == n && self.matches(*x, *y, behind_pointer, depth + 1)
            }
            (TypeKind::FuncProto { ret: r, params: x }, TypeKind::FuncProto { ret: s, params: y }) => {
                x.len() == y.len()
                    && x.iter().zip(y).all(|(a, b)| self.matches(a.ty, b.ty, false, depth + 1))
                    && self.matches(*r, *s, false, depth + 1)
            }
            _ => false,
        }
    }

    fn members(&mut self, local: &[Member], target: &[Member], depth: u32) -> bool {
        local.iter().all(|a| {
            let mut same_name = target.iter().filter(|b| b.name == a.name);
            same_name.any(|b| self.matches(a.ty, b.ty, false, depth + 1))
        })
    }
}
