// SPDX-License-Identifier: GPL-2.0-only
//! Converts between text and the bytes of a value whose BTF type is known. Used to read and set a
//! policy's global variables.

use crate::btf::{Btf, INT_BOOL, INT_CHAR, INT_SIGNED, TypeKind};
use crate::core_relo::find_member;
use crate::error::Error;
use input::to_usize;

/// Number of elements or members that are printed. The others are replaced by "...".
const MAX_PRINTED: usize = 16;

/// A location in a variable: a member, an element, or the whole variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) ty: u32,
    /// Offset from the start of the variable in bytes.
    pub(crate) offset: u64,
    /// Size in bytes.
    pub(crate) size: u32,
    /// For a bitfield, the index of its first bit in the `size` bytes, and its number of bits.
    pub(crate) bits: Option<(u32, u32)>,
}

impl Location {
    /// Returns the location of a whole variable of this type.
    pub(crate) fn whole(btf: &Btf, ty: u32) -> Location {
        Location {
            ty,
            offset: 0,
            size: btf.size_of(ty).unwrap_or(0),
            bits: None,
        }
    }

    /// Follows a further part of a path, such as `[3].weight` or `.a.b`, from this location.
    pub(crate) fn follow(mut self, btf: &Btf, path: &str) -> Result<Location, Error> {
        let mut rest = path;
        while !rest.is_empty() {
            let parsed = &path[..path.len() - rest.len()];
            if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']').ok_or_else(|| format!("{path}: ']' is missing"))?;
                let index: u32 = index
                    .trim()
                    .parse()
                    .map_err(|_| format!("{path}: \"{index}\" is not an index"))?;
                let TypeKind::Array { ty, len, .. } = *btf.kind(btf.resolve(self.ty)) else {
                    return Err(Error::new(format!("{} is not an array", subject(parsed))));
                };
                if index >= len {
                    return Err(Error::new(format!(
                        "index {index} is out of range: the array has {len} elements"
                    )));
                }
                let size = btf.size_of(ty).unwrap_or(0);
                self = Location {
                    ty,
                    offset: self.offset + u64::from(index) * u64::from(size),
                    size,
                    bits: None,
                };
                rest = after;
            } else if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let name = &after[..end];
                let found = find_member(btf, self.ty, name, 0).filter(|_| !name.is_empty());
                let (bit, owner, index) = found.ok_or_else(|| {
                    let members = btf.composite(self.ty).map(|c| {
                        let names: Vec<&str> = c.members.iter().map(|m| &*m.name).filter(|n| !n.is_empty()).collect();
                        names.join(", ")
                    });
                    match members {
                        Some(members) => format!("there is no member \"{name}\"; the members are {members}"),
                        None => format!("{} is not a struct", subject(parsed)),
                    }
                })?;
                let member = &btf.composite(owner).ok_or("not a struct")?.members[index];
                let size = btf.size_of(member.ty).unwrap_or(0);
                let start = self.offset * 8 + bit;
                self = match member.bit_size {
                    0 => Location {
                        ty: member.ty,
                        offset: start / 8,
                        size,
                        bits: None,
                    },
                    bits => {
                        let first = u32::from((start % 8).to_le_bytes()[0]);
                        let size = (first + u32::from(bits)).div_ceil(8);
                        Location {
                            ty: member.ty,
                            offset: start / 8,
                            size,
                            bits: Some((first, bits.into())),
                        }
                    }
                };
                rest = &after[end..];
            } else {
                return Err(Error::new(format!("{path}: expected '.' or '[' before \"{rest}\"")));
            }
        }
        Ok(self)
    }
}

fn subject(parsed: &str) -> &str {
    if parsed.is_empty() { "the variable" } else { parsed }
}

