// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel check` and `policy show` with objects that a kernel refuses.

use crate::support::{object, root, variant, windtunnel};

const UNTESTED: &str = "crates/windtunnel/tests/policies/untested.bpf.c";
const OLD: &str = "crates/windtunnel/tests/policies/old_names.bpf.c";

/// Returns the source lines with a comment, as they are named in messages.
fn positions(source: &str, comment: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(source)).expect("the source can be read");
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains(comment));
    lines.map(|(number, _)| format!("{source}:{number}:")).collect()
}

#[test]
fn check_reports_every_unchecked_pointer_of_every_program() {
    let path = object(UNTESTED);
    let path = path.to_string_lossy();
    let ran = windtunnel(&["check", &path]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let expected = positions(UNTESTED, "/* violation */");
    assert!(ran.stdout.contains("refused for 5 reasons"), "{}", ran.stdout);
    assert_eq!(expected.len(), 5);
    for position in &expected {
        assert_eq!(ran.stdout.matches(position).count(), 1, "{position} in: {}", ran.stdout);
    }
    let kinds = [
        "untested: ",
        "null-dereference: ",
        "invalid mem access 'trusted_ptr_or_null_'",
    ];
    for kind in kinds {
        assert!(ran.stdout.contains(kind), "no {kind} in: {}", ran.stdout);
    }
    assert!(ran.stdout.ends_with("1 object checked, 1 refused\n"), "{}", ran.stdout);
    let show = windtunnel(&["policy", "show", &path]);
    assert_eq!(show.status, 1, "{}", show.stderr);
    assert!(
        show.stdout.contains("budget"),
        "the parameters are listed: {}",
        show.stdout
    );
    assert!(show.stderr.contains(&expected[0]), "{}", show.stderr);
}

#[test]
fn the_status_of_check_distinguishes_refused_policies_from_unusable_inputs() {
    let good = object("crates/windtunnel/tests/policies/odd.bpf.c");
    let (good, bad) = (good.to_string_lossy(), object(UNTESTED));
    let bad = bad.to_string_lossy();
    for (objects, status, summary) in [
        (&["fifo", &good][..], 0, "2 objects checked, 0 refused"),
        (&["eevdf"][..], 0, "1 object checked, 0 refused"),
        (&["fifo", &bad][..], 1, "2 objects checked, 1 refused"),
        (
            &["no_such_policy"][..],
            2,
            "1 object checked, 0 refused, 1 with an error",
        ),
        (
            &["Cargo.toml", &bad][..],
            2,
            "2 objects checked, 1 refused, 1 with an error",
        ),
    ] {
        let ran = windtunnel(&[&["check"], objects].concat());
        assert_eq!(ran.status, status, "{objects:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.lines().last(), Some(summary), "{objects:?}");
    }
}

#[test]
fn check_refuses_calls_that_the_callback_may_not_make() {
    const HOT: &str = "crates/windtunnel/tests/policies/hot.bpf.c";
    let check = |define: &str| windtunnel(&["check", &variant(HOT, define, &[define]).to_string_lossy()]);
    for (define, message) in [
        (
            "SLEEPS",
            "ops.enqueue(): program must be sleepable to call sleepable kfunc scx_bpf_create_dsq in hot_enqueue",
        ),
        (
            "CONTEXT",
            "ops.running(): calling kernel function scx_bpf_dsq_move_to_local___v2 is not allowed in hot_running",
        ),
    ] {
        let ran = check(define);
        assert_eq!(ran.status, 1, "{define}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(message), "{define}: {}", ran.stdout);
    }
    // The verifier does not follow a branch that is never taken.
    let ran = check("GUARDED");
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn check_refuses_a_call_of_a_weak_kfunc_that_the_kernel_declares_differently() {
    const HOT: &str = "crates/windtunnel/tests/policies/hot.bpf.c";
    let check = |name: &str, defines: &[&str]| windtunnel(&["check", &variant(HOT, name, defines).to_string_lossy()]);
    let ran = check("differs", &["DIFFERS"]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let message = "ops.running(): kfunc scx_bpf_kick_cpu differs: declared as";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
    // The address of a kfunc of a different type is 0, so the call is never reached.
    let ran = check("differs-tested", &["DIFFERS", "TESTED"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn no_policy_of_the_repository_is_refused() {
    let names = crate::support::policies();
    let objects: Vec<String> = names
        .iter()
        .map(|name| object(&format!("policies/{name}.bpf.c")).to_string_lossy().into_owned())
        .collect();
    let mut args = vec!["check"];
    args.extend(objects.iter().map(String::as_str));
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
}

#[test]
fn a_refusal_names_the_release_that_accepts_the_object() {
    let path = object(OLD);
    let path = path.to_string_lossy();
    let hint =
        "not found in kernel BTF of Linux 7.2; it exists in Linux 6.12 to 6.16; the policy loads with --kernel 6.16";
    let run = windtunnel(&["run", &path, "--for", "20ms"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let check = windtunnel(&["check", &path]);
    assert_eq!(check.status, 1, "{}", check.stdout);
    assert!(check.stdout.contains(hint), "{}", check.stdout);
    let show = windtunnel(&["policy", "show", &path]);
    assert_eq!(show.status, 1, "{}", show.stderr);
    assert!(show.stderr.contains(hint), "{}", show.stderr);
    for args in [
        &["run", "--for", "20ms"][..],
        &["check"],
        &["policy", "show"],
        &["policy", "show", "--json"],
    ] {
        for release in ["6.12", "6.16"] {
            let ran = windtunnel(&[args, &[&*path, "--kernel", release]].concat());
            assert_eq!(ran.status, 0, "{args:?} {release}: {}{}", ran.stdout, ran.stderr);
        }
    }
    // A flag that only later releases know.
    let flags = variant(OLD, "flags", &["FLAGS"]);
    let ran = windtunnel(&["check", "--kernel", "6.12", &flags.to_string_lossy()]);
    let hint = "that Linux 6.12 does not know (-22); the policy loads with --kernel 6.16";
    assert!(ran.status == 1 && ran.stdout.contains(hint), "{}", ran.stdout);
    // An object that no release accepts.
    let ran = windtunnel(&["check", &object(UNTESTED).to_string_lossy()]);
    assert!(!ran.stdout.contains("--kernel"), "{}", ran.stdout);
    // A function that the policy calls although the release does not have it.
    let ran = windtunnel(&[
        "run",
        "fifo",
        "-m",
        "smp4",
        "-w",
        "closed:n=6",
        "--for",
        "5ms",
        "--kernel",
        "6.18",
    ]);
    assert!(
        ran.stderr.contains("it exists since Linux 7.1 (--kernel 7.1)"),
        "{}",
        ran.stderr
    );
}
