// SPDX-License-Identifier: GPL-2.0-only
//! Any bytes: the readers end with records or an error, and records survive being written again.
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

    // As a file, and as header and block behind valid checksums, which no fuzzer guesses.
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
            // There is no end, or a wrong one: what counts is that the reading stops.
            let _ = reader.map_while(Result::ok).count();
        }
    }
});
