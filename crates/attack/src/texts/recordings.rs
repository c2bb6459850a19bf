// SPDX-License-Identifier: GPL-2.0-only
//! Hostile recordings in the format of `perf script`.

use super::{Add, DEEP};

/// Returns a line of a recording: a context switch in the format of `perf script`.
fn line(cpu: &str, time: &str, prev: &str, next: &str) -> String {
    format!(
        "swapper 0 {cpu} {time}: sched:sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=b next_pid={next} next_prio=120\n"
    )
}

pub(super) fn add_all(add: &mut Add) {
    add("an empty text", String::new(), "");
    add("a CPU that does not exist", line("[4294967295]", "1.0", "1", "2"), "");
    add("a million CPUs", line("[1000000]", "1.0", "1", "2"), "");
    add(
        "time that runs backward",
        line("[000]", "9.0", "1", "2") + &line("[000]", "1.0", "2", "1"),
        "",
    );
    add(
        "the end of time",
        line("[000]", "18446744073709551615.999999999", "1", "2"),
        "",
    );
    add("negative pids", line("[000]", "1.0", "-1", "-2147483648"), "");
    add("huge pids", line("[000]", "1.0", "4294967295", "4294967296"), "");
    add("a long line", "x".repeat(10 * DEEP), "");
    add(
        "control characters",
        line("[000]", "1.0", "1", "2").replace("comm=a", "comm=\x1b[31m\x07"),
        "",
    );
}
