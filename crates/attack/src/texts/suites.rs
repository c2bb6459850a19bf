// SPDX-License-Identifier: GPL-2.0-only
//! Hostile suites.

use super::{Add, nested};

/// Returns a suite that consists of one case.
fn suite(object: &str, steps: &str) -> String {
    format!(
        "[workloads]\nbusy = '{{\"tasks\": {{\"t\": {{\"instance\": 4, \"run\": 100, \"sleep\": 100}}}}}}'\n\
         [[case]]\nobject = '{object}'\nworkload = 'busy'\nsteps = [{steps}]\n"
    )
}

pub(super) fn add_all(add: &mut Add) {
    add("an empty text", String::new(), "refused");
    add("a path as object", suite("../../../../etc/passwd", "'load'"), "run");
    add(
        "a time that is too long",
        suite("fifo", "'load', 'run 99999999999999999999s'"),
        "refused",
    );
    add(
        "a CPU that does not exist",
        suite("fifo", "'load', 'offline 4294967295', 'online 77'"),
        "run",
    );
    add(
        "all CPUs offline",
        suite(
            "fifo",
            "'load', 'offline 0', 'offline 1', 'offline 2', 'offline 3', 'run 1ms'",
        ),
        "run",
    );
    add(
        "a policy that is loaded twice",
        suite("fifo", "'load', 'load', 'unload', 'unload', 'open', 'load', 'run 1ms'"),
        "run",
    );
    add(
        "a hammer with an interval of 0",
        suite("fifo", "'load', 'hammer t 0ms 1ms 4'"),
        "",
    );
    add(
        "a hammer without CPUs",
        suite("fifo", "'load', 'hammer t 1ms 1ms 0'"),
        "",
    );
    add(
        "a hammer with too many CPUs",
        suite("fifo", "'load', 'hammer t 1ms 3ms 4294967295'"),
        "",
    );
    add(
        "a program with wild arguments",
        suite("fifo", "'load', 'program x -1 99999999999999999999 pid:nobody'"),
        "",
    );
    add(
        "a global that does not exist",
        suite("fifo", "'set nothing 1', 'expect nothing == 1'"),
        "run",
    );
    add(
        "values that overflow",
        suite(
            "fifo",
            "'load', 'expect 9223372036854775807 * 9223372036854775807 * 9223372036854775807 > 1'",
        ),
        "",
    );
    add(
        "wild ops",
        suite(
            "fifo",
            "'ops flags 18446744073709551615', 'ops timeout_ms -1', 'ops name 5', 'load'",
        ),
        "run",
    );
    add("deep TOML", format!("case = {}", nested("[", "", "]")), "refused");
}
