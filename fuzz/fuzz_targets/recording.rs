// SPDX-License-Identifier: GPL-2.0-only
//! Reads any text as a recording. The reader must return records in order of time, or an error. A
//! recording that is read must be replayable: the program of each task passes `check`, or nothing
//! runs.
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
