// SPDX-License-Identifier: GPL-2.0-only
//! Tests with damaged descriptions: XML files, machine files and hwloc's synthetic strings (such as
//! `node:2 core:8 pu:2`) are truncated and mutated with fixed seeds. The parsers may accept or
//! refuse a damaged description, but must not panic. The environment variable MACHINE_FUZZ=N sets
//! the number of rounds for each input.

use machine::load;
use std::path::{Path, PathBuf};

/// The random generator xorshift64*.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Characters that have a meaning in one of the formats.
const ALPHABET: &[u8] = b"0123456789abcfx<>/=\"'[](){}:;,.-_#* \n\tPUNz\0";

fn damaged(rng: &mut Rng, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if rng.below(4) == 0 {
        bytes.truncate(rng.below(bytes.len() + 1));
    }
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        let end = (at + 1 + rng.below(40)).min(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = ALPHABET[rng.below(ALPHABET.len())],
            1 => bytes.insert(at, ALPHABET[rng.below(ALPHABET.len())]),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            // Replaces digits by other digits.
            4 => {
                for b in &mut bytes[at..end] {
                    if b.is_ascii_digit() {
                        *b = b'0' + rng.below(10) as u8;
                    }
                }
            }
            _ => {
                if let Some(n) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes.splice(at + n..at + n + 1, *b"4294967295");
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn rounds() -> usize {
    std::env::var("MACHINE_FUZZ")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(400)
}

fn damage_files(dir: &Path, extension: &str, seed: u64) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("damaged.{extension}"));
    let mut rng = Rng(seed);
    let (mut read, mut refused) = (0, 0);
    let mut inputs: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    inputs.retain(|p| p.extension().is_some_and(|e| e == extension));
    inputs.sort();
    for input in inputs {
        let text = std::fs::read_to_string(&input).unwrap();
        for _ in 0..rounds() {
            std::fs::write(&out, damaged(&mut rng, &text)).unwrap();
            match load(out.to_str().unwrap(), &[]) {
                Ok(_) => read += 1,
                Err(e) => {
                    assert!(!e.message.is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 0 && refused > 0, "{extension}: {read} read, {refused} refused");
}

#[test]
fn damaged_xml_never_panics() {
    damage_files(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data"), "xml", 1);
}

#[test]
fn damaged_machine_files_never_panic() {
    damage_files(
        &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../machines"),
        "toml",
        2,
    );
}

#[test]
fn damaged_synthetic_strings_never_panic() {
    let mut rng = Rng(3);
    for text in [
        "pack:2 [numa(memory=1GiB)] l3:2(size=32MiB) l2:2 core:1 pu:2(indexes=2*8:8*1)",
        "node:2 core:8 pu:2",
        "machine:2 group:2 die:2 l1:2 l1i:1 pu:2(indexes=0,2,4,6,1,3,5,7)",
    ] {
        for _ in 0..rounds() {
            let text = damaged(&mut rng, text);
            if let Err(e) = load(&text, &[]) {
                assert!(!e.message.is_empty());
            }
        }
    }
}
