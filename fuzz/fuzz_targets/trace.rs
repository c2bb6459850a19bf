// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary bytes as a trace (a file with the events of a simulation). The readers must
//! return records or an error. If these records are written and read again, they must be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::encode::{Decoder, Encoder};
use trace::{Hash, Reader, Record};

fn decode(bytes: &[u8]) -> Vec<Record> {
    let mut decoder = Decoder::new(bytes, 0, 0);
    std::iter::from_fn(|| decoder.get().ok().flatten()).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let records = decode(bytes);
    let (mut encoder, mut again) = (Encoder::new(), Vec::new());
    records.iter().for_each(|record| encoder.put(record, &mut again));
    assert_eq!(decode(&again), records);

    // The bytes are also read as a header and a block. This file adds valid checksums to them,
    // because a fuzzer would not guess the checksums.
    let mut file = b"WTRACE\r\n\x01\0\0\0".to_vec();
    let (&split, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (header, block) = rest.split_at(rest.len().min(usize::from(split)));
    for (kind, part) in [(None, header), (Some(b'B'), block)] {
        file.extend(kind);
        file.extend((part.len() as u32).to_le_bytes());
        file.extend(Hash::checksum(part).to_le_bytes());
        file.extend(part);
    }
    for bytes in [bytes, &file] {
        if let Ok(reader) = Reader::new(bytes) {
            // Reading may fail, because the end marker of the file is missing or wrong. The reader
            // must only come to an end.
            let _ = reader.map_while(Result::ok).count();
        }
    }
});
