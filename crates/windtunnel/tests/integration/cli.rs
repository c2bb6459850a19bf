// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command's output, error messages and exit status.

use crate::support::{Ran, object, results, windtunnel};

fn path(source: &str) -> String {
    object(source).display().to_string()
}

#[test]
fn a_run_prints_a_table_hashes_and_the_command_that_repeats_it() {
    let (fifo, vtime) = (path("policies/fifo.bpf.c"), path("policies/vtime.bpf.c"));
    let ran = windtunnel(&[
        "run",
        "eevdf",
        &fifo,
        &vtime,
        "--workload",
        "mixed.json",
        "--for",
        "100ms",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for word in [
        "eevdf",
        "fifo",
        "vtime",
        "throughput",
        "p99",
        "switches",
        "migra-",
        "busy",
        "overhead",
    ] {
        assert!(
            ran.stdout.to_lowercase().contains(word),
            "no '{word}' in:\n{}",
            ran.stdout
        );
    }
    assert_eq!(ran.stdout.matches("trace hash").count(), 3);
    let repeat = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("repeat: windtunnel "))
        .expect("the output contains a command");
    let again = windtunnel(&repeat.split(' ').collect::<Vec<_>>());
    let hashes = |out: &str| {
        out.lines()
            .filter(|l| l.contains("trace hash"))
            .map(String::from)
            .collect::<Vec<_>>()
    };
    assert_eq!(hashes(&again.stdout), hashes(&ran.stdout));
}

#[test]
fn background_work_is_switched_on_by_option_or_machine_file() {
    let fifo = path("policies/fifo.bpf.c");
    let run = |machine: &str, noise: &[&str]| {
        let inputs = [
            &fifo,
            "--machine",
            machine,
            "--workload",
            "closed:n=3",
            "--for",
            "200ms",
        ];
        results(&[&inputs, noise].concat()).remove(0)
    };
    let (none, off) = (run("smp4", &[]), run("smp4", &["--noise", "off"]));
    assert_eq!(none["trace_hash"], off["trace_hash"]);
    assert!(off.get("noise").is_none());
    let server = run("smp4", &["--noise", "server"]);
    assert_ne!(server["trace_hash"], none["trace_hash"]);
    // There are 3 kernel threads for each of the 4 CPUs, 1 for each of the 4 LLCs, and 2 for the
    // machine.
    assert_eq!(
        (&server["tasks_total"], &server["noise"]["tasks"]),
        (&3.into(), &18.into())
    );
    assert!(server["noise"]["cpu_ns"].as_u64() > Some(0));

    let own = std::fs::read_to_string("../../machines/smp4.toml").expect("the file exists");
    let file = std::env::temp_dir().join(format!("smp4-{}.toml", std::process::id()));
    std::fs::write(&file, format!("noise = \"server\"\n{own}")).expect("the file can be written");
    let machine = file.display().to_string();
    assert_eq!(run(&machine, &[])["trace_hash"], server["trace_hash"]);
    assert_eq!(run(&machine, &["--noise", "off"])["trace_hash"], none["trace_hash"]);
    std::fs::remove_file(&file).expect("the file can be removed");

    let inputs = [
        "run",
        &fifo,
        "--machine",
        "smp4",
        "--workload",
        "closed:n=3",
        "--noise",
        "quiet",
    ];
    let shown = windtunnel(&inputs);
    assert!(shown.stdout.contains(" --noise quiet\n"), "{}", shown.stdout);
    let wrong = windtunnel(&["run", &fifo, "--noise", "loud"]);
    assert_eq!(wrong.status, 2);
    assert!(
        wrong.stderr.contains("[possible values: off, quiet, server, desktop]"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn json_has_the_promised_fields() {
    let fifo = path("policies/fifo.bpf.c");
    let found = results(&[&fifo, "--workload", "hackbench:groups=1,loops=5", "--machine", "smp4"]);
    let one = found[0].as_object().expect("the result is a JSON object");
    for field in [
        "policy",
        "machine",
        "workload",
        "seed",
        "simulated_ns",
        "wall_ns",
        "context_switches",
        "migrations",
        "wakeup_latency_ns",
        "busy_percent",
        "overhead_percent",
        "idle_while_waiting_ns",
        "trace_hash",
        "exit",
    ] {
        assert!(one.contains_key(field), "no {field}");
    }
    for field in ["p50", "p99", "p999", "max"] {
        assert!(
            one["wakeup_latency_ns"].get(field).is_some(),
            "no wakeup_latency_ns.{field}"
        );
    }
    assert!(one["exit"].is_null());
    assert!(one["context_switches"].as_u64() > Some(100));
    assert_eq!(one["throughput"]["operations"].as_u64(), Some(20 * 20 * 5));
}

#[test]
fn a_memory_fault_is_reported_with_callback_and_source_line() {
    let wild = path("crates/windtunnel/tests/policies/wild.bpf.c");
    for engine in ["jit", "interpreter"] {
        let ran = windtunnel(&[
            "run",
            &wild,
            "--machine",
            "up",
            "--workload",
            "closed:n=2",
            "--for",
            "1s",
            "--engine",
            engine,
        ]);
        assert_eq!(ran.status, 1, "{engine}: {}", ran.stderr);
        for part in ["enqueue", "wild.bpf.c:9"] {
            assert!(ran.stderr.contains(part), "{engine}: no '{part}' in: {}", ran.stderr);
        }
    }
}

#[test]
fn the_watchdog_ends_a_policy_that_loses_tasks_and_the_tasks_run_on() {
    let stall = path("crates/windtunnel/tests/policies/stall.bpf.c");
    let found = results(&[
        &stall,
        "--machine",
        "smp4",
        "--workload",
        "closed:n=8,compute=10ms",
        "--for",
        "5s",
    ]);
    let exit = &found[0]["exit"];
    assert_eq!(exit["kind"], "SCX_EXIT_ERROR_STALL", "{exit}");
    assert!(
        exit["message"]
            .as_str()
            .is_some_and(|m| m.contains("failed to run for")),
        "{exit}"
    );
    assert!(
        found[0]["busy_percent"].as_f64() > Some(25.0),
        "tasks do not run in the fair class after the exit"
    );
}

#[test]
fn an_endless_policy_is_ended_by_the_instruction_budget() {
    let endless = path("crates/windtunnel/tests/policies/endless.bpf.c");
    let load = "closed:n=1,compute=1ms,think=1ms";
    let ran = windtunnel(&["run", &endless, "--machine", "up", "--workload", load, "--for", "1s"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("dispatch") && ran.stderr.contains("endless.bpf.c"),
        "{}",
        ran.stderr
    );
}

#[test]
fn user_errors_name_the_input_and_a_next_step() {
    let fifo = path("policies/fifo.bpf.c");
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "nosuch"], &["no policy 'nosuch'", "hint"]),
        (&["run", "policies/fifo.bpf.c"], &["source", "clang-19"]),
        (&["run", "Cargo.toml"], &["Cargo.toml"]),
        (&["run", &fifo, "--machine", "smp9"], &["smp9", "smp1"]),
        (&["run", &fifo, "--workload", "nosuch.json"], &["nosuch.json"]),
        (&["run", &fifo, "--workload", "hackbnch"], &["hackbench"]),
        (&["run", &fifo, "--workload", "closed:n=0"], &["n"]),
        (&["run", &fifo, "--set", "nosuch=1"], &["nosuch", "slice_ns"]),
        (&["run", &fifo, "--set", "slice_ns=-1"], &["slice_ns", "-1"]),
        (
            &["run", &fifo, "--set", "slice_ns=5"],
            &["slice_ns", "100000 to 1000000000 ns"],
        ),
        (&["run", &fifo, "--set", "slice_ns"], &["NAME=VALUE"]),
        (&["run", "eevdf", "--set", "slice_ns=1"], &["eevdf"]),
        (&["run", &fifo, "--for", "1parsec"], &["parsec"]),
        (
            &["run", &fifo, "--hotplug", "99:off@1ms", "--machine", "up"],
            &["CPU 99"],
        ),
        (&["run"], &["POLICIES"]),
        (&["run", "eevfd"], &["no policy 'eevfd'", "did you mean eevdf?"]),
        (
            &["experiment", "show", "pmqs/tabel1"],
            &["did you mean pmqs/table1?", "experiment list"],
        ),
        (&["experiment", "run", "pqms"], &["did you mean pmqs?"]),
        (&["run", &fifo, "--for", "0"], &["'0' is zero", "250ms"]),
        (
            &["run", &fifo, "--seed", "-1"],
            &["'--seed' does not accept the negative number '-1'"],
        ),
        (
            &["run", &fifo, "--for", "-5ms"],
            &["'--for' does not accept the negative number '-5ms'"],
        ),
        (
            &["run", &fifo, "--for", "10ms", "--draw", "20ms-30ms"],
            &[
                "--draw 20ms-30ms: the window starts after the end of the run at 10ms",
                "extend the run with --for",
            ],
        ),
    ];
    for (args, parts) in cases {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 2, "{args:?}: {}{}", ran.stdout, ran.stderr);
        for part in *parts {
            assert!(ran.stderr.contains(part), "{args:?}: no '{part}' in: {}", ran.stderr);
        }
    }
}

#[test]
fn hints_in_error_messages_lead_to_valid_commands() {
    for args in [["run", "eevdf", "--seed", "-1"], ["run", "eevdf", "-x", "-y"]] {
        let ran = windtunnel(&args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(!ran.stderr.contains("-- -"), "{}", ran.stderr);
    }
    let near = windtunnel(&["run", "eevdf", "--sed", "1"]);
    assert!(
        near.stderr.contains("a similar argument exists: '--seed'"),
        "{}",
        near.stderr
    );
    let none = windtunnel(&["run", "nothinglikeit"]);
    assert!(!none.stderr.contains("make policies"), "{}", none.stderr);
}

#[test]
fn a_drawing_ends_with_the_run() {
    let window = |window: &str| {
        let args = [
            "run",
            "eevdf",
            "-m",
            "up",
            "-w",
            "closed:n=2",
            "--for",
            "10ms",
            "--draw",
            window,
        ];
        let ran = windtunnel(&args);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(window("5ms-30ms"), window("5ms-10ms"));
    // The length of this run is not known before its last task has exited.
    let load = "hackbench:groups=1,fds=2,loops=2";
    let ran = windtunnel(&["run", "eevdf", "-m", "up", "-w", load, "--draw", "20s-30s"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("nothing to draw: the window starts at 20s, but the run ended at "),
        "{}",
        ran.stdout
    );
}

#[test]
fn list_and_show_print_the_catalogues() {
    for (args, part) in [
        (&["policy", "list"][..], "eevdf"),
        (&["policy", "show", &path("policies/percpu.bpf.c")], "scan"),
        (&["machine", "list"], "numa16"),
        (&["machine", "show", "x6-2"], "context_switch"),
        (&["workload", "list"], "hackbench"),
        (&["workload", "show", "hackbench"], "groups"),
        (&["workload", "show", "mixed.json"], "tasks"),
    ] {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 0, "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.contains(part), "{args:?}: no '{part}' in: {}", ran.stdout);
    }
}

#[test]
fn a_kfunc_missing_in_the_chosen_release_is_reported() {
    let args = |kernel: &'static str| {
        let fixed = [
            "run",
            "fifo",
            "--machine",
            "core:2 pu:1",
            "--workload",
            "closed:n=3,compute=1ms",
        ];
        let more = ["--for", "20ms", "--json", "-", "--kernel", kernel];
        fixed.into_iter().chain(more).collect::<Vec<_>>()
    };
    // The policy fifo uses functions that exist only in later releases of Linux.
    let old = windtunnel(&args("6.18"));
    assert_eq!(old.status, 1);
    let err = &old.stderr;
    assert!(
        err.contains("scx_bpf_dsq_move_to_local___v2 is not in Linux 6.18: it exists since Linux 7.1"),
        "{err}"
    );
    assert!(old.stdout.contains("\"kernel\": \"6.18\""));
    let new = windtunnel(&args("7.2"));
    assert_eq!(new.status, 0, "{}", new.stderr);
    assert!(!new.stdout.contains("\"kernel\""));
    let table = windtunnel(&["run", "eevdf", "--for", "1ms", "--kernel", "6.12"]);
    let table = table.stdout;
    assert!(
        table.contains("repeat: windtunnel run eevdf") && table.contains("--kernel 6.12"),
        "{table}"
    );
    let wrong = windtunnel(&args("6.11"));
    assert_eq!(wrong.status, 2);
    assert!(
        wrong
            .stderr
            .contains("Linux 6.11 is not supported: choose one of 6.12, 6.13")
    );
}

#[test]
fn a_parameter_changes_the_run() {
    let fifo = path("policies/fifo.bpf.c");
    let switches = |set: &str| {
        let args = [
            &fifo,
            "--machine",
            "up",
            "--workload",
            "closed:n=4,compute=1s",
            "--for",
            "1s",
            "--set",
            set,
        ];
        results(&args)[0]["context_switches"]
            .as_u64()
            .expect("the value is a number")
    };
    let (short, long) = (switches("slice_ns=1000000"), switches("slice_ns=100000000"));
    assert!(
        short > 20 * long,
        "{short} switches with a short slice, {long} with a long slice"
    );
}

#[test]
fn a_trace_records_hotplug_and_the_reload_of_a_policy() {
    let fifo = path("policies/percpu.bpf.c");
    let trace = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hotplug.wtt");
    let to = trace.display().to_string();
    let args = [
        &fifo,
        "--machine",
        "smp4",
        "--workload",
        "closed:n=8,compute=5ms,think=1ms",
        "--for",
        "400ms",
    ];
    let found = results(&[&args[..], &["--trace", &to, "--hotplug", "2:off@100ms"]].concat());
    let reader = trace::Reader::new(std::fs::File::open(&trace).expect("the trace exists"))
        .expect("the trace has a valid header");
    let records: Vec<trace::Record> = reader.collect::<Result<_, _>>().expect("no record is damaged");
    let mut hash = trace::Hash::default();
    trace::Sink::take(&mut hash, &records);
    assert_eq!(found[0]["trace_hash"], hash.to_string());
    let late = records.iter().filter(|r| r.time > 100_000_000 && r.cpu == 2);
    let ran = late
        .filter(|r| matches!(r.event, trace::Event::Switch { next, .. } if next != 0))
        .count();
    assert_eq!(ran, 0, "a task ran on an offline CPU");
    assert_eq!(loads(&records), [(0, true)]);
    assert!(found[0]["exit"].is_null(), "{}", found[0]["exit"]);
    // The policy odd has no callbacks for hotplug, so the kernel ends it at a hotplug event. It is
    // loaded again after ten ticks of 10 ms.
    let odd = path("crates/windtunnel/tests/policies/odd.bpf.c");
    let args = [
        &[odd.as_str()],
        &args[1..],
        &["--trace", &to, "--hotplug", "2:off@100ms"],
    ]
    .concat();
    let found = results(&args);
    let reader = trace::Reader::new(std::fs::File::open(&trace).expect("the trace exists"))
        .expect("the trace has a valid header");
    let records: Vec<trace::Record> = reader.collect::<Result<_, _>>().expect("no record is damaged");
    assert_eq!(loads(&records), [(0, true), (140, false), (200, true)]);
    assert!(found[0]["exit"].is_null(), "{}", found[0]["exit"]);
}

/// Returns the times in ms at which policies were loaded (true) or unloaded (false).
fn loads(records: &[trace::Record]) -> Vec<(u64, bool)> {
    let loads = records.iter().filter_map(|record| match record.event {
        trace::Event::Policy { loaded } => Some((record.time / 1_000_000, loaded)),
        _ => None,
    });
    loads.collect()
}

#[test]
fn a_run_that_ends_before_the_uptime_of_the_profile_loads_no_policy() {
    let fifo = path("policies/fifo.bpf.c");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("late.toml");
    std::fs::write(&file, "uptime = '10ms'").expect("the file can be written");
    let file = file.display().to_string();
    let run = |more: &[&str]| {
        let load = [&["run", &fifo, "--machine", "smp2", "--profile", &file][..], more].concat();
        windtunnel(&load)
    };
    let exited = &["--workload", "hackbench:groups=1,fds=1,loops=2"];
    let ended = &["--workload", "closed:n=2,compute=1ms", "--for", "5ms"];
    for (more, at) in [(&exited[..], "us"), (ended, "5.00 ms")] {
        let ran = run(more);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let warning = ran
            .stderr
            .lines()
            .find(|line| line.contains("the policy was not loaded"));
        let warning = warning.unwrap_or_else(|| panic!("no warning: {}", ran.stderr));
        let (_, times) = warning.split_once("because the run ended at ").expect("a time");
        assert!(
            times.contains(at) && times.ends_with("before the uptime of its profile, 10.0 ms"),
            "{warning}"
        );
    }
    let explore = ["explore", &fifo, "--machine", "smp2", "--profile", &file, "--runs", "4"];
    let ran = windtunnel(&[&explore[..], exited].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn a_profile_sets_parameters_and_warns_of_missing_parts() {
    let fifo = path("policies/fifo.bpf.c");
    let run = |name: &str, text: &str| {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
        std::fs::write(&file, text).expect("the file can be written");
        let file = file.display().to_string();
        let load = [
            "--machine",
            "smp4",
            "--workload",
            "closed:n=8,compute=5ms",
            "--for",
            "100ms",
        ];
        windtunnel(&[&["run", &fifo, "--profile", &file][..], &load].concat())
    };
    let short = run(
        "short",
        "absent = 'its adviser'\nuptime = '10ms'\n[set]\nslice_ns = '1_000_000'",
    );
    assert_eq!(short.status, 0, "{}", short.stderr);
    assert!(
        short.stderr.contains("fifo: warning: not modelled: its adviser"),
        "{}",
        short.stderr
    );
    assert!(
        short.stdout.contains("--profile "),
        "the command that repeats the run has no --profile: {}",
        short.stdout
    );
    let long = run(
        "long",
        "include = ['short']\n[names]\nslice = '100 * 1_000_000'\n[set]\nslice_ns = 'slice'",
    );
    let hash = |ran: &Ran| {
        ran.stdout
            .lines()
            .find(|line| line.contains("trace hash"))
            .map(str::to_owned)
    };
    assert!(hash(&short).is_some() && hash(&short) != hash(&long), "{}", long.stdout);
    for (name, text, expect) in [
        ("unknown", "[set]\nslice = 1", "no variable is called slice"),
        ("circle", "include = ['circle']", "profiles include each other"),
        ("none", "include = ['nobody']", "there is no profile nobody"),
        ("division", "[set]\nslice_ns = '1 / (nr_cpus - 4)'", "division by 0"),
    ] {
        let ran = run(name, text);
        assert_eq!(ran.status, 2, "{name}");
        assert!(ran.stderr.contains(expect), "{name}: {}", ran.stderr);
    }
}

/// The program is `seq`, with an object of a scheduler behind it. It ends before it attaches one, and the error
/// shows its last eight lines. `run` with one policy prints the others, too.
#[cfg(target_arch = "x86_64")]
#[test]
fn run_prints_the_output_of_a_program() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("program");
    let object = crate::support::variant("policies/fifo.bpf.c", "", &[]);
    let bytes = [std::fs::read("/usr/bin/seq"), std::fs::read(object)].map(|bytes| bytes.expect("a file"));
    std::fs::write(&path, bytes.concat()).expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("an executable file");
    let program = format!("exec: {} 20", path.display());
    let printed = |policies: &[&str]| {
        let arguments = [&["run"][..], policies, &["-m", "smp2", "-w", "mixed", "--for", "1ms"]].concat();
        let ran = windtunnel(&arguments);
        assert_ne!(ran.status, 0, "{}", ran.stdout);
        assert!(ran.stderr.contains("\n13\n"), "{}", ran.stderr);
        ran.stderr.contains("\n12\n")
    };
    assert!(printed(&[&program]));
    assert!(!printed(&[&program, "eevdf"]));
}
