// SPDX-License-Identifier: GPL-2.0-only
//! Tests of what each command reports about broken policies.
//!
//! A policy that the kernel refuses has no figures. A policy that ends early has figures up to its
//! end. A policy that loses tasks is never marked as the best. The policies of these tests are
//! variants of `broken/broken.bpf.c`.

use crate::support::{Ran, root, variant, windtunnel};
use serde_json::Value;
use std::io::{Read, Seek};

const SOURCE: &str = "crates/windtunnel/tests/broken/broken.bpf.c";
const LOAD: [&str; 6] = [
    "--machine",
    "core:4 pu:1",
    "--workload",
    "hackbench:groups=1",
    "--for",
    "2s",
];

fn broken(name: &str, defines: &[&str]) -> String {
    let path = variant(SOURCE, name, defines);
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// Runs the policy and eevdf under the workload of these tests.
fn run(object: &str, more: &[&str]) -> Ran {
    windtunnel(&[&["run", "eevdf", object], LOAD.as_slice(), more].concat())
}

fn json(command: &str, args: &[&str]) -> (i32, Value) {
    json_for("2s", command, args)
}

/// Runs a command for a simulated time. Returns its exit status and its JSON.
fn json_for(time: &str, command: &str, args: &[&str]) -> (i32, Value) {
    let ran = windtunnel(&[&[command], args, &LOAD[..4], &["--for", time]].concat());
    let value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr));
    (ran.status, value)
}

/// Returns the cells in a policy's row of a table.
fn row(table: &str, policy: &str) -> Vec<String> {
    let row = table.lines().find(|line| line.contains(&format!(" {policy} ")));
    let row = row.unwrap_or_else(|| panic!("no row of {policy}: {table}"));
    row.split(['|', '│', '┆'])
        .map(|cell| cell.trim().to_owned())
        .filter(|cell| !cell.is_empty())
        .collect()
}

/// Variants that the kernel refuses. Each has a name, macros, additional arguments for the command,
/// and a part of the reason for the refusal.
const REFUSED: &[(&str, &[&str], &[&str], &str)] = &[
    (
        "flags",
        &["FLAGS=(1ULL<<40)"],
        &[],
        "ops.flags has bits 0x10000000000 that Linux 7.2 does not know (-22)",
    ),
    (
        "newer",
        &["FLAGS=(1ULL<<6)"],
        &["--kernel", "6.12"],
        "that Linux 6.12 does not know (-22)",
    ),
    ("empty", &["NAME=\"\""], &[], "ops.name is empty (-22)"),
    ("unset", &["NAME=\"\\0\""], &[], "ops.name is empty (-22)"),
    (
        "space",
        &["NAME=\"a b\""],
        &[],
        "ops.name \"a b\" has characters other than letters, digits, '_' and '.'",
    ),
    (
        "late",
        &["TIMEOUT_MS=30001"],
        &[],
        "ops.timeout_ms 30001 is more than 30000 (-7)",
    ),
    (
        "batch",
        &["MAX_BATCH=0x80000001"],
        &[],
        "ops.dispatch_max_batch 2147483649 is too large (-7)",
    ),
    // If an object is refused, its tracing programs must not run either.
    ("tracing", &["TRACING", "FLAGS=(1ULL<<40)"], &[], "ops.flags has bits"),
    (
        "license",
        &["PROPRIETARY"],
        &[],
        "struct ops programs must have a GPL compatible license (-22)",
    ),
    (
        "strong",
        &["STRONG"],
        &[],
        "extern (func ksym) 'scx_bpf_no_such_kfunc': not found in kernel or module BTFs",
    ),
    (
        "seq",
        &["HOTPLUG_SEQ=77"],
        &[],
        "expected hotplug seq 77 did not match actual 0",
    ),
];

