// SPDX-License-Identifier: GPL-2.0-only
//! Any text as a machine file: a machine, or an error that names a place. Start from machines/*.toml.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(machine) = machine::from_toml("fuzz", text) {
        let _ = machine::show(&machine);
    }
});
