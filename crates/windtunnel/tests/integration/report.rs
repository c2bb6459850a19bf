// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel report` on trace files of simulated runs and on recordings of real
//! machines.

use crate::support::{object, windtunnel};
use std::path::{Path, PathBuf};

/// Returns the path of a file that a test writes.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a policy on a machine with two nodes and writes a trace. Returns the path of the trace and
/// the output of the run.
fn traced(policy: &str, name: &str) -> (String, String) {
    let path = file(name).display().to_string();
    let policy = match policy {
        "eevdf" => policy.to_owned(),
        _ => object(&format!("policies/{policy}.bpf.c")).display().to_string(),
    };
    let args = [
        "run",
        &policy,
        "-m",
        "numa16",
        "-w",
        "mixed.json",
        "--for",
        "60ms",
        "--trace",
        &path,
    ];
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    (path, ran.stdout)
}

/// Returns the output of `windtunnel report`.
fn report(args: &[&str]) -> String {
    let ran = windtunnel(&[&["report"], args].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout
}

#[test]
fn a_report_prints_the_table_that_the_run_printed() {
    let (path, printed) = traced("percpu", "table.wtt");
    let (table, _) = printed
        .split_once("repeat:")
        .expect("the output contains the command that repeats the run");
    assert_eq!(report(&[&path]), table);
}

#[test]
fn recordings_of_real_machines_can_be_reported() {
    let recording = "crates/windtunnel/tests/recordings/perf.txt";
    let text = report(&[recording]);
    assert!(text.contains("machine recorded (2 CPUs), workload perf.txt"), "{text}");
    let text = report(&[recording, "--machine", "smp4"]);
    assert!(text.contains("machine smp4 (4 CPUs)"), "{text}");
}

#[test]
fn events_of_recordings_are_counted() {
    let recording = "crates/windtunnel/tests/recordings/perf.txt";
    let text = report(&[recording, "--events"]);
    let source = include_str!("../recordings/perf.txt");
    let switches = source.matches("sched_switch: ").count();
    assert!(text.contains(&format!("sched_switch {switches}\n")), "{text}");
    assert!(text.ends_with("\nlost 0\n"), "{text}");
    let (trace, _) = traced("eevdf", "events.wtt");
    let ran = windtunnel(&["report", "--events", &trace]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("--events is for recordings"), "{}", ran.stderr);
    // Without wake-ups, a recording has no latencies and cannot be replayed.
    let silent = file("silent.txt").display().to_string();
    let lines: Vec<&str> = source.lines().filter(|line| !line.contains("sched_wak")).collect();
    std::fs::write(&silent, lines.join("\n")).expect("the file can be written");
    let ran = windtunnel(&["report", &silent]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("the recording has no wake-ups"), "{}", ran.stderr);
    let ran = windtunnel(&["run", "eevdf", "-w", &silent]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("no wake-ups: sched_waking"), "{}", ran.stderr);
}

#[test]
fn invalid_traces_are_refused() {
    let cut = file("cut.wtt");
    let (path, _) = traced("eevdf", "whole.wtt");
    let bytes = std::fs::read(path).expect("the trace exists");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("the file can be written");
    let cut = cut.display().to_string();
    let perf = file("perf.data").display().to_string();
    std::fs::write(&perf, b"PERFILE2\x68\0\0\0\0\0\0\0").expect("the file can be written");
    for (args, part) in [
        (["report", "Cargo.toml"].as_slice(), "expected an event"),
        (&["report", "nosuch.wtt"], "No such file"),
        (&["report", &cut], "if the run was interrupted"),
        (
            &["report", &perf],
            "this recording in the format perf.data is damaged: it ends ",
        ),
        (
            &["run", "eevdf", "-w", &perf],
            "this recording in the format perf.data is damaged: it ends ",
        ),
        (&["report", "docs"], "this directory contains no CTF trace"),
        (
            &["report", "-m", "up", "crates/windtunnel/tests/recordings/perf.txt"],
            "machine 'up' has only 1 CPUs",
        ),
    ] {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 2, "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(part), "{args:?}: no '{part}' in: {}", ran.stderr);
    }
}

#[test]
fn a_run_and_a_report_export_the_same_files() {
    let names = ["out.pftrace", "out.txt"];
    let run_files = names.map(|name| file(&format!("run-{name}")).display().to_string());
    let report_files = names.map(|name| file(&format!("report-{name}")).display().to_string());
    let trace = file("exports.wtt").display().to_string();
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let args = [
        "run",
        &fifo,
        "-m",
        "smp4",
        "-w",
        "hackbench:groups=1,loops=3",
        "--seed",
        "7",
    ];
    let plain = windtunnel(&args);
    let exports = ["--perfetto", &run_files[0], "--ftrace", &run_files[1]];
    let ran = windtunnel(&[&args[..], &exports].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, plain.stdout, "exporting changes the result");
    assert_eq!(
        windtunnel(&[&args[..], &["--trace", &trace]].concat()).stdout,
        plain.stdout
    );
    report(&[&trace, "--perfetto", &report_files[0], "--ftrace", &report_files[1]]);
    for (run, report) in run_files.iter().zip(&report_files) {
        let (run, report) = (
            std::fs::read(run).expect("the file exists"),
            std::fs::read(report).expect("the file exists"),
        );
        assert!(run.len() > 10_000);
        assert!(run == report, "the files of the run and the report differ");
    }
    // The ftrace text is also a recording. A report on it must have the same number of switches.
    let switches = |table: &str| {
        let row = table
            .lines()
            .find(|line| line.starts_with("| fifo") || line.starts_with("| recorded"));
        row.and_then(|row| row.split('|').nth(5).map(str::trim).map(str::to_owned))
    };
    let text = report(&[&run_files[1]]);
    assert!(switches(&text).is_some());
    assert_eq!(switches(&text), switches(&report(&[&trace])));
    // The names of tracks and slices are contained in the file as text.
    let perfetto = std::fs::read(&run_files[0]).expect("the file exists");
    for name in ["enqueue", "dispatch", "wait: rq", "local "] {
        let is_there = perfetto.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(is_there, "no '{name}' in the trace");
    }
    let gone = windtunnel(&["report", &trace, "--chrome", "out.json"]);
    assert_eq!((gone.status, gone.stdout.as_str()), (2, ""));
    assert!(
        gone.stderr.contains("--chrome was removed: use --perfetto"),
        "{}",
        gone.stderr
    );
}

#[test]
fn the_tables_of_perf_and_the_kernel_agree() {
    let (path, _) = traced("vtime", "tables.wtt");
    let latency = report(&[&path, "--latency"]);
    assert!(
        latency.contains("  TOTAL:  ") && latency.contains("  Task      "),
        "{latency}"
    );
    let timehist = report(&[&path, "--timehist"]);
    assert!(timehist.starts_with("           time    cpu  task name"), "{timehist}");
    let schedstat = report(&[&path, "--schedstat"]);
    assert_eq!(schedstat.lines().filter(|line| line.starts_with("cpu")).count(), 16);
    // latency and schedstat must have the same total CPU time. schedstat counts how often a task
    // got a CPU. timehist must have a row for each of these times, except for those that had not
    // ended, which are at most one per CPU.
    let total = latency
        .lines()
        .find_map(|line| line.strip_prefix("  TOTAL:"))
        .expect("the table has a total");
    let total: f64 = total
        .split_whitespace()
        .nth(1)
        .and_then(|ms| ms.parse().ok())
        .expect("the total is a number of ms");
    let field = |line: &str, n: usize| line.split(' ').nth(n).and_then(|field| field.parse::<u64>().ok());
    let ran: u64 = schedstat
        .lines()
        .filter(|line| line.starts_with("cpu"))
        .filter_map(|line| field(line, 7))
        .sum();
    assert!(
        (ran as f64 / 1e6 - total).abs() < 0.5,
        "CPU time: {ran} ns and {total} ms"
    );
    let slices: u64 = schedstat
        .lines()
        .filter(|line| line.starts_with("cpu"))
        .filter_map(|line| field(line, 9))
        .sum();
    let rows = timehist.lines().count() as u64 - 3;
    assert!((rows..=rows + 16).contains(&slices), "{slices} slices, {rows} rows");
    let latencies = report(&[&path, &path, "--latency"]);
    assert_eq!(
        latencies.matches("vtime on numa16 under mixed").count(),
        2,
        "{latencies}"
    );
}

/// Tests that the detail records of a trace do not contradict each other. Detail records describe
/// what happens inside one scheduling decision, such as callbacks and lock waits.
#[test]
fn detail_records_do_not_contradict_each_other() {
    use std::collections::{BTreeMap, BTreeSet};
    use trace::Event;
    let (path, _) = traced("steal", "details.wtt");
    let reader =
        trace::Reader::new(std::fs::File::open(path).expect("the trace exists")).expect("the trace has a valid header");
    let (mut lengths, mut named, mut busy) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let (mut callbacks, mut waits) = (0, 0);
    for record in reader.map(|record| record.expect("no record is damaged")) {
        match record.event {
            Event::DsqLength { dsq, nr } => {
                let before: u32 = lengths.insert(dsq, nr).unwrap_or(0);
                assert_eq!(before.abs_diff(nr), 1, "{} of {}", nr, trace::dsq_name(dsq));
            }
            Event::LockName { lock, .. } => assert!(named.insert(lock), "lock {lock} is named twice"),
            Event::LockWait { lock, ns, .. } => {
                assert!(named.contains(&lock) && ns > 0, "lock {lock} has no name or no wait");
                waits += 1;
            }
            // The callbacks of a CPU are recorded in the order in which they end.
            Event::Callback { after, ns, insns, .. } => {
                let end = record.time + u64::from(after) + u64::from(ns);
                let before = busy.insert(record.cpu, end).unwrap_or(0);
                assert!(
                    end >= before,
                    "CPU {}: a callback ends at {end}, before the previous one at {before}",
                    record.cpu
                );
                assert!(ns > 0 && insns > 0);
                callbacks += 1;
            }
            _ => {}
        }
    }
    assert!(
        callbacks > 500 && waits > 5 && lengths.len() > 16,
        "{callbacks} {waits} {}",
        lengths.len()
    );
}

#[test]
fn a_report_writes_the_json_that_the_run_wrote() {
    let (path, _) = traced("percpu", "json.wtt");
    let run = [
        "run",
        "percpu",
        "-m",
        "numa16",
        "-w",
        "mixed.json",
        "--for",
        "60ms",
        "--json",
        "-",
    ];
    let ran = windtunnel(&run);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let parsed = |text: &str| -> serde_json::Value { serde_json::from_str(text).expect("valid JSON") };
    let (mut from_run, mut from_report) = (parsed(&ran.stdout), parsed(&report(&[&path, "--json", "-"])));
    for json in [&mut from_run, &mut from_report] {
        // The time on this host differs between two runs.
        json[0].as_object_mut().expect("an object").remove("wall_ns");
    }
    assert!(from_run == from_report, "{from_run}\n{from_report}");
    let text = report(&["crates/windtunnel/tests/recordings/perf.txt", "--json", "-"]);
    assert_eq!(parsed(&text)[0]["policy"], "recorded");
}

/// Two tasks are always runnable, and one of them gets nine tenths of the CPU. Nobody knows whether
/// this is unfair: the recording does not contain their weights.
#[test]
fn a_recording_is_not_called_unfair() {
    let mut text = String::new();
    for round in 0..20 {
        let at = 1.0 + f64::from(round) * 0.01;
        let switch = |at: f64, prev: &str, next: &str| {
            let (from, to) = (
                format!("prev_comm={prev} prev_pid={}", prev.len()),
                format!("next_comm={next} next_pid={}", next.len()),
            );
            format!(
                "{prev} {} [000] {at:.6}: sched:sched_switch: {from} prev_prio=120 prev_state=R ==> {to} next_prio=120\n",
                prev.len()
            )
        };
        text += &switch(at, "rarely", "always on");
        text += &switch(at + 0.009, "always on", "rarely");
    }
    let (recording, page) = (file("shares.txt"), file("shares.html"));
    std::fs::write(&recording, text).expect("the file can be written");
    report(&[&recording.display().to_string(), "-o", &page.display().to_string()]);
    let html = std::fs::read_to_string(&page).expect("the page exists");
    assert!(html.contains("Jain"), "the page shows no shares");
    assert!(!html.contains("unfair"), "a recording is called unfair");
}
