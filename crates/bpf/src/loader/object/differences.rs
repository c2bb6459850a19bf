// SPDX-License-Identifier: GPL-2.0-only
//! Finds the parts of globals and of map values that differ from their initial contents, as paths
//! and numbers that a profile can contain.

use super::Object;
use super::value::Location;
use crate::btf::{Btf, INT_SIGNED, TypeKind};
use input::to_usize;

/// Maximum number of differences in one variable or value.
const MOST: usize = 1 << 20;

/// A part that differs: its path, such as `layers[0].kind` or `mask[0..8]`, and its new value. A
/// range stands for all its elements. Unsigned values above `i64::MAX` appear as negative numbers.
pub type Difference = (String, i64);

impl Object {
    /// Compares the globals of a section with new contents. Variables that user space cannot set
    /// and pointers are left out.
    pub fn differences(&self, section: &str, new: &[u8]) -> Vec<Difference> {
        let old = self.section(section).unwrap_or_default();
        let mut found = Vec::new();
        for variable in self.variables.iter().filter(|variable| variable.section == section) {
            let range = to_usize(variable.offset)..to_usize(variable.offset) + variable.size as usize;
            let Some(new) = new.get(range.clone()) else { continue };
            // The section stores no zeros at its end.
            let mut initial = vec![0; new.len()];
            let stored = old.get(range.start..range.end.min(old.len())).unwrap_or_default();
            initial[..stored.len()].copy_from_slice(stored);
            let parts = compare(&self.btf, Location::whole(&self.btf, variable.ty), &initial, new);
            found.extend(
                parts
                    .into_iter()
                    .map(|(path, value)| (format!("{}{path}", variable.name), value)),
            );
        }
        found
    }

    /// Compares a value of a map with zeros. Returns `None` if the object declares no type for the
    /// map's values. Paths are relative to the value, as in `.weight`.
    pub fn value_differences(&self, map: &str, value: &[u8]) -> Option<Vec<Difference>> {
        let def = self.maps().find(|def| def.name == map)?;
        let location = Location::whole(&self.btf, def.value_type?);
        let size = (location.size as usize).min(value.len());
        Some(compare(&self.btf, location, &vec![0; size], &value[..size]))
    }
}

/// Returns the differences between the old and the new bytes of a location.
fn compare(btf: &Btf, location: Location, old: &[u8], new: &[u8]) -> Vec<Difference> {
    let part = |bytes: &'_ [u8], at: u64, size: u32| -> Option<std::ops::Range<usize>> {
        let range = to_usize(at)..to_usize(at) + size as usize;
        (range.end <= bytes.len()).then_some(range)
    };
    if old == new {
        return Vec::new();
    }
    let mut found = Vec::new();
    let resolved = btf.resolve(location.ty);
    match btf.kind(resolved) {
        kind @ (TypeKind::Int { .. } | TypeKind::Enum { .. }) => {
            let signed = match kind {
                TypeKind::Int { encoding, .. } => encoding & INT_SIGNED != 0,
                TypeKind::Enum { signed, .. } => *signed,
                _ => false,
            };
            let number = |bytes: &[u8]| number(location, bytes, signed);
            if number(old) != number(new) {
                found.push((String::new(), number(new)));
            }
        }
        TypeKind::Array { ty, len, .. } => {
            let element = Location::whole(btf, *ty);
            // Equal neighbours become a range.
            let mut run: Option<(u32, u32, Vec<Difference>)> = None;
            for index in 0..*len {
                let at = u64::from(index) * u64::from(element.size);
                let Some(range) = part(new, at, element.size) else {
                    break;
                };
                let parts = compare(btf, element, &old[range.clone()], &new[range]);
                match &mut run {
                    Some((_, end, known)) if *known == parts && *end == index => *end += 1,
                    _ => {
                        push_run(&mut found, run.take());
                        run = (!parts.is_empty()).then_some((index, index + 1, parts));
                    }
                }
                if found.len() > MOST {
                    break;
                }
            }
            push_run(&mut found, run);
        }
        TypeKind::Struct(composite) | TypeKind::Union(composite) => {
            // All members of a union share their bytes, and the largest has most of them.
            let largest = composite.members.iter().enumerate();
            let largest = largest.max_by_key(|(index, member)| (btf.size_of(member.ty), std::cmp::Reverse(*index)));
            let is_union = matches!(btf.kind(resolved), TypeKind::Union(_));
            for (index, member) in composite.members.iter().enumerate() {
                if is_union && largest.is_some_and(|(at, _)| at != index) {
                    continue;
                }
                let size = btf.size_of(member.ty).unwrap_or(0);
                let (at, bits) = match member.bit_size {
                    0 => (u64::from(member.bit_offset / 8), None),
                    bits => (
                        u64::from(member.bit_offset / 8),
                        Some((member.bit_offset % 8, u32::from(bits))),
                    ),
                };
                let size = bits.map_or(size, |(first, bits)| (first + bits).div_ceil(8));
                let inner = Location {
                    ty: member.ty,
                    offset: 0,
                    size,
                    bits,
                };
                let Some(range) = part(new, at, size) else { continue };
                let parts = compare(btf, inner, &old[range.clone()], &new[range]);
                let name = match member.name.is_empty() {
                    true => String::new(),
                    false => format!(".{}", member.name),
                };
                found.extend(parts.into_iter().map(|(path, value)| (format!("{name}{path}"), value)));
            }
        }
        _ => {}
    }
    found
}

