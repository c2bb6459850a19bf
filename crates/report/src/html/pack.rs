// SPDX-License-Identifier: GPL-2.0-only
//! Packs numbers for the page: as varints (few bytes for small numbers), compressed with deflate,
//! in base64. Browsers have functions that decode base64 and deflate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::DeflateEncoder};
use std::io::Write;

/// Appends a number in LEB128: seven bits per byte, lowest bits first.
#[expect(clippy::cast_possible_truncation, reason = "each byte takes the lowest 7 bits")]
pub fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Appends a signed number as a zigzag varint, in which numbers near zero take few bytes.
pub fn signed(value: i64, into: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63).cast_unsigned(), into);
}

/// Compresses bytes to base64 of raw deflate, the format of `DecompressionStream("deflate-raw")`.
pub fn packed(bytes: &[u8]) -> String {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::new(6));
    // Writing to a Vec cannot fail.
    let deflated = deflate.write_all(bytes).and_then(|()| deflate.finish());
    STANDARD.encode(deflated.unwrap_or_default())
}

#[cfg(test)]
pub fn unpacked(text: &str) -> Vec<u8> {
    let mut inflate = flate2::write::DeflateDecoder::new(Vec::new());
    inflate
        .write_all(&STANDARD.decode(text).expect("the text is base64"))
        .expect("the data is valid deflate");
    inflate.finish().expect("the compressed data is complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_are_packed() {
        let mut bytes = Vec::new();
        varint(127, &mut bytes);
        varint(300, &mut bytes);
        signed(-1, &mut bytes);
        signed(64, &mut bytes);
        assert_eq!(bytes, [127, 0xac, 2, 1, 0x80, 1]);
        assert_eq!(unpacked(&packed(&bytes)), bytes);
        bytes.clear();
        varint(u64::MAX, &mut bytes);
        assert_eq!(bytes.len(), 10);
    }
}