fn int(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn extend(value: u64, bits: u32, signed: bool) -> i128 {
    let shift = 64 - bits.clamp(1, 64);
    match signed {
        true => i128::from((value << shift).cast_signed() >> shift),
        false => i128::from(value << shift >> shift),
    }
}

/// Formats the value at a location. `bytes` are the bytes of that location.
pub(crate) fn format(btf: &Btf, location: Location, bytes: &[u8]) -> String {
    let resolved = btf.resolve(location.ty);
    let bits = location
        .bits
        .map_or(location.size.saturating_mul(8).min(64), |(_, bits)| bits);
    let raw = |signed| {
        let value = int(bytes) >> location.bits.map_or(0, |(first, _)| first);
        extend(value, bits, signed)
    };
    match btf.kind(resolved) {
        TypeKind::Int { encoding, .. } if encoding & INT_BOOL != 0 => (raw(false) != 0).to_string(),
        TypeKind::Int { encoding, .. } => raw(encoding & INT_SIGNED != 0).to_string(),
        TypeKind::Enum { signed, values, .. } => {
            let value = raw(*signed);
            match values
                .iter()
                .find(|(_, v)| i128::from(*v) == value || !signed && i128::from(v.cast_unsigned()) == value)
            {
                Some((name, _)) => name.to_string(),
                None => value.to_string(),
            }
        }
        TypeKind::Ptr(_) => format!("{:#x}", int(bytes)),
        TypeKind::Array { ty, .. } if btf.is_text(*ty) => {
            let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            format!("\"{}\"", text.escape_ascii())
        }
        TypeKind::Array { ty, len, .. } => {
            let size = btf.size_of(*ty).unwrap_or(0);
            let element = |i: u32| part(btf, Location::whole(btf, *ty), bytes, u64::from(i) * u64::from(size));
            list((0..*len).map(element))
        }
        TypeKind::Struct(c) | TypeKind::Union(c) => list(c.members.iter().map(|m| {
            let location = Location::whole(btf, resolved).follow(btf, &format!(".{}", m.name));
            match location {
                Ok(location) => format!(
                    "{} = {}",
                    m.name,
                    part(btf, Location { offset: 0, ..location }, bytes, location.offset)
                ),
                Err(_) => "...".to_string(),
            }
        })),
        _ => "?".to_string(),
    }
}

fn part(btf: &Btf, location: Location, bytes: &[u8], offset: u64) -> String {
    let range = to_usize(offset)..to_usize(offset + u64::from(location.size));
    bytes
        .get(range)
        .map_or("...".to_string(), |bytes| format(btf, location, bytes))
}

fn list(values: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = values.take(MAX_PRINTED + 1).collect();
    if shown.len() > MAX_PRINTED {
        shown[MAX_PRINTED] = "...".to_string();
    }
    format!("{{{}}}", shown.join(", "))
}

/// Parses text as a value of the type at a location. Writes the value to `bytes`, which are the
/// bytes of the location.
pub(crate) fn set(btf: &Btf, location: Location, bytes: &mut [u8], text: &str) -> Result<(), Error> {
    let resolved = btf.resolve(location.ty);
    let text = text.trim();
    let type_name = btf.c_name(location.ty);
    let bits = location
        .bits
        .map_or(location.size.saturating_mul(8).min(64), |(_, bits)| bits);
    let value = match btf.kind(resolved) {
        TypeKind::Int { encoding, .. } if encoding & INT_BOOL != 0 => match text {
            "true" | "1" | "y" | "yes" | "on" => 1,
            "false" | "0" | "n" | "no" | "off" => 0,
            _ => {
                return Err(Error::new(format!(
                    "\"{text}\" is not a truth value; expected true or false"
                )));
            }
        },
        TypeKind::Int { encoding, .. } => match text.as_bytes() {
            [b'\'', byte, b'\''] if encoding & INT_CHAR != 0 => i128::from(*byte),
            _ => in_range(number(text, &type_name)?, bits, encoding & INT_SIGNED != 0, &type_name)?,
        },
        TypeKind::Enum { signed, values, .. } => match values.iter().find(|(name, _)| **name == *text) {
            Some((_, value)) => i128::from(*value),
            None => {
                let names: Vec<&str> = values.iter().take(MAX_PRINTED).map(|(name, _)| &**name).collect();
                let wanted = format!("{type_name}; its values: {}", names.join(", "));
                in_range(number(text, &wanted)?, bits, *signed, &type_name)?
            }
        },
        TypeKind::Array { ty, .. } if btf.is_text(*ty) => {
            let text = text
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                .unwrap_or(text);
            if text.len() >= bytes.len() {
                return Err(Error::new(format!(
                    "the text has {} bytes, but {type_name} holds at most {}",
                    text.len(),
                    bytes.len().max(1) - 1
                )));
            }
            bytes.fill(0);
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            return Ok(());
        }
        TypeKind::Array { ty, len, .. } => {
            let text = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'))
                .unwrap_or(text);
            let texts: Vec<&str> = text.split(',').collect();
            if texts.len() > *len as usize {
                return Err(Error::new(format!(
                    "{} values were given for the {len} elements of {type_name}",
                    texts.len()
                )));
            }
            let element = Location::whole(btf, *ty);
            // If one element is invalid, none is changed.
            let mut new = bytes.to_vec();
            for (text, bytes) in texts.iter().zip(new.chunks_mut(element.size.max(1) as usize)) {
                set(btf, element, bytes, text)?;
            }
            bytes.copy_from_slice(&new);
            return Ok(());
        }
        TypeKind::Struct(_) | TypeKind::Union(_) => {
            return Err(Error::new(format!(
                "{type_name} cannot be set as a whole: set its members, as in NAME.MEMBER"
            )));
        }
        _ => return Err(Error::new(format!("a value of type {type_name} cannot be set"))),
    };
    let (first, bits) = location.bits.unwrap_or((0, bits));
    let mask = u128::from(u64::MAX >> (64 - bits.clamp(1, 64))) << first;
    let value = value.cast_unsigned() << first;
    for (byte, (mask, value)) in bytes
        .iter_mut()
        .zip(mask.to_le_bytes().into_iter().zip(value.to_le_bytes()))
    {
        *byte = *byte & !mask | value & mask;
    }
    Ok(())
}

fn number(text: &str, wanted: &str) -> Result<i128, Error> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).map(i128::from),
        None => digits
            .parse::<u128>()
            .map(|value| i128::try_from(value).unwrap_or(i128::MAX)),
    };
    let value = value.map_err(|_| format!("\"{text}\" is not a value of type {wanted}"))?;
    Ok(if negative { -value } else { value })
}

fn in_range(value: i128, bits: u32, signed: bool, type_name: &str) -> Result<i128, Error> {
    let bits = bits.clamp(1, 64);
    let (min, max) = match signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    match (min..=max).contains(&value) {
        true => Ok(value),
        false => Err(Error::new(format!(
            "{value} is out of range: {type_name} holds {min} to {max}"
        ))),
    }
}
