// SPDX-License-Identifier: GPL-2.0-only
//! Compiled code as bytes, in the form in which a [`Store`](crate::engine::code_cache::Store) keeps
//! it.
//!
//! All numbers are little-endian. The bytes begin with a magic number, the key of the code and a
//! SHA-256 of the rest. The rest is the frame size and the four lists of [`Template`], each after
//! its length. [`decode`] refuses bytes that differ in any bit from those that [`encode`] wrote.

use sha2::{Digest, Sha256};

use super::compiled::{Relocation, Template};
use super::inputs::Key;
use super::symbol::Symbol;

/// First bytes of stored code. The last byte is the version of the format.
const MAGIC: &[u8; 8] = b"WTCODE\0\x01";

/// Number that stands for "no BPF instruction" in the list of locations.
const NO_PC: u32 = u32::MAX;

/// Returns the stored form of compiled code.
pub(super) fn encode(key: &Key, template: &Template) -> Vec<u8> {
    let mut body = Vec::with_capacity(template.size());
    let number = |body: &mut Vec<u8>, number: u32| body.extend_from_slice(&number.to_le_bytes());
    let length = |body: &mut Vec<u8>, length: usize| body.extend_from_slice(&(length as u64).to_le_bytes());
    body.extend_from_slice(&template.frame.to_le_bytes());
    length(&mut body, template.starts.len());
    for &start in &template.starts {
        number(&mut body, start);
    }
    length(&mut body, template.locations.len());
    for &(offset, pc) in &template.locations {
        number(&mut body, offset);
        number(&mut body, pc.unwrap_or(NO_PC));
    }
    length(&mut body, template.relocations.len());
    for relocation in &template.relocations {
        let (kind, symbol) = relocation.symbol.parts();
        number(&mut body, relocation.offset);
        number(&mut body, kind);
        number(&mut body, symbol);
        body.extend_from_slice(&relocation.addend.to_le_bytes());
    }
    length(&mut body, template.code.len());
    body.extend_from_slice(&template.code);

    let checksum = Sha256::digest(&body);
    [MAGIC.as_slice(), key, &checksum, &body].concat()
}

/// Returns the compiled code from bytes that [`encode`] has written for this key. Returns `None`
/// for all other bytes.
pub(super) fn decode(key: &Key, bytes: &[u8]) -> Option<Template> {
    let body = bytes.strip_prefix(MAGIC)?.strip_prefix(key)?;
    let (checksum, body) = body.split_at_checked(32)?;
    if Sha256::digest(body).as_slice() != checksum {
        return None;
    }
    let mut reader = Reader(body);
    let template = Template {
        frame: reader.long()?,
        starts: reader.list(4, Reader::number)?,
        locations: reader.list(8, |r| Some((r.number()?, Some(r.number()?).filter(|&pc| pc != NO_PC))))?,
        relocations: reader.list(20, |r| {
            Some(Relocation {
                offset: r.number()?,
                symbol: Symbol::from_parts(r.number()?, r.number()?)?,
                addend: r.long()?.cast_signed(),
            })
        })?,
        code: {
            let length = usize::try_from(reader.long()?).ok()?;
            reader.take(length)?.to_vec()
        },
    };
    let inside = |offset: u32, bytes: usize| offset as usize + bytes <= template.code.len();
    let complete = reader.0.is_empty()
        && template.starts.iter().all(|&start| inside(start, 1))
        && template
            .relocations
            .iter()
            .all(|relocation| inside(relocation.offset, 8));
    complete.then_some(template)
}

/// The bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads a list of elements that have `size` bytes each. Allocates nothing for a list that is
    /// longer than the remaining bytes.
    fn list<T>(&mut self, size: usize, mut element: impl FnMut(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
        let length = usize::try_from(self.long()?).ok()?;
        let mut elements = Reader(self.take(length.checked_mul(size)?)?);
        (0..length).map(|_| element(&mut elements)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = [7; 32];

    fn template() -> Template {
        Template {
            code: (0..100).collect(),
            starts: vec![0, 48],
            frame: 64,
            locations: vec![(0, None), (4, Some(0)), (48, Some(3))],
            relocations: vec![
                Relocation {
                    offset: 10,
                    symbol: Symbol::Kfunc(2),
                    addend: 0,
                },
                Relocation {
                    offset: 92,
                    symbol: Symbol::Lines,
                    addend: -8,
                },
            ],
        }
    }

    /// Returns stored bytes with this body and a checksum that matches it.
    fn with_body(body: &[u8]) -> Vec<u8> {
        [MAGIC.as_slice(), &KEY, &Sha256::digest(body), body].concat()
    }

    #[test]
    fn stored_code_is_read_again() {
        let bytes = encode(&KEY, &template());
        assert_eq!(decode(&KEY, &bytes), Some(template()));
        assert_eq!(decode(&[8; 32], &bytes), None, "the code of another key");
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = encode(&KEY, &template());
        for length in 0..bytes.len() {
            assert_eq!(decode(&KEY, &bytes[..length]), None, "cut to {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(decode(&KEY, &damaged), None, "byte {at} changed");
        }
        assert_eq!(decode(&KEY, &[bytes, vec![0]].concat()), None, "a byte too many");
    }

    #[test]
    fn bytes_with_a_matching_checksum_are_checked_too() {
        let body = encode(&KEY, &template())[72..].to_vec();
        assert!(decode(&KEY, &with_body(&body)).is_some());
        for length in 0..body.len() {
            assert_eq!(decode(&KEY, &with_body(&body[..length])), None, "cut to {length} bytes");
        }
        let long = [&[0; 8], [0xff; 8].as_slice(), &[0; 64]].concat();
        assert_eq!(decode(&KEY, &with_body(&long)), None, "an endless list");
        let mut template = template();
        template.relocations[0].offset = 93;
        assert_eq!(
            decode(&KEY, &encode(&KEY, &template)),
            None,
            "a relocation beyond the code"
        );
        template.relocations.clear();
        template.starts[1] = 100;
        assert_eq!(
            decode(&KEY, &encode(&KEY, &template)),
            None,
            "a function beyond the code"
        );
    }
}
