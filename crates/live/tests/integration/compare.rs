// SPDX-License-Identifier: GPL-2.0-only
//! Tests `live compare` on the host, under its default scheduler.

use crate::alone::{alone, status_and_text};

#[test]
fn the_table_shows_simulated_and_live_figures() {
    let _alone = alone();
    let (status, text) = status_and_text(&[
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
