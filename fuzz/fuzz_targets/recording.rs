// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary text as a recording of a real machine. The reader must return records in the
//! order of their time, or an error. A recording that can be read is then replayed. The replay must
//! be possible, or be refused with an error. The programs of the replayed tasks must be valid.
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
            workload.check().expect("the workload of a replay is valid");
        }
    }
});
