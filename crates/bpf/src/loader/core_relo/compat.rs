// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether a type of the object is compatible with a type of the target kernel.

use crate::btf::{Btf, INT_SIGNED, Kind, Member, essential_name};

/// Maximum depth of a comparison.
const MAX_DEPTH: u32 = 32;

/// Returns whether an access to a field with the object's type can be changed into an access to a
/// field with the target's type. Two structs are always compatible here, because the accesses to
/// their members have relocations of their own.
pub(super) fn fields_compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    let (mut a, mut b) = (local.resolve(local_id), target.resolve(target_id));
    loop {
        return match (local.kind(a), target.kind(b)) {
            (Kind::Struct(_) | Kind::Union(_), Kind::Struct(_) | Kind::Union(_)) => true,
            (Kind::Ptr(_), Kind::Ptr(_)) | (Kind::Float(_), Kind::Float(_)) => true,
            (Kind::Fwd { .. }, Kind::Fwd { .. }) | (Kind::Enum { .. }, Kind::Enum { .. }) => {
                let (a, b) = (essential_name(local.name(a)), essential_name(target.name(b)));
                a.is_empty() || b.is_empty() || a == b
            }
            (Kind::Int { offset: 0, .. }, Kind::Int { offset: 0, .. }) => true,
            (Kind::Array { ty: x, .. }, Kind::Array { ty: y, .. }) => {
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
        (Kind::Void, Kind::Void)
        | (Kind::Struct(_), Kind::Struct(_))
        | (Kind::Union(_), Kind::Union(_))
        | (Kind::Enum { .. }, Kind::Enum { .. })
        | (Kind::Fwd { .. }, Kind::Fwd { .. })
        // One side may have only a forward declaration of the struct or union.
        | (Kind::Fwd { union: false }, Kind::Struct(_))
        | (Kind::Struct(_), Kind::Fwd { union: false })
        | (Kind::Fwd { union: true }, Kind::Union(_))
        | (Kind::Union(_), Kind::Fwd { union: true })
        | (Kind::Int { offset: 0, .. }, Kind::Int { offset: 0, .. }) => true,
        (Kind::Ptr(a), Kind::Ptr(b)) => next(*a, *b),
        (Kind::Array { ty: a, .. }, Kind::Array { ty: b, .. }) => next(*a, *b),
        (Kind::FuncProto { ret: a, params: x }, Kind::FuncProto { ret: b, params: y }) => {
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
        if essential_name(local.name(a)) != essential_name(target.name(b)) && !matches!(local.kind(a), Kind::Int { .. })
        {
            return false;
        }
        match (local.kind(a), target.kind(b)) {
            (Kind::Void, Kind::Void) => true,
            (Kind::Fwd { union: a }, Kind::Fwd { union: b }) => a == b,
            (Kind::Fwd { union: false }, Kind::Struct(_)) | (Kind::Struct(_), Kind::Fwd { union: false }) => {
                behind_pointer
            }
            (Kind::Fwd { union: true }, Kind::Union(_)) | (Kind::Union(_), Kind::Fwd { union: true }) => behind_pointer,
            (Kind::Enum { values: x, .. }, Kind::Enum { values: y, .. }) => x
                .iter()
                .all(|(name, _)| y.iter().any(|(other, _)| essential_name(name) == essential_name(other))),
            (Kind::Struct(x), Kind::Struct(y)) | (Kind::Union(x), Kind::Union(y)) => {
                behind_pointer || self.members(&x.members, &y.members, depth)
            }
            (
                Kind::Int {
                    size: s,
                    encoding: e,
                    offset: 0,
                    ..
                },
                Kind::Int {
                    size: t,
                    encoding: f,
                    offset: 0,
                    ..
                },
            ) => s == t && (e & INT_SIGNED) == (f & INT_SIGNED),
            (Kind::Ptr(x), Kind::Ptr(y)) => self.matches(*x, *y, true, depth + 1),
            (Kind::Array { ty: x, len: m, .. }, Kind::Array { ty: y, len: n, .. }) => {
                m == n && self.matches(*x, *y, behind_pointer, depth + 1)
            }
            (Kind::FuncProto { ret: r, params: x }, Kind::FuncProto { ret: s, params: y }) => {
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
