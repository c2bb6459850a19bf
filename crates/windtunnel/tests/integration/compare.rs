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
            .contains("wild did not complete 2 of 2 runs (seed 1: failed at "),
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
    // A shorter slice increases the number of switches by 3 to 5 percent, which is less than the
    // noise of ten pairs of runs.
    let shorter = [
        "--set",
        "A:slice_ns=5000000",
        "--set",
        "B:slice_ns=2000000",
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

/// Returns the command line of an output that repeats it, without the program's name.
fn repeat(stdout: &str) -> &str {
    let command = stdout.lines().find_map(|line| line.strip_prefix("repeat: windtunnel "));
    command.unwrap_or_else(|| panic!("no command in:\n{stdout}"))
}

#[test]
fn a_page_has_the_command_that_repeats_the_comparison() {
    let folder = tempfile::tempdir().expect("a directory");
    let html = folder.path().join("page.html");
    let args = ["compare", "eevdf", "eevdf", "--for", "5ms", "--runs", "2"];
    let more = ["--max-runs", "4", "--fail-if", "switches > 5%"];
    let file = ["--html", html.to_str().expect("the path is UTF-8")];
    let ran = windtunnel(&[&args[..], &RANDOM_LOAD, &more, &file].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let command = repeat(&ran.stdout);
    assert!(
        command.ends_with(" --runs 2 --max-runs 4 --fail-if 'switches > 5%'"),
        "{command}"
    );
    let page = std::fs::read_to_string(&html).expect("the page was written");
    let escaped = command.replace('>', "&gt;");
    assert!(page.contains(command) || page.contains(&escaped), "{page}");
}

#[test]
fn a_comparison_on_several_machines_names_the_command_that_repeats_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let html = folder.path().join("page.html");
    let args = ["compare", "eevdf", "eevdf", "--for", "5ms", "--runs", "2"];
    let and = ["--and-machine", "smp2", "--and-workload", "closed:n=3"];
    let file = ["--html", html.to_str().expect("the path is UTF-8")];
    let ran = windtunnel(&[&args[..], &RANDOM_LOAD, &and, &file].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let command = repeat(&ran.stdout);
    let words: Vec<&str> = command.split(' ').collect();
    let again = windtunnel(&words);
    assert_eq!(again.stdout, ran.stdout, "{}", again.stderr);
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert!(page.contains(command), "{command}: {page}");
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

/// Two tasks that start together, work equally long and then resume each other.
const HANDOVER: &str = r#"{ "tasks": {
    "left":  { "loop": -1, "run": 3000, "resume": "right", "suspend": "left" },
    "right": { "loop": -1, "run": 3000, "resume": "left", "suspend": "right" }
  }, "global": { "duration": 1 } }"#;

#[test]
fn a_deadlock_is_not_compared_with_a_complete_run() {
    let folder = tempfile::tempdir().expect("the folder can be created");
    let file = folder.path().join("handover.json").display().to_string();
    std::fs::write(&file, HANDOVER).expect("the file can be written");
    let inputs = ["-m", "pack:1 core:2 pu:1", "-w", &file];
    let fixed = [&inputs[..], &["--phase", "fixed"]].concat();

    // Both tasks resume before either suspends.
    let ran = windtunnel(&[&["run", "eevdf", "--json", "-"], &fixed[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the text is valid JSON");
    assert_eq!(
        (ran.status, &json[0]["status"]),
        (1, &"deadlock".into()),
        "{}",
        ran.stderr
    );
    let waits = |index: usize| json[0]["deadlock"][index]["waits_for"].as_str().unwrap_or_default();
    assert!(waits(0).ends_with(" left") && waits(1).ends_with(" right"), "{json:#}");

    // Under fifo, they start one after the other.
    let conditions = ["--runs", "2", "--fail-if", "p50_wakeup > +1%"];
    let ran = windtunnel(&[&["compare", "fifo", "eevdf"], &fixed[..], &conditions].concat());
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    let expected = "eevdf did not complete 2 of 2 runs (seed 1: ended at 3.01 ms in a deadlock: left[1] waits for";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    assert!(ran.stdout.contains("no verdict on handover"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("fail if p50_wakeup > +1%: cannot be evaluated"),
        "{}",
        ran.stdout
    );

    // No real run starts both at the same instant, and a comparison does not by default either.
    let ran = windtunnel(&[&["compare", "fifo", "eevdf"], &inputs[..], &conditions].concat());
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    // With random phases, both policies finish, after the same time.
    let ran = windtunnel(&["compare", "fifo", "eevdf", "-m", "smp4", "-w", &file, "--runs", "3"]);
    let headline = "show the same score for fifo and eevdf on handover, but other figures differ\n- ";
    assert!(ran.status == 0 && ran.stdout.contains(headline), "{}", ran.stdout);
}

#[test]
fn seeds_of_a_workload_without_random_numbers_have_a_spread() {
    let folder = tempfile::tempdir().expect("the folder can be created");
    let file = folder.path().join("tasks.json").display().to_string();
    let text = r#"{ "tasks": {
        "even": { "instance": 3, "loop": -1, "run": 900, "sleep": 1100 },
        "odd": { "instance": 3, "loop": -1, "run": 1700, "sleep": 300 }
      }, "global": { "duration": 1 } }"#;
    std::fs::write(&file, text).expect("the file can be written");
    let inputs = ["-m", "pack:1 core:2 pu:1", "-w", &file, "--for", "200ms"];
    let intervals = |phase: &[&str]| {
        let words = [
            &["compare", "fifo", "eevdf", "--json", "--runs", "4"],
            &inputs[..],
            phase,
        ]
        .concat();
        let ran = windtunnel(&words);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the text is valid JSON");
        let metrics = json["metrics"].as_array().expect("a list of metrics").clone();
        let p99 = metrics.iter().find(|metric| metric["name"] == "p99_wakeup");
        let p99 = p99.expect("the runs have wake-ups").clone();
        (p99["change_percent_low"].as_f64(), p99["change_percent_high"].as_f64())
    };
    let (low, high) = intervals(&["--phase", "fixed"]);
    assert_eq!(low, high);
    let (low, high) = intervals(&[]);
    assert!(high > low.map(|low| low + 0.1), "{low:?} to {high:?}");

    // A run of a comparison can be repeated alone.
    let run = |seed: &str| {
        let words = [
            &["run", "fifo", "--phase", "random", "--seed", seed, "--json", "-"],
            &inputs[..],
        ]
        .concat();
        let ran = windtunnel(&words);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the text is valid JSON");
        json[0]["wakeup_latency_ns"]["p99"].as_f64().expect("a number")
    };
    let words = [&["compare", "fifo", "eevdf", "--json", "--runs", "2"], &inputs[..]].concat();
    let json: serde_json::Value = serde_json::from_str(&windtunnel(&words).stdout).expect("the text is valid JSON");
    let metrics = json["metrics"].as_array().expect("a list of metrics");
    let p99 = metrics.iter().find(|metric| metric["name"] == "p99_wakeup");
    let mean = p99.and_then(|metric| metric["a"]["mean"].as_f64()).expect("a number");
    assert_eq!(mean, (run("1") + run("2")) / 2.0);
}

#[test]
fn the_verdict_names_the_models_error_and_conditions_the_simulation() {
    let fifo = path("policies/fifo.bpf.c");
    let ran = windtunnel(
        &[
            &["compare", "eevdf", &fifo],
            &WORKLOAD[..],
            &["--fail-if", "switches < -5%"],
        ]
        .concat(),
    );
    for part in [
        "for such a change (hackbench on 4 CPUs; 90 % of errors below",
        "of pairs in the right order)",
        "fail if switches < -5%: holds in the simulation",
    ] {
        // The lines are wrapped.
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part), "no '{part}' in:\n{}", ran.stdout);
    }
    let json = windtunnel(&[&["compare", "eevdf", &fifo], &WORKLOAD[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("the output is JSON");
    assert_eq!(json["metrics"][0]["model_error"]["cpus"], 4);
    assert!(json["robust"].is_null() && json["validation"].is_null());
}

#[test]
fn a_robust_comparison_repeats_the_verdict_with_other_constants() {
    let fifo = path("policies/fifo.bpf.c");
    let options = ["-m", "smp2", "-w", "lat_ctx:rounds=200", "--runs", "2", "--robust"];
    let ran = windtunnel(&[&["compare", "eevdf", &fifo], &options[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for part in [
        "as in the machine",
        "x0.5",
        "x2",
        "the verdict ",
        "constants halved and doubled",
    ] {
        assert!(ran.stdout.contains(part), "no '{part}' in:\n{}", ran.stdout);
    }
    let json = windtunnel(&[&["compare", "eevdf", &fifo], &options[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("the output is JSON");
    let variants = json["robust"]["variants"].as_array().expect("there are variants");
    assert!(!variants.is_empty() && json["robust"]["stands"].is_boolean(), "{json}");
}

/// The parts of a difference add up to the completion times of both runs.
#[test]
fn a_difference_is_divided_into_parts_that_add_up() {
    let fifo = path("policies/fifo.bpf.c");
    let args = [&["compare", "eevdf", &fifo, "--why"], &WORKLOAD[..]].concat();
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("\nwhere the difference comes from, with seed 1:\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(" points  other parts: "), "{}", ran.stdout);
    let ran = windtunnel(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the output is JSON");
    for side in ["a_ns", "b_ns"] {
        let parts = json["why"]["parts"].as_array().expect("there are parts").iter();
        let sum: u64 = parts.map(|part| part[side].as_u64().expect("a number")).sum();
        assert_eq!(json["why"][side], sum);
    }
    let endless = [
        "compare",
        "eevdf",
        &fifo,
        "--why",
        "-m",
        "smp4",
        "-w",
        "mixed.json",
        "--for",
        "5ms",
        "--runs",
        "1",
    ];
    // Without a completion time, the parts are those of one operation.
    let ran = windtunnel(&endless);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("\nper operation, all tasks together need "),
        "{}",
        ran.stdout
    );
}
