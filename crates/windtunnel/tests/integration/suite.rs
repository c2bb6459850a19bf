// SPDX-License-Identifier: GPL-2.0-only
//! Tests of suites: the steps that a case may have, and the messages about steps that fail.

use crate::support::{object, windtunnel};
use std::path::PathBuf;

/// Runs a suite with a single case that has these steps. The object of the case is the policy fifo.
/// Returns the exit status and the output.
fn case(name: &str, steps: &str) -> (i32, String) {
    case_with("policies/fifo.bpf.c", name, steps)
}

fn case_with(source: &str, name: &str, steps: &str) -> (i32, String) {
    let policy = source
        .rsplit('/')
        .next()
        .expect("the path has a last component")
        .trim_end_matches(".bpf.c");
    let objects = object(source)
        .parent()
        .expect("the path has a parent directory")
        .to_owned();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    let text = format!(
        "[workloads]\nbusy = '''{{ \"tasks\" : {{ \"busy\" : {{ \"instance\" : 6, \"run\" : 900, \"sleep\" : 300 }} }} }}'''\n\
         [[case]]\nobject = '{policy}'\nabout = 'first come'\nworkload = 'busy'\nsteps = [{steps}]\n"
    );
    std::fs::write(&file, text).expect("the file can be written");
    let ran = windtunnel(&[
        "suite",
        &file.display().to_string(),
        "--objects",
        &objects.display().to_string(),
    ]);
    (ran.status, ran.stdout + &ran.stderr)
}

#[test]
fn a_case_takes_and_checks_its_steps() {
    let (status, text) = case(
        "suite-passes",
        "'set slice_ns 2000000', 'expect slice_ns == 2*1000000', 'open', 'load', 'loaded', 'run 20ms', 'remember', 'run 20ms',
         'expect cpu:busy > 30*1000000', 'expect cpu:nobody == 0', 'hammer busy 1ms 5ms 2', 'offline 3', 'run 50ms', 'loaded',
         'online 3', 'unload', 'exit SCX_EXIT_UNREG'",
    );
    assert_eq!(
        (status, text.as_str()),
        (0, "ok   fifo: first come\n1 of 1 objects pass\n")
    );
    let (status, text) = case_with(
        "crates/windtunnel/tests/policies/odd.bpf.c",
        "suite-ends-by-itself",
        "'load', 'offline 3', 'run 50ms', 'exit SCX_EXIT_UNREG_KERN code SCX_ECODE_ACT_RESTART|SCX_ECODE_RSN_HOTPLUG',
         'online 3', 'load', 'unload', 'exit SCX_EXIT_UNREG'",
    );
    assert_eq!(
        (status, text.as_str()),
        (0, "ok   odd: first come\n1 of 1 objects pass\n")
    );
}

#[test]
fn a_failed_step_reports_what_it_found() {
    for (name, steps, expect) in [
        (
            "suite-refused",
            "'refused nothing'",
            "step 1 'refused nothing': the object loads",
        ),
        (
            "suite-value",
            "'load', 'expect slice_ns > 6000000'",
            "slice_ns is 5000000, 6000000 is 6000000",
        ),
        (
            "suite-exit",
            "'load', 'unload', 'exit SCX_EXIT_ERROR'",
            "the policy ended in another way (SCX_EXIT_UNREG",
        ),
        (
            "suite-ended",
            "'load', 'unload', 'loaded'",
            "the policy is Disabled (SCX_EXIT_UNREG",
        ),
        (
            "suite-code",
            "'load', 'unload', 'exit SCX_EXIT_UNREG code 3'",
            "the exit code is 0, not 3",
        ),
        ("suite-global", "'load', 'expect nothing == 0'", "nothing"),
        ("suite-program", "'load', 'program absent'", "there is no such program"),
        (
            "suite-long",
            "'load', 'run 59s', 'hammer busy 1s 2s 2'",
            "step 3 'hammer busy 1s 2s 2': the case exceeds 60s of simulated time; --max-time changes the limit",
        ),
        (
            "suite-product",
            "'expect 9223372036854775807*9223372036854775807*9223372036854775807 == 0'",
            "does not fit in 128 bits",
        ),
    ] {
        let (status, text) = case(name, steps);
        assert_eq!(status, 1, "{name}: {text}");
        assert!(
            text.contains(expect) && text.ends_with("0 of 1 objects pass\n"),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_case_can_choose_the_release() {
    for (key, has_now) in [("", 1), ("kernel = '6.12'", 0)] {
        // The comment sign hides the `]` that `case` appends.
        let steps = format!("'load', 'loaded', 'expect has_now == {has_now}']\n{key}\n#");
        let found = case_with("crates/kernel/tests/policies/release.bpf.c", "suite-release", &steps);
        assert_eq!(found, (0, "ok   release: first come\n1 of 1 objects pass\n".to_owned()));
    }
}

#[test]
fn the_summary_names_weaker_and_omitted_tests() {
    // `case` appends a `]` that ends the list of steps, but the list has ended already. The comment
    // sign hides this `]`.
    let (status, text) = case("suite-weaker", "'load', 'unload']\nweaker = 'one CPU'\n#");
    let expect = "ok   fifo: first come\nweaker: fifo: one CPU\n1 of 1 objects pass, weaker than the original: 1\n";
    assert_eq!((status, text.as_str()), (0, expect));
    let steps = "'load', 'unload']\n[left_out]\nb = 'there is no b'\n#";
    let (status, text) = case("suite-left-out", steps);
    let expect = "ok   fifo: first come\nleft out: b: there is no b\n1 of 1 objects pass, tests left out: 1\n";
    assert_eq!((status, text.as_str()), (0, expect));
}

#[test]
fn an_unknown_step_is_refused_with_its_position() {
    let (status, text) = case("suite-words", "'lod'");
    assert_eq!(status, 2);
    assert!(
        text.contains("suite-words.toml:7:10: step 'lod': unknown step"),
        "{text}"
    );
}
