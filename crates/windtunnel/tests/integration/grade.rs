// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel grade`: the model solution of each lab gets all points, and the starter
//! code, typical mistakes and hostile submissions get the points that they deserve.

use crate::support::{Ran, root, windtunnel};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A variant of a model solution: its name, and the texts that are replaced.
type Variant = (&'static str, &'static [(&'static str, &'static str)]);

const VARIANTS: [(&str, &[Variant]); 3] = [
    (
        "lab1",
        &[
            ("a turn of 20 ms", &[("10000000ULL", "20000000ULL")]),
            (
                "the last comes first",
                &[("TURN_NS, enq_flags", "TURN_NS, enq_flags | SCX_ENQ_HEAD")],
            ),
            ("wakes no idle CPU", &[("if (idle >= 0)", "if (idle >= 1000)")]),
            ("forgets dispatch", &[("scx_bpf_dsq_move_to_local(QUEUE);", "")]),
            (
                "wrong queue",
                &[("scx_bpf_dsq_insert(p, QUEUE", "scx_bpf_dsq_insert(p, 7")],
            ),
            (
                "endless loop",
                &[(
                    "s32 idle;",
                    "s32 idle;\n\tfor (volatile int i = 0; i >= 0; i = 1)\n\t\t;",
                )],
            ),
            ("does not compile", &[("s32 idle;", "s32 idel;")]),
        ],
    ),
    (
        "lab2",
        &[
            ("does not preempt", &[("SCX_KICK_PREEMPT", "SCX_KICK_IDLE")]),
            ("never boosts", &[("boosts++;", "return 0;")]),
            (
                "forgets the time used when a task sleeps",
                &[(
                    "t->began = bpf_ktime_get_ns();",
                    "t->began = bpf_ktime_get_ns(); t->used = 0;",
                )],
            ),
            ("tasks never move down", &[("t->level++;", "")]),
            (
                "the same turn at all levels",
                &[("{ 5 * MS, 10 * MS, 20 * MS }", "{ 5 * MS, 5 * MS, 5 * MS }")],
            ),
        ],
    ),
    (
        "lab3",
        &[
            ("ignores LLCs", &[("same != same_llc || ", "")]),
            ("steals only in its LLC", &[("steal(cpu, false);", ";")]),
            ("wakes no idle CPU", &[("if (idle >= 0)", "if (idle >= 1000)")]),
            ("one queue for all", &[("scx_bpf_task_cpu(p), TURN_NS", "0, TURN_NS")]),
        ],
    ),
];

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grade");
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    folder
}

fn solution(lab: &str) -> String {
    let path = root().join(format!("crates/windtunnel/tests/labs/{lab}.bpf.c"));
    std::fs::read_to_string(path).expect("the model solution exists")
}

/// Writes a submission and grades it.
fn grade(lab: &str, name: &str, text: &str, more: &[&str]) -> Ran {
    let path = folder().join(format!("{lab}_{}.bpf.c", name.replace(' ', "_")));
    std::fs::write(&path, text).expect("the submission can be written");
    windtunnel(&[&["grade", lab, &path.display().to_string()], more].concat())
}

/// Returns a line with the points, followed by the reasons.
fn summary(lab: &str, name: &str, text: &str) -> String {
    let ran = grade(lab, name, text, &["--json"]);
    let graded: serde_json::Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{lab} {name}: {error}: {}", ran.stderr));
    let (points, of) = (&graded["points"], &graded["of"]);
    assert_eq!(ran.status, i32::from(points != of), "{lab} {name}");
    let mut out = format!("{lab}, {name}: {points} of {of}\n");
    if let Some(reason) = graded["unusable"].as_str() {
        let _ = writeln!(out, "  {}", reason.lines().next().unwrap_or_default());
        return without_folder(&out);
    }
    for (item, number) in graded["items"].as_array().expect("items").iter().zip(1..) {
        for reason in item["reasons"].as_array().expect("reasons") {
            let _ = writeln!(out, "  item {number}: {}", reason.as_str().expect("a text"));
        }
    }
    without_folder(&out)
}

/// Removes the directory of the submissions, which is different on each host.
fn without_folder(text: &str) -> String {
    text.replace(&format!("{}/", folder().display()), "")
}

#[test]
fn solutions_starters_and_mistakes_get_the_points_that_they_deserve() {
    let mut all = String::new();
    for (lab, variants) in VARIANTS {
        let starter =
            std::fs::read_to_string(root().join(format!("labs/{lab}/starter.bpf.c"))).expect("the starter exists");
        let text = solution(lab);
        let whole = summary(lab, "model solution", &text);
        assert!(whole.contains(": 100 of 100\n"), "{whole}");
        all += &whole;
        all += &summary(lab, "starter code", &starter);
        for (name, changes) in variants {
            let changed = changes.iter().fold(text.clone(), |text, (from, to)| {
                assert!(text.contains(from), "{lab} {name}: {from}");
                text.replace(from, to)
            });
            all += &summary(lab, name, &changed);
        }
    }
    golden::check!("grades.txt", &all);
}

#[test]
fn a_hostile_source_is_bounded() {
    for (name, line, reason) in [
        ("huge object", "char big[1ULL << 40] = { 1 };\n", "0 points: "),
        ("endless recursion", "#include __FILE__\n", "0 points: does not compile"),
    ] {
        let ran = grade("lab1", name, &format!("{line}{}", solution("lab1")), &[]);
        assert_eq!(ran.status, 1, "{name}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(reason), "{name}: {}", ran.stdout);
        assert!(ran.stdout.contains("0 of 100"), "{name}: {}", ran.stdout);
    }
}

/// Every callback does nearly as many instructions as one call may execute.
#[test]
fn a_policy_that_burns_time_is_bounded() {
    let burn = "for (u64 i = 0; i < 30000000; i++)\n\t\tasm volatile(\"\");\n\ts32 idle;";
    let ran = grade("lab1", "burns", &solution("lab1").replace("s32 idle;", burn), &[]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("of 100"), "{}", ran.stdout);
}

#[test]
fn the_points_are_the_same_each_time() {
    let once = || grade("lab3", "again", &solution("lab3"), &["--json"]).stdout;
    assert_eq!(once(), once());
}

#[test]
fn errors_name_the_input() {
    let error = |args: &[&str], text: &str| {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    };
    error(
        &["grade", "lab9", "x.bpf.c"],
        "there is no lab 'lab9'\n  hint: give a directory with a file lab.toml, or one of lab1, lab2, lab3",
    );
    error(&["grade", "lab1", "nothing.bpf.c"], "nothing.bpf.c: No such file");
    error(
        &["grade", "lab1", "--starter", "Cargo.toml"],
        "Cargo.toml: the file exists",
    );
}

#[test]
fn a_lab_says_what_it_asks_for_and_has_code_to_start_from() {
    let ran = windtunnel(&["grade", "lab2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("lab2: Multi-level feedback queue\n"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("  1. the policy compiles and loads (10 points)\n"),
        "{}",
        ran.stdout
    );
    let path = folder().join("begin.bpf.c");
    let _ = std::fs::remove_file(&path);
    let ran = windtunnel(&["grade", "lab2", "--starter", &path.display().to_string()]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let starter = std::fs::read(root().join("labs/lab2/starter.bpf.c")).expect("the starter exists");
    assert_eq!(std::fs::read(path).expect("the file was written"), starter);
}
