// SPDX-License-Identifier: GPL-2.0-only
//! Any bytes as BTF, and CO-RE relocations against it: reading, printing, sizes and answers end with a result or an error.
//! The first two bytes say how many of the rest are the object's types; the others are the kernel's. What can be read is
//! read again as the same after it was written.
#![no_main]

use bpf::btf::Btf;
use bpf::core_relo::{Relocation, describe, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[low, high], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let split = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (local, target) = rest.split_at(split);
    let Ok(local) = Btf::parse(local) else { return };
    let written = local.encode();
    let again = Btf::parse(&written).expect("written");
    assert_eq!(again.encode(), written);
    for id in 0..local.len().min(64) {
        let _ = (local.size_of(id), local.c_name(id), local.c_definition(id));
    }
    // Types that are not there at all are the object's own.
    let mut target = Btf::parse(target).unwrap_or_else(|_| local.clone());
    target.index();
    for ty in 0..local.len().min(32) {
        for kind in 0..13 {
            for access in ["0", "0:0", "0:1", "0:0:0", "1:2:3", "4294967295:4294967295"] {
                if let Ok(relocation) = Relocation::new(ty, access, kind) {
                    let _ = resolve(&local, &target, &relocation);
                    let _ = describe(&local, &relocation);
                }
            }
        }
    }
});
