// SPDX-License-Identifier: GPL-2.0-only
//! Damages trace files and then corrects their checksums. With wrong checksums, a reader would stop
//! before it reaches the damage.

use super::{bytes, get, put};
use random::Random;
use trace::Hash;
use trace::encode::Decoder;

/// Number of bytes before the header: the magic string `WTRACE\r\n` and the version.
const BEGIN: usize = 12;
/// Size of the two fields before the body of a header or block: the length and the checksum of the
/// body.
const HEAD: usize = 12;

/// Returns the byte ranges of the bodies: the body of the header, and the body of each block.
fn bodies(file: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = BEGIN;
    loop {
        let len = get(file, at, 4) as usize;
        let body = at + HEAD;
        if body + len > file.len() {
            return found;
        }
        found.push((at, body + len));
        let next = body + len;
        // Before each block stands a byte with its kind. The end marker has another kind.
        if !matches!(file.get(next), Some(b'B' | b'R')) {
            return found;
        }
        at = next + 1;
    }
}

/// Damages a trace file in one to three places.
pub fn trace(random: &mut Random, mut file: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + random.below(3) {
        let bodies = bodies(&file);
        if bodies.is_empty() || random.chance(15) {
            bytes(random, &mut file);
            continue;
        }
        let (at, end) = random.pick(&bodies);
        let mut body = file[at + HEAD..end].to_vec();
        for _ in 0..1 + random.below(3) {
            bytes(random, &mut body);
        }
        let mut block = vec![0; HEAD];
        put(&mut block, 0, 4, body.len() as u64);
        put(&mut block, 4, 8, Hash::checksum(&body));
        block.extend(body);
        file.splice(at..end, block);
    }
    if random.chance(80) {
        end(&mut file);
    }
    file
}

/// Replaces the end marker by a correct one. The marker contains the number and the hash of the
/// records. A reader would refuse a file in which they are wrong.
fn end(file: &mut Vec<u8>) {
    let bodies = bodies(file);
    let mut hash = Hash::default();
    for &(at, end) in bodies.iter().skip(1) {
        if file.get(at.wrapping_sub(1)) == Some(&b'B') {
            let mut decoder = Decoder::new(&file[at + HEAD..end], 0, 0);
            while let Ok(Some(record)) = decoder.get() {
                hash.add(&record);
            }
        }
    }
    let Some(&(_, last)) = bodies.last() else { return };
    file.truncate(last);
    let words = [hash.count().to_le_bytes(), hash.value().to_le_bytes()].concat();
    file.push(b'E');
    file.extend(&words);
    file.extend(Hash::checksum(&words).to_le_bytes());
}
