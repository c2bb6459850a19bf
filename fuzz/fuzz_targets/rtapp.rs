// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary text as a workload: first as the specification of a generator, then as an rt-app
//! file. The result must be a valid workload or an error. If the workload is written as an rt-app
//! file and this file is read again, the workload must be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::{generator, rtapp, to_rtapp_json};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(workload) = generator::generate(text) {
        workload.check().expect("a generated workload is valid");
    }
    let Ok(workload) = rtapp::read(text, "x.json") else {
        return;
    };
    workload.check().expect("a workload that was read is valid");
    if let Ok(first) = to_rtapp_json(&workload) {
        let again = rtapp::read(&first, "x.json").expect("a workload that was written can be read again");
        assert_eq!(to_rtapp_json(&again), Ok(first));
    }
});
