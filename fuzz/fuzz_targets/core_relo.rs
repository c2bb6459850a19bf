// SPDX-License-Identifier: GPL-2.0-only
//! Uses arbitrary bytes as CO-RE relocations: type, access path and kind. The relocations refer to
//! the types of a valid policy. Each relocation must be resolved or refused, with the same result
//! each time that it is tried.
//!
//! The types are valid here; the target `btf` tests hostile types. The target `object` tests
//! hostile relocation records in an object. This target needs clang-19, which compiles the policy
//! that contains the types.
#![no_main]

use bpf::btf::Btf;
use bpf::core_relo::{Relocation, describe, resolve};
use bpf::object::Object;
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// The types of a policy.
static TYPES: LazyLock<Btf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernel/tests/policies/hostile.bpf.c");
    let out = std::env::temp_dir().join(format!("types-{}.bpf.o", std::process::id()));
    let done = Command::new("clang-19")
        .args(["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status();
    assert!(done.is_ok_and(|done| done.success()), "clang-19 compiles {source:?}");
    let bytes = std::fs::read(&out).expect("clang-19 has written the object");
    let _ = std::fs::remove_file(&out);
    let mut types = Object::parse(&bytes, "types.bpf.o")
        .expect("clang-19 writes a valid BPF object")
        .btf()
        .clone();
    types.index();
    types
});

/// Removes N bytes from the front and returns them. If fewer are left, the missing ones are zeros.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    let len = N.min(bytes.len());
    taken[..len].copy_from_slice(&bytes[..len]);
    *bytes = &bytes[len..];
    taken
}

/// Returns an access path. Usually it has the format that compilers write, with numbers of all
/// sizes. Sometimes it is arbitrary text.
fn path(bytes: &mut &[u8]) -> String {
    let [len] = take(bytes);
    if len >= 0xf0 {
        let text: [u8; 12] = take(bytes);
        return String::from_utf8_lossy(&text).into_owned();
    }
    let index = |_| match take(bytes) {
        [0xff] => u32::from_le_bytes(take(bytes)),
        [small] => small.into(),
    };
    let indices: Vec<String> = (0..len % 80).map(index).map(|index: u32| index.to_string()).collect();
    indices.join(":")
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while !rest.is_empty() {
        let [kind] = take(&mut rest);
        let ty = u16::from_le_bytes(take(&mut rest));
        // The id of an existing type, or one of the next four ids.
        let ty = u32::from(ty) % (TYPES.len() + 4);
        let path = path(&mut rest);
        let Ok(relocation) = Relocation::new(ty, &path, (kind % 16).into()) else {
            continue;
        };
        let answer = resolve(&TYPES, &TYPES, &relocation).ok();
        assert!(answer == resolve(&TYPES, &TYPES, &relocation).ok());
        let _ = describe(&TYPES, &relocation);
    }
});
