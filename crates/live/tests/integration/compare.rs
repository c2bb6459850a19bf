// SPDX-License-Identifier: GPL-2.0-only
//! `live compare` on whatever machine runs the tests, under its default scheduler.

use crate::alone::{alone, told};

#[test]
fn simulation_and_machine_are_set_side_by_side() {
    let _alone = alone();
    let (status, text) = told(&[
        "compare",
        "eevdf",
        "closed:n=2,compute=5ms,rounds=20,duration=30s",
        "--unrecorded",
    ]);
    assert_eq!(status, 0, "{text}");
    for word in [
        "simulated",
        "live",
        "error",
        "rounds/s",
        "response p99",
        "context switches",
    ] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
}