#[test]
fn refused_policies_have_no_figures() {
    for (name, defines, more, reason) in REFUSED {
        let object = broken(name, defines);
        let ran = run(&object, more);
        assert_eq!(ran.status, 1, "{name}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(reason), "{name}: {}", ran.stdout);
        let policy = format!("broken-{name}");
        let cells = row(&ran.stdout, &policy);
        assert!(cells[1..].iter().all(|cell| cell == "-"), "{name}: {cells:?}");
        assert!(ran.stdout.contains("refused"), "{name}: {}", ran.stdout);
        // The other policy has run. Only its results have a trace hash (a hash of the records of a
        // run).
        assert!(row(&ran.stdout, "eevdf")[1..].iter().any(|cell| cell != "-"));
        assert_eq!(ran.stdout.matches("trace hash").count(), 1, "{name}: {}", ran.stdout);
        let results: Value = {
            let ran = run(&object, &[more, ["--json", "-"].as_slice()].concat());
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {}", ran.stdout))
        };
        let result = results[1].as_object().expect("the result is a JSON object");
        assert_eq!(result["status"], "refused", "{name}");
        let figures = [
            "simulated_ns",
            "score",
            "wakeup_latency_ns",
            "context_switches",
            "trace_hash",
        ];
        assert!(
            figures.iter().all(|figure| !result.contains_key(*figure)),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn no_command_shows_figures_of_a_refused_policy() {
    let object = broken("flags", &["FLAGS=(1ULL<<40)"]);
    let reason = "ops.flags has bits";
    let (status, compared) = json("compare", &["eevdf", &object, "--runs", "2", "--json"]);
    assert_eq!(status, 1);
    assert!(
        compared["failures"]["b"][0]
            .as_str()
            .is_some_and(|text| text.contains(reason)),
        "{compared:#}"
    );
    assert!(
        compared["metrics"].as_array().is_some_and(Vec::is_empty),
        "{compared:#}"
    );
    let ran = windtunnel(&[&["compare", "eevdf", object.as_str(), "--runs", "2"], LOAD.as_slice()].concat());
    assert!(
        ran.stdout.contains("no verdict") && !ran.stdout.contains(" % "),
        "{}",
        ran.stdout
    );
    let ran = windtunnel(&[&["diff", "fifo", object.as_str()], LOAD.as_slice()].concat());
    assert_eq!(ran.status, 1);
    assert!(
        ran.stdout.contains(reason) && ran.stdout.contains("no decisions to compare"),
        "{}",
        ran.stdout
    );
    let (status, checked) = json("invariants", &[&object, "--json"]);
    assert_eq!((status, &checked[0]["status"]), (1, &Value::from("refused")));
    for invariant in checked[0]["invariants"].as_array().expect("the result has invariants") {
        assert_eq!(invariant["verdict"], "not known", "{checked:#}");
    }
    let ran = windtunnel(&[&["top", object.as_str()], LOAD.as_slice()].concat());
    assert_eq!(ran.status, 1);
    assert!(
        ran.stderr.contains(reason) && ran.stdout.is_empty(),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ran = windtunnel(&["check", &object]);
    assert!(ran.status != 0 && (ran.stdout + &ran.stderr).contains(reason));
    let page = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.html");
    let page = page.to_str().expect("the path is UTF-8");
    assert_eq!(run(&object, &["--html", page]).status, 1);
    let html = std::fs::read_to_string(page).expect("the page exists");
    assert!(
        html.contains("refused: ") || html.contains("refused"),
        "the page does not say that the policy was refused"
    );
}

#[test]
fn a_policy_that_ends_early_has_figures_up_to_its_end() {
    let object = broken("exits", &["EXIT_AFTER=100"]);
    let ran = run(&object, &[]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    let (_, results) = json("run", &[&object, "--json", "-"]);
    let result = &results[0];
    let at_ns = result["exit"]["at_ns"].as_u64().expect("the time is a number");
    assert_eq!(
        (&result["status"], result["simulated_ns"].as_u64()),
        (&Value::from("ejected"), Some(at_ns))
    );
    assert!(at_ns > 0 && at_ns < 1_000_000_000, "{at_ns}");
    let (status, on) = json("run", &[&object, "--json", "-", "--after-failure"]);
    assert!(status == 1 && on[0]["simulated_ns"].as_u64() > Some(at_ns), "{on:#}");
    let (status, compared) = json("compare", &["fifo", &object, "--runs", "2", "--json"]);
    assert_eq!(status, 1);
    assert!(
        compared["metrics"].as_array().is_some_and(Vec::is_empty),
        "{compared:#}"
    );
    let (status, checked) = json("invariants", &[&object, "--json", "--idle", "1s"]);
    let verdict = |index: usize| {
        let text = checked[0]["invariants"][index]["verdict"].as_str();
        text.expect("the verdict is a text").to_owned()
    };
    // The policy ended before a CPU could have idled for a second.
    assert_eq!((status, verdict(0)), (1, "not tested".to_owned()));
    assert!(verdict(2).starts_with("holds up to "), "{}", verdict(2));
}

#[test]
fn a_policy_whose_init_task_fails_ends_at_the_first_task() {
    let object = broken("no-task", &["NO_TASK"]);
    let ran = run(&object, &[]);
    assert_eq!(ran.status, 1);
    assert!(
        ran.stdout
            .contains("failed at 0 ns: runtime error: ops.init_task() failed (-12) for "),
        "{}",
        ran.stdout
    );
    let cells = row(&ran.stdout, "broken-no-task");
    assert!(cells[1..].iter().all(|cell| cell == "-"), "{cells:?}");
}

#[test]
fn a_policy_that_loses_tasks_is_never_the_best() {
    for (name, define) in [("drops", "DROP=16"), ("empty-dispatch", "EMPTY_DISPATCH")] {
        let object = broken(name, &[define]);
        let ran = run(&object, &[]);
        let policy = format!("broken-{name}");
        let cells = row(&ran.stdout, &policy);
        assert!(cells.iter().all(|cell| !cell.ends_with('*')), "{name}: {cells:?}");
        assert!(ran.stdout.contains("lost tasks: "), "{name}: {}", ran.stdout);
        assert!(ran.stdout.contains("windtunnel invariants "), "{name}: {}", ran.stdout);
        let (_, results) = json("run", &[&object, "--json", "-"]);
        let lost = &results[0]["lost_tasks"];
        let (count, longest) = (lost["count"].as_u64(), lost["longest_ns"].as_u64());
        assert!(count > Some(0) && longest > Some(500_000_000), "{name}: {lost:#}");
        let kept = lost["kept"].as_str().expect("the result names the queue");
        let expected = match name {
            "drops" => "held by the policy: its last ops.enqueue() inserted it into no DSQ",
            // Several tasks have waited equally long, and any of them may be named.
            _ => "on DSQ 0x0, ",
        };
        assert!(kept.starts_with(expected), "{name}: {kept}");
        // The wake-up latency of a lost task is at least the time that it has waited.
        let max = results[0]["wakeup_latency_ns"]["max"].as_u64();
        assert!(max >= longest.map(|ns| ns / 2), "{name}: {max:?}");
    }
    // In a run of 50 ms, no wait is long. The idle CPUs show that the tasks are lost.
    for (name, define) in [("drops", "DROP=16"), ("empty-dispatch", "EMPTY_DISPATCH")] {
        let object = broken(name, &[define]);
        let (status, results) = json_for("50ms", "run", &[&object, "--json", "-"]);
        let lost = &results[0]["lost_tasks"];
        assert!(status == 1 && lost["count"].as_u64() > Some(0), "{name}: {results:#}");
        let (_, checked) = json_for("50ms", "invariants", &[&object, "--json"]);
        assert_eq!(checked[0]["invariants"][1]["verdict"], "not tested", "{name}");
    }
    // If a policy keeps all its tasks, no line reports lost tasks.
    let ran = run(&broken("sound", &[]), &[]);
    assert!(ran.status == 0 && !ran.stdout.contains("lost"), "{}", ran.stdout);
    let (status, _) = json_for("5ms", "run", &["fifo", "--json", "-"]);
    assert_eq!(status, 0);
}

#[test]
fn policy_errors_name_the_source_line_and_valid_values() {
    let bad_dsq = run(&broken("dsq", &["QUEUE=7"]), &[]);
    for part in [
        "non-existent DSQ 0x7",
        "ops.enqueue()",
        "broken.bpf.c:",
        "the policy's only DSQ is 0x0",
    ] {
        assert!(bad_dsq.stdout.contains(part), "{part}: {}", bad_dsq.stdout);
    }
    let bad_cpu = run(&broken("cpu", &["BAD_CPU"]), &[]);
    for part in [
        "invalid CPU 4711 from ops.select_cpu()",
        "broken_select_cpu (",
        "broken.bpf.c:",
    ] {
        assert!(bad_cpu.stdout.contains(part), "{part}: {}", bad_cpu.stdout);
    }
    let stall = run(&broken("stall", &["DROP=16", "TIMEOUT_MS=500"]), &[]);
    for part in ["runnable task stall", "its last ops.enqueue() inserted it into no DSQ"] {
        assert!(stall.stdout.contains(part), "{part}: {}", stall.stdout);
    }
}

/// Returns what a reader sees if standard output and standard error of a run are one file.
fn printed(source: &str, variant_name: &str, defines: &[&str]) -> String {
    let object = variant(source, variant_name, defines);
    let mut file = tempfile::tempfile().expect("a temporary file can be created");
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_windtunnel"))
        .args(["run", &object.to_string_lossy(), "--for", "20ms"])
        .stdout(file.try_clone().expect("the file can be shared"))
        .stderr(file.try_clone().expect("the file can be shared"))
        .current_dir(root())
        .status()
        .expect("the command starts");
    assert_eq!(status.code(), Some(1));
    let mut text = String::new();
    file.rewind().expect("the file can be read again");
    file.read_to_string(&mut text).expect("the text is UTF-8");
    text
}

/// Returns a source line as it is named in messages: `FILE:LINE:`.
fn position(source: &str, comment: &str) -> String {
    let text = std::fs::read_to_string(root().join(source)).expect("the source can be read");
    let line = text.lines().position(|line| line.contains(comment));
    format!("{source}:{}:", line.expect("the source has this comment") + 1)
}

#[test]
fn an_error_of_an_insertion_is_printed_once_with_the_line_that_inserts() {
    let source = "crates/windtunnel/tests/policies/misplaced.bpf.c";
    for (name, defines, comment, near) in [
        ("late", &[][..], "/* the wrong DSQ */", ""),
        (
            "merged",
            &["MERGED"][..],
            "/* the last line before the call */",
            "near ",
        ),
    ] {
        let text = printed(source, name, defines);
        assert_eq!(text.matches("non-existent DSQ 0x7").count(), 1, "{text}");
        let position = format!("({near}{}/{}", root().display(), position(source, comment));
        assert_eq!(text.matches(&position).count(), 1, "no {position} in {text}");
    }
}

#[test]
fn the_location_of_a_fault_is_printed_once() {
    for source in [
        "crates/windtunnel/tests/policies/endless.bpf.c",
        "crates/windtunnel/tests/policies/wild.bpf.c",
    ] {
        let text = printed(source, "once", &[]);
        assert_eq!(text.matches(&format!("{source}:")).count(), 1, "{text}");
        assert_eq!(text.matches("runtime error: ops.").count(), 1, "{text}");
    }
}

#[test]
fn the_dump_is_printed_on_request() {
    let object = broken("dsq", &["QUEUE=7"]);
    let quiet = run(&object, &[]);
    assert!(
        !quiet.stderr.contains("CPU states") && quiet.stderr.contains("--dump"),
        "{}",
        quiet.stderr
    );
    assert!(run(&object, &["--dump"]).stderr.contains("CPU states"));
}

#[test]
fn a_policy_without_tasks_or_without_a_profile_causes_a_warning() {
    let partial = run(&broken("partial", &["FLAGS=SCX_OPS_SWITCH_PARTIAL"]), &[]);
    assert_eq!(partial.status, 0);
    assert!(
        partial
            .stderr
            .contains("scheduled no task: it sets SCX_OPS_SWITCH_PARTIAL"),
        "{}",
        partial.stderr
    );
    assert!(
        partial
            .stderr
            .contains("nr_cpu_ids = 1, but the machine has 4 CPUs; a profile can set it"),
        "{}",
        partial.stderr
    );
    let set = run(&broken("sound", &[]), &["--set", "nr_cpu_ids=4"]);
    assert!(!set.stderr.contains("profile"), "{}", set.stderr);
}

#[test]
fn a_profile_cannot_attach_a_missing_program() {
    let profile = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("attach.toml");
    std::fs::write(&profile, "attach = [\"no_such_program\"]\n").expect("the profile can be written");
    let ran = run(
        &broken("attach", &["TRACING"]),
        &["--profile", profile.to_str().expect("the path is UTF-8")],
    );
    assert_eq!(ran.status, 2);
    for part in ["no_such_program", "broken_sched_switch"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}