fn push_run(found: &mut Vec<Difference>, run: Option<(u32, u32, Vec<Difference>)>) {
    let Some((start, end, parts)) = run else { return };
    let index = match end - start {
        1 => format!("[{start}]"),
        _ => format!("[{start}..{end}]"),
    };
    found.extend(parts.into_iter().map(|(path, value)| (format!("{index}{path}"), value)));
}

/// Returns the value of an integer, which has up to 64 bits.
fn number(location: Location, bytes: &[u8], signed: bool) -> i64 {
    let word = bytes
        .iter()
        .take(8)
        .rev()
        .fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let (first, bits) = location.bits.unwrap_or((0, 8 * location.size.min(8)));
    let bits = bits.clamp(1, 64);
    let word = word >> first << (64 - bits);
    match signed {
        true => word.cast_signed() >> (64 - bits),
        false => (word >> (64 - bits)).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::{Composite, Member, Type};

    fn add(btf: &mut Btf, kind: TypeKind) -> u32 {
        btf.push(Type { name: "".into(), kind })
    }

    fn int(btf: &mut Btf, size: u32, encoding: u8) -> u32 {
        let kind = TypeKind::Int {
            size,
            encoding,
            offset: 0,
            bits: u8::try_from(8 * size).expect("at most 8 bytes"),
        };
        add(btf, kind)
    }

    fn member(name: &str, ty: u32, bit_offset: u32, bit_size: u8) -> Member {
        Member {
            name: name.into(),
            ty,
            bit_offset,
            bit_size,
        }
    }

    /// Returns the differences of `new` from zeros.
    fn differences(btf: &Btf, ty: u32, new: &[u8]) -> Vec<(String, i64)> {
        compare(btf, Location::whole(btf, ty), &vec![0; new.len()], new)
    }

    fn parts(parts: &[(&str, i64)]) -> Vec<(String, i64)> {
        parts.iter().map(|&(path, value)| (path.to_owned(), value)).collect()
    }

    #[test]
    fn equal_neighbours_become_a_range() {
        let mut btf = Btf::default();
        add(&mut btf, TypeKind::Void);
        let byte = int(&mut btf, 1, 0);
        let array = add(
            &mut btf,
            TypeKind::Array {
                ty: byte,
                index: byte,
                len: 6,
            },
        );
        let expect = parts(&[("[0]", 1), ("[2..4]", 255), ("[5]", 1)]);
        assert_eq!(differences(&btf, array, &[1, 0, 255, 255, 0, 1]), expect);
        assert_eq!(differences(&btf, array, &[0; 6]), []);
    }

    #[test]
    fn members_keep_their_signs_and_bits() {
        let mut btf = Btf::default();
        add(&mut btf, TypeKind::Void);
        let (signed, unsigned) = (int(&mut btf, 4, INT_SIGNED), int(&mut btf, 8, 0));
        let inner = add(
            &mut btf,
            TypeKind::Union(Composite {
                size: 8,
                members: vec![member("half", signed, 0, 0), member("whole", unsigned, 0, 0)],
            }),
        );
        let outer = add(
            &mut btf,
            TypeKind::Struct(Composite {
                size: 16,
                members: vec![
                    member("a", signed, 0, 0),
                    member("low", signed, 32, 3),
                    member("high", signed, 35, 5),
                    member("", inner, 64, 0),
                ],
            }),
        );
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(-7i32).to_le_bytes());
        // The bits of `high` are 00010, those of `low` 111.
        bytes[4] = 0b0001_0111;
        bytes[8..].fill(0xff);
        let expect = parts(&[(".a", -7), (".low", -1), (".high", 2), (".whole", -1)]);
        assert_eq!(differences(&btf, outer, &bytes), expect);
    }
}
