// SPDX-License-Identifier: GPL-2.0-only
//! Finds the numbers in the memory of a policy that user space can read: integers in global
//! variables and in the values of array maps, also as elements of arrays and members of structs.
//!
//! Numbers that differ only in an index are one [`Number`] with several elements, for example the
//! counters of all CPUs. The indexes of a per-CPU array map are an exception: such an index usually
//! stands for what is counted, so each index is a number of its own whose elements are the CPUs.

use super::{Map, kind};
use crate::btf::{Btf, INT_BOOL, INT_SIGNED, TypeKind};
use crate::fault::Fault;
use crate::link::Image;
use crate::memory::Region;

/// Maximum number of elements of a number. Larger arrays are tables rather than counters.
const MAX_ELEMENTS: u64 = 8192;
/// Maximum number of numbers of a policy.
const MAX_NUMBERS: usize = 1024;
/// Maximum number of indexes of a per-CPU array that are numbers of their own.
const MAX_INDEXES: u32 = 64;
/// Maximum depth of structs inside each other. BTF types can refer to themselves only through
/// pointers, which are not followed, but an object may be hostile.
const MAX_DEPTH: u32 = 8;
/// Maximum number of types and members that are examined.
const MAX_VISITS: u32 = 100_000;

/// A number in the memory of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Path as in C, for example `nr_stolen`, `queue[].len` or `stats[2]`.
    pub name: String,
    addr: u64,
    /// For each index that the path leaves open: the number of elements, and the distance between
    /// them in bytes.
    dimensions: Vec<(u32, u64)>,
    /// Size of an element in bytes, at most 8.
    size: u64,
    signed: bool,
}

impl Number {
    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        product(&self.dimensions)
    }

    /// Returns the name of the element at an address, for example `queue[3].len`, or `stats[0]@1`
    /// for CPU 1's copy. Returns `None` if no element is there.
    pub fn name_at(&self, addr: u64) -> Option<String> {
        let mut left = addr.checked_sub(self.addr)?;
        let mut indexes = Vec::new();
        for &(len, stride) in &self.dimensions {
            let index = left.checked_div(stride).filter(|&index| index < u64::from(len))?;
            left -= index * stride;
            indexes.push(index);
        }
        let mut parts = self.name.split("[]");
        // A number of a per-CPU map has one dimension more than its name has brackets.
        let cpu = (indexes.len() > parts.clone().count() - 1).then(|| format!("@{}", indexes.remove(0)));
        let mut name = parts.next().unwrap_or_default().to_owned();
        for (index, part) in indexes.iter().zip(parts) {
            name += &format!("[{index}]{part}");
        }
        (left < self.size).then(|| name + &cpu.unwrap_or_default())
    }

    /// Reads all elements.
    ///
    /// # Errors
    /// The memory was released, because the policy has ended.
    pub fn read(&self, region: &Region) -> Result<Vec<i128>, Fault> {
        let mut values = Vec::new();
        self.read_from(region, self.addr, &self.dimensions, &mut values)?;
        Ok(values)
    }

    fn read_from(&self, region: &Region, addr: u64, open: &[(u32, u64)], to: &mut Vec<i128>) -> Result<(), Fault> {
        let Some((&(len, stride), inner)) = open.split_first() else {
            let bytes = region.bytes(addr, self.size)?;
            let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
            let unused = 64 - 8 * self.size;
            to.push(match self.signed {
                true => i128::from((value << unused).cast_signed() >> unused),
                false => i128::from(value),
            });
            return Ok(());
        };
        for index in 0..u64::from(len) {
            self.read_from(region, addr.wrapping_add(index * stride), inner, to)?;
        }
        Ok(())
    }
}

