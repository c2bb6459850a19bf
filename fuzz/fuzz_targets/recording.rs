// SPDX-License-Identifier: GPL-2.0-only
//! Any text: the reader of recordings ends with records in order or with an error, and what it reads can be replayed: the
//! program of each task is one that `check` lets pass, or nothing runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::replay;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(recording) = trace::recording::read(text) {
        assert!(recording.records.is_sorted_by_key(|record| record.time));
        if let Ok(workload) = replay::from_records(&recording.records, "x.txt") {
            workload.check().expect("replayed");
        }
    }
});
