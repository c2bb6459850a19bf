// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary text as a machine file, which describes the topology and the costs of a
//! simulated machine. The result must be a machine or an error. Good seeds are machines/*.toml.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(machine) = machine::from_toml("fuzz", text) {
        let _ = machine::show(&machine);
    }
});