/// Returns the numbers of a loaded policy. `maps` are its maps.
pub fn numbers(image: &Image, maps: &[Map]) -> Vec<Number> {
    let mut found = Found {
        btf: &image.btf,
        numbers: Vec::new(),
        visits: 0,
    };
    // The loader and macros use names that begin with two underscores.
    let own = image
        .live_variables()
        .filter(|(variable, _)| !variable.name.starts_with("__"));
    for (variable, addr) in own {
        found.add(&variable.name, addr, &[], variable.ty, 0);
    }
    for map in maps {
        let (Some((base, stride, len, per_cpu)), Some(ty)) = (map.blocks(), map.def().value_type) else {
            continue;
        };
        let block = stride * u64::from(len);
        let name = map.name();
        match map.array_layout() {
            Some((_, _, _, elements)) if per_cpu && len <= MAX_INDEXES => {
                let cpus = u32::try_from(elements / u64::from(len)).unwrap_or(u32::MAX);
                for index in 0..len {
                    let addr = base + u64::from(index) * stride;
                    found.add(&format!("{name}[{index}]"), addr, &[(cpus, block)], ty, 0);
                }
            }
            _ if map.def().kind == kind::ARRAY => found.add(&format!("{name}[]"), base, &[(len, stride)], ty, 0),
            _ => {}
        }
    }
    found.numbers
}

struct Found<'a> {
    btf: &'a Btf,
    numbers: Vec<Number>,
    visits: u32,
}

/// Returns the product of the lengths of all dimensions.
fn product(dimensions: &[(u32, u64)]) -> u64 {
    let lengths = dimensions.iter().map(|&(len, _)| u64::from(len));
    lengths.fold(1, u64::saturating_mul)
}

impl Found<'_> {
    /// Adds the numbers of a value of type `ty` at an address.
    fn add(&mut self, name: &str, addr: u64, dimensions: &[(u32, u64)], ty: u32, depth: u32) {
        self.visits += 1;
        let is_full = self.numbers.len() == MAX_NUMBERS || self.visits > MAX_VISITS;
        if is_full || product(dimensions) > MAX_ELEMENTS || depth > MAX_DEPTH {
            return;
        }
        let btf = self.btf;
        let resolved = btf.resolve(ty);
        let mut number = |size: u32, signed| {
            if (1..=8).contains(&size) {
                self.numbers.push(Number {
                    name: name.to_owned(),
                    addr,
                    dimensions: dimensions.to_vec(),
                    size: size.into(),
                    signed,
                });
            }
        };
        match btf.kind(resolved) {
            TypeKind::Int { size, encoding, .. } if encoding & INT_BOOL == 0 => {
                number(*size, encoding & INT_SIGNED != 0)
            }
            TypeKind::Int { size, .. } => number(*size, false),
            TypeKind::Enum { size, signed, .. } => number(*size, *signed),
            // An array of characters is a text.
            TypeKind::Array { ty, len, .. } if !btf.is_text(*ty) => {
                let stride = u64::from(btf.size_of(*ty).unwrap_or(0));
                let dimensions = [dimensions, &[(*len, stride)]].concat();
                self.add(&format!("{name}[]"), addr, &dimensions, *ty, depth + 1);
            }
            // Structs of the kernel's API, for example bpf_timer and bpf_spin_lock, contain no
            // numbers of the policy.
            TypeKind::Struct(composite) if !btf.name(resolved).starts_with("bpf_") => {
                for member in &composite.members {
                    if member.bit_size == 0 {
                        let path = match member.name.is_empty() {
                            true => name.to_owned(),
                            false => format!("{name}.{}", member.name),
                        };
                        let offset = u64::from(member.bit_offset / 8);
                        self.add(&path, addr.wrapping_add(offset), dimensions, member.ty, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, dimensions: &[(u32, u64)]) -> Number {
        Number {
            name: name.to_owned(),
            addr: 0x1000,
            dimensions: dimensions.to_vec(),
            size: 4,
            signed: false,
        }
    }

    #[test]
    fn an_address_has_the_path_of_its_element() {
        let table = number("table[][].len", &[(2, 24), (3, 8)]);
        assert_eq!(table.name_at(0x1000).as_deref(), Some("table[0][0].len"));
        assert_eq!(table.name_at(0x1000 + 24 + 16 + 3).as_deref(), Some("table[1][2].len"));
        assert_eq!(table.name_at(0x1000 + 4), None, "a gap between two elements");
        assert_eq!((table.name_at(0xfff), table.name_at(0x1000 + 48)), (None, None));
        assert_eq!(number("total", &[]).name_at(0x1003).as_deref(), Some("total"));
        let per_cpu = number("stats[0].ns[]", &[(4, 256), (2, 8)]);
        assert_eq!(
            per_cpu.name_at(0x1000 + 3 * 256 + 8).as_deref(),
            Some("stats[0].ns[1]@3")
        );
    }
}
