// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel compare` as the CI of a scheduler would use it: the verdict, the JSON and the
//! exit status.

use crate::support::{object, windtunnel};

fn path(source: &str) -> String {
    object(source).display().to_string()
}

const WORKLOAD: [&str; 6] = [
    "--machine",
    "smp4",
    "--workload",
    "hackbench:groups=1,loops=30",
    "--runs",
    "4",
];

#[test]
fn a_condition_that_holds_fails_the_comparison() {
    let fifo = path("policies/fifo.bpf.c");
    let slow = ["--set", "B:slice_ns=100000"];
    let compare = |more: &[&str]| windtunnel(&[&["compare", "eevdf", &fifo], &WORKLOAD[..], more].concat());
    let ran = compare(&["--fail-if", "switches < -5%", "--fail-if", "switches < -99%"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    for part in [
        "A: eevdf",
        "B: fifo",
        "fifo ",
        "fail if switches < -5%: holds",
        "fail if switches < -99%: does not hold",
        "repeat: windtunnel compare eevdf",
        "--runs 4",
    ] {
        assert!(ran.stdout.contains(part), "no '{part}' in:\n{}", ran.stdout);
    }
    // If a policy is compared with itself, there is no difference, and no condition holds.
    let ran = windtunnel(&[&["compare", &fifo, &fifo], &WORKLOAD[..], &["--fail-if", "score > 0%"]].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout
            .contains("no difference at all between fifo (A) and fifo (B)"),
        "{}",
        ran.stdout
    );
    // If a parameter is set for one side only, the names of the sides show the parameter.
    let ran = windtunnel(&[&["compare", &fifo, &fifo], &WORKLOAD[..], &slow].concat());
    assert!(
        ran.status == 0 && ran.stdout.contains("B: fifo slice_ns=100000"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn the_json_does_not_depend_on_the_number_of_threads() {
    let fifo = path("policies/fifo.bpf.c");
    let json = |threads| {
        let more = ["--json", "--threads", threads, "--fail-if", "score < -99%"];
        let ran = windtunnel(&[&["compare", "eevdf", &fifo], &WORKLOAD[..], &more].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        serde_json::from_str::<serde_json::Value>(&ran.stdout).expect("the text is valid JSON")
    };
    let one = json("1");
    assert_eq!(one, json("3"));
    assert_eq!(one["seeds"].as_array().map(Vec::len), Some(4));
    assert_eq!(one["fail_if"][0]["holds"], false);
    let names: Vec<&str> = one["metrics"]
        .as_array()
        .expect("the result has metrics")
        .iter()
        .filter_map(|m| m["name"].as_str())
        .collect();
    for name in [
        "score",
        "p50_wakeup",
        "p99_wakeup",
        "switches",
        "migrations",
        "busy",
        "overhead",
        "idle_while_waiting",
    ] {
        assert!(names.contains(&name), "no {name}");
    }
    assert!(one["metrics"][0]["change_percent_low"].as_f64() <= one["metrics"][0]["change_percent"].as_f64());
}

#[test]
fn a_failed_policy_gives_status_1_and_an_invalid_condition_status_2() {
    let wild = path("crates/windtunnel/tests/policies/wild.bpf.c");
    let ran = windtunnel(&[
        "compare",
        "eevdf",
        &wild,
        "-m",
        "up",
        "-w",
        "closed:n=2",
        "--for",
        "1s",
        "--runs",
        "2",
    ]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("wild failed in 2 of 2 runs (seed 1: failed at 0 ns: runtime error:"),
        "{}",
        ran.stdout
    );
    let ran = windtunnel(&["compare", "eevdf", "eevdf", "--fail-if", "p99 > 5%"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr
            .contains("there is no metric 'p99'\n  p99 > 5%\n  ^ column 1"),
        "{}",
        ran.stderr
    );
}

/// A load whose computing times and pauses are random.
const RANDOM_LOAD: [&str; 4] = [
    "-m",
    "smp4",
    "-w",
    "closed:n=10,compute=2ms,think=1ms,compute_dist=M,think_dist=M",
];

#[test]
fn the_number_of_pairs_doubles_while_a_condition_is_undecided() {
    let fifo = path("policies/fifo.bpf.c");
    let compare = |more: &[&str]| {
        let words = [
            &["compare", &fifo, &fifo, "--for", "50ms", "--json"],
            &RANDOM_LOAD[..],
            more,
        ]
        .concat();
        let ran = windtunnel(&words);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the text is valid JSON");
        let pairs = json["seeds"].as_array().map_or(0, Vec::len);
        let one = &json["fail_if"][0];
        (ran.status, pairs, one["holds"] == true, one["undecided"] == true)
    };
    // A shorter slice increases the number of switches by 1 or 2 percent, which is less than the
    // noise of ten pairs of runs.
    let shorter = [
        "--set",
        "A:slice_ns=5000000",
        "--set",
        "B:slice_ns=3000000",
        "--fail-if",
        "switches > 0%",
    ];
    let with = |more: &[&str]| compare(&[&shorter[..], more].concat());
    assert_eq!(with(&["--runs", "10"]), (0, 10, false, true));
    assert_eq!(with(&["--runs", "10", "--max-runs", "40"]), (1, 40, true, false));
    // The limit of 200 % is far from the interval, so the first pairs decide.
    let far = [
        "--set",
        "B:slice_ns=3000000",
        "--fail-if",
        "switches > +200%",
        "--max-runs",
        "40",
    ];
    assert_eq!(compare(&far), (0, 10, false, false));
    // This difference is much smaller than the noise. No round decides whether the change is above
    // 0, and the condition does not hold.
    let noise = [
        "--set",
        "A:slice_ns=5000000",
        "--set",
        "B:slice_ns=4500000",
        "--fail-if",
        "switches > 0%",
    ];
    let noise = [&noise[..], &["--runs", "5", "--max-runs", "12"]].concat();
    assert_eq!(compare(&noise), (0, 12, false, true));
}

#[test]
fn without_conditions_the_number_of_pairs_depends_on_the_score() {
    let fifo = path("policies/fifo.bpf.c");
    let words = [
        &[
            "compare",
            "eevdf",
            &fifo,
            "--for",
            "20ms",
            "--runs",
            "2",
            "--max-runs",
            "5",
        ],
        &RANDOM_LOAD[..],
    ];
    let ran = windtunnel(&words.concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for part in [
        "5 pairs of runs; the confidence intervals are corrected for up to 3 evaluations",
        "--runs 2 --max-runs 5",
    ] {
        assert!(ran.stdout.contains(part), "no '{part}' in:\n{}", ran.stdout);
    }
    let ran = windtunnel(&["compare", "eevdf", "eevdf", "--runs", "10", "--max-runs", "5"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("--max-runs 5: the number is below --runs 10"),
        "{}",
        ran.stderr
    );
}

#[test]
fn worse_is_a_longer_time_or_a_lower_rate() {
    let (fifo, percpu) = (path("policies/fifo.bpf.c"), path("policies/percpu.bpf.c"));
    let status = |words: &[&str]| {
        let more = [
            "compare",
            "--for",
            "300ms",
            "--runs",
            "4",
            "--fail-if",
            "score worse 0.5%",
        ];
        windtunnel(&[&more[..], words].concat()).status
    };
    // The score of hackbench is a time, and fifo needs less time than percpu.
    let hackbench = ["-m", "smp4", "-w", "hackbench:groups=1,loops=30"];
    assert_eq!(status(&[&[&*fifo, &*percpu], &hackbench[..]].concat()), 1);
    assert_eq!(status(&[&[&*percpu, &*fifo], &hackbench[..]].concat()), 0);
    // The score of closed is a rate, and many switches make it lower.
    let closed = ["-m", "up", "-w", "closed:n=3,compute=2ms,think=1ms"];
    let closed = [&[&*fifo, &*fifo], &closed[..]].concat();
    assert_eq!(status(&[&closed[..], &["--set", "B:slice_ns=100000"]].concat()), 1);
    assert_eq!(status(&[&closed[..], &["--set", "A:slice_ns=100000"]].concat()), 0);
}
