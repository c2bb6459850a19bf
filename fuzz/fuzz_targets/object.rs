// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary bytes as a BPF object, sets its globals and links it. Each step must end with a
//! result or an error.
//!
//! Good seeds are compiled objects: `cargo +nightly fuzz run object CORPUS policies`.
#![no_main]

use bpf::link::{Target, link};
use bpf::memory::Region;
use bpf::object::Object;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut object) = Object::parse(bytes, "fuzz.o") else {
        return;
    };
    let names: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for name in &names {
        let value = object.get(name).unwrap_or_default();
        let _ = object.set(name, &value);
    }
    // The object's own types serve as the types of the kernel. Every relocation that is not damaged
    // can therefore be resolved.
    let target = Target::from_btf(object.btf().clone());
    let region = Region::new().expect("the host has 128 GiB of free addresses");
    let Ok(image) = link(&object, &target, &region, 4) else {
        return;
    };
    for name in &names {
        let _ = image.get(&region, name);
    }
});
