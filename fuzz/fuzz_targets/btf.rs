// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary bytes as BTF, and resolves CO-RE relocations with it. Reading, printing,
//! computing sizes and resolving relocations must end with a result or an error.
//!
//! The first two bytes of the input are the length of the first BTF, which stands for the types of
//! an object. The rest of the input is a second BTF, which stands for the types of a kernel. If BTF
//! can be read, it must be the same after it is written and read again.
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
    let again = Btf::parse(&written).expect("BTF that was written can be read again");
    assert_eq!(again.encode(), written);
    for id in 0..local.len().min(64) {
        let _ = (local.size_of(id), local.c_name(id), local.c_definition(id));
    }
    // If the kernel's types cannot be read, the object's own types are used.
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
