// SPDX-License-Identifier: GPL-2.0-only
//! Tests that complete results are never lost. The tests use full disks, closed pipes, signals and
//! paths that cannot be written.

use crate::support::{object, root, windtunnel};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keeps").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the directory exists").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn fifo() -> String {
    object("policies/fifo.bpf.c").display().to_string()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel"));
    command.args(args).current_dir(root());
    // A shell lets its background jobs ignore SIGINT, and a command that they start ignores it too.
    // The signals therefore get their default effect again.
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

fn start(args: &[&str]) -> Child {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

fn send(child: &Child, signal: i32) {
    // SAFETY: the signal is sent to a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn wait_for(name: &str, until: impl Fn() -> bool) {
    let started = Instant::now();
    while !until() {
        assert!(started.elapsed() < Duration::from_secs(120), "no {name}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Arguments of a run that would take hours. The tests interrupt it.
const ENDLESS: [&str; 6] = [
    "--machine",
    "smp4",
    "--workload",
    "closed:n=8,compute=1ms,think=1ms",
    "--for",
    "36000s",
];

#[test]
fn a_path_that_cannot_be_written_fails_before_the_run() {
    let fifo = fifo();
    let folder = folder("unwritable");
    let below = folder.join("file/below");
    std::fs::write(folder.join("file"), "kept").expect("the file can be written");
    let below = below.display().to_string();
    for option in ["--json", "--trace", "--html", "--details", "--perfetto", "--ftrace"] {
        // The command must fail before the run, because the run would take hours.
        let ran = windtunnel(&[&["run", &fifo, option, &below][..], &ENDLESS].concat());
        assert_eq!(ran.status, 2, "{option}");
        assert!(
            ran.stderr.contains("file/below: Not a directory"),
            "{option}: {}",
            ran.stderr
        );
        assert_eq!(ran.stdout, "", "{option}");
    }
    let ran = windtunnel(&["machine", "calibrate", "-o", &below]);
    assert_eq!(
        (ran.status, ran.stderr.contains("measuring")),
        (2, false),
        "{}",
        ran.stderr
    );
    let ran = windtunnel(&["experiment", "run", "pmqs/table1", "--report", &below]);
    assert_eq!(
        (ran.status, ran.stderr.contains("Not a directory")),
        (2, true),
        "{}",
        ran.stderr
    );
    let same = folder.join("same").display().to_string();
    let ran = windtunnel(&[&["run", &fifo, "--json", &same, "--html", &same][..], &ENDLESS].concat());
    assert_eq!(
        (ran.status, ran.stderr.contains("two outputs have this path")),
        (2, true),
        "{}",
        ran.stderr
    );
    assert_eq!(names(&folder), ["file"]);
}

#[test]
fn a_full_output_does_not_lose_the_other_results() {
    let fifo = fifo();
    let folder = folder("full");
    let json = folder.join("out.json").display().to_string();
    let args = [
        "run",
        "eevdf",
        &fifo,
        "--machine",
        "smp4",
        "--for",
        "20ms",
        "--json",
        &json,
    ];
    for option in ["--trace", "--html", "--details", "--perfetto", "--ftrace"] {
        let ran = windtunnel(&[&args[..], &[option, "/dev/full"]].concat());
        assert_eq!(ran.status, 2, "{option}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("/dev/full: No space left on device"),
            "{option}: {}",
            ran.stderr
        );
        assert_eq!(ran.stdout.matches("trace hash").count(), 2, "{option}: {}", ran.stdout);
        let results = std::fs::read_to_string(&json).expect("the other output file exists");
        let results: Vec<serde_json::Value> = serde_json::from_str(&results).expect("the text is valid JSON");
        assert_eq!(results.len(), 2, "{option}");
        std::fs::remove_file(&json).expect("the file can be removed");
    }
    // If standard output is full, the command must not panic, and must still write the file.
    let full = || File::options().write(true).open("/dev/full").expect("/dev/full exists");
    let output = command(&args).stdout(full()).output().expect("the command starts");
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert_eq!(
        err,
        "windtunnel: standard output: No space left on device (os error 28)\n"
    );
    assert!(Path::new(&json).exists());
    // If standard error is full, the command must not panic either.
    for args in [
        &["run", "nosuch"][..],
        &["policy", "list"],
        &["--help"],
        &["run"],
        &["compare", "eevdf", "nosuch"],
    ] {
        let output = command(args)
            .stdout(full())
            .stderr(full())
            .output()
            .expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn every_command_handles_a_full_or_closed_output() {
    let fifo = fifo();
    let folder = folder("closed");
    let trace = folder.join("t.wtt").display().to_string();
    let load = ["-m", "smp4", "--for", "20ms"];
    windtunnel(&[&["run", &fifo, "--trace", &trace][..], &load].concat());
    let commands: [Vec<&str>; 11] = [
        [&["run", &fifo, "--draw", "--json", "-"][..], &load].concat(),
        [&["run", &fifo, "--trace", "-"][..], &load].concat(),
        [&["compare", "eevdf", &fifo, "--runs", "1"][..], &load].concat(),
        [&["diff", "eevdf", &fifo][..], &load].concat(),
        [&["invariants", &fifo][..], &load].concat(),
        [&["top", &fifo][..], &load].concat(),
        ["report", &trace, "--latency", "--timehist", "--schedstat"].into(),
        ["report", &trace, "--ftrace", "-"].into(),
        ["experiment", "list"].into(),
        ["machine", "show", "numa32"].into(),
        ["workload", "show", "hackbench"].into(),
    ];
    for args in commands {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full exists");
        let output = command(&args).stdout(full).output().expect("the command starts");
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(
            err.contains("standard output: No space left on device"),
            "{args:?}: {err}"
        );
        // If the reader has closed the pipe, the command ends like a program that SIGPIPE kills,
        // and prints nothing.
        let (reader, writer) = std::io::pipe().expect("a pipe can be created");
        drop(reader);
        let output = command(&args).stdout(writer).output().expect("the command starts");
        let (_, err) = text(&output);
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(
            (signal, err.contains("panicked")),
            (Some(libc::SIGPIPE), false),
            "{args:?}: {err}"
        );
        assert!(!err.contains("Broken pipe"), "{args:?}: {err}");
    }
}

#[test]
fn a_closed_pipe_does_not_lose_the_json_file() {
    let json = folder("pipe").join("out.json");
    let (reader, writer) = std::io::pipe().expect("a pipe can be created");
    drop(reader);
    let args = [
        "run",
        "eevdf",
        "--for",
        "20ms",
        "--json",
        json.to_str().expect("the path is UTF-8"),
    ];
    command(&args).stdout(writer).status().expect("the command starts");
    let results = std::fs::read_to_string(&json).expect("the file exists");
    assert!(serde_json::from_str::<Vec<serde_json::Value>>(&results).is_ok_and(|results| results.len() == 1));
}

#[test]
fn an_interrupted_run_keeps_the_results_of_finished_policies() {
    let fifo = fifo();
    for (signal, status) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let folder = folder(&format!("interrupted-{signal}"));
        let file = |name: &str| folder.join(name).display().to_string();
        let [json, trace, html, perfetto] = ["out.json", "out.wtt", "out.html", "out.perfetto"].map(file);
        let load = [
            "--machine",
            "smp4",
            "--workload",
            "hackbench:groups=2,loops=100000",
            "--for",
            "12s",
        ];
        let outputs = [
            "--json",
            &json,
            "--trace",
            &trace,
            "--html",
            &html,
            "--perfetto",
            &perfetto,
        ];
        let child = start(&[&["run", "eevdf", &fifo, "eevdf"][..], &load, &outputs].concat());
        let first = folder.join("out.eevdf.wtt");
        wait_for("second run", || {
            first.exists() && names(&folder).iter().any(|name| name.starts_with(".out.fifo"))
        });
        send(&child, signal);
        let output = child.wait_with_output().expect("the command can be waited for");
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(status), "{out}{err}");
        assert!(out.contains("| interrupted "), "{out}");
        assert!(
            out.contains("interrupted: fifo ended at ") && out.contains("; not run: eevdf-2\n"),
            "{out}"
        );
        assert_eq!(out.matches("trace hash").count(), 1, "{out}");
        assert!(!out.contains('*'), "a single result is marked as the best: {out}");
        let results = std::fs::read_to_string(&json).expect("the results were written");
        let results: Vec<report::RunResult> = serde_json::from_str(&results).expect("the text is valid JSON");
        assert_eq!(
            (results.len(), results[0].policy.as_str(), results[0].interrupted),
            (1, "eevdf", false)
        );
        // Only complete files may remain, and no temporary file.
        assert_eq!(
            names(&folder),
            ["out.eevdf.perfetto", "out.eevdf.wtt", "out.html", "out.json"]
        );
        let report = windtunnel(&["report", first.to_str().expect("the path is UTF-8")]);
        assert_eq!(report.status, 0, "{}", report.stderr);
    }
}

#[test]
fn a_second_signal_ends_the_command_at_once_without_leftover_files() {
    let folder = folder("twice");
    let trace = folder.join("out.wtt");
    let args = [
        &["run", "eevdf", "--trace", trace.to_str().expect("the path is UTF-8")][..],
        &ENDLESS,
    ]
    .concat();
    let child = start(&args);
    wait_for("temporary file", || !names(&folder).is_empty());
    // The command receives both signals before it checks for the first one.
    send(&child, libc::SIGTERM);
    send(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("the command can be waited for");
    let status = output.status.code();
    assert!(
        status == Some(130) || status == Some(143),
        "{status:?}: {:?}",
        text(&output)
    );
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let folder = folder("ignored");
    let trace = folder.join("out.wtt");
    let args = [
        "run",
        "eevdf",
        "--machine",
        "smp4",
        "--for",
        "300ms",
        "--trace",
        trace.to_str().expect("the path is UTF-8"),
    ];
    let line = format!(
        "trap '' INT; exec {} {}",
        env!("CARGO_BIN_EXE_windtunnel"),
        args.join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(root()).stdout(Stdio::null());
    let mut child = shell.spawn().expect("the shell starts");
    wait_for("temporary file", || !names(&folder).is_empty());
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().expect("the command can be waited for").code(), Some(0));
    assert_eq!(names(&folder), ["out.wtt"]);
}

#[test]
fn an_interrupted_comparison_reports_the_finished_pairs() {
    let fifo = fifo();
    let load = [
        "--machine",
        "smp4",
        "--workload",
        "closed:n=8,compute=1ms,think=1ms",
        "--for",
        "50ms",
    ];
    let args = [&["compare", "eevdf", &fifo, "--runs", "100000"][..], &load].concat();
    let child = start(&args);
    std::thread::sleep(Duration::from_secs(4));
    send(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("the command can be waited for");
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains(" of 100000 pairs of runs are complete"), "{out}{err}");
    assert!(
        out.contains("| p99_wakeup") && out.contains("pairs of runs show") || out.contains("fifo is"),
        "{out}"
    );
}

#[test]
fn other_commands_report_how_far_they_came() {
    let fifo = fifo();
    let interrupted = |args: &[&str]| {
        let child = start(args);
        std::thread::sleep(Duration::from_secs(2));
        send(&child, libc::SIGINT);
        let output = child.wait_with_output().expect("the command can be waited for");
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(130), "{args:?}: {out}{err}");
        (out, err)
    };
    let (out, err) = interrupted(&[&["invariants", &fifo, "eevdf"][..], &ENDLESS].concat());
    assert!(
        out.contains("work conservation") && out.contains("interrupted at "),
        "{out}"
    );
    assert!(err.contains("eevdf: not run (interrupted)"), "{err}");
    let (out, _) = interrupted(&[&["diff", &fifo, &fifo][..], &ENDLESS].concat());
    assert!(
        out.contains("make the same decisions:") && out.contains("(interrupted there)"),
        "{out}"
    );
    let (out, err) = interrupted(&[&["top", &fifo][..], &ENDLESS].concat());
    assert!(out.lines().count() > 2 && err.contains("interrupted at "), "{out}{err}");
    let (out, _) = interrupted(&["experiment", "run", "pmqs/table1", "pmqs/table2", "--seeds", "300"]);
    assert!(
        out.contains("pmqs/table1: interrupted after ") && out.contains(" runs\n"),
        "{out}"
    );
}

#[test]
fn lines_are_printed_before_the_reader_closes_the_pipe() {
    let mut child = start(&[&["top", "eevdf"][..], &ENDLESS].concat());
    let mut lines = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut first = String::new();
    lines.read_line(&mut first).expect("a line can be read");
    drop(lines);
    let mut err = String::new();
    child
        .stderr
        .take()
        .expect("the output is a pipe")
        .read_to_string(&mut err)
        .expect("the text is UTF-8");
    let status = child.wait().expect("the command can be waited for");
    assert!(first.contains("busiest"), "{first}");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGPIPE),
        "{err}"
    );
}
