// SPDX-License-Identifier: GPL-2.0-only
//! Tests the replay of recordings (traces of real machines) as workloads. Another scheduler may
//! change when tasks run, but not how long they compute.

use crate::support::policy::{Run, generated};
use crate::support::{results, root, windtunnel};
use kernel::{Ended, Machine};
use machine::MachineSpec;
use std::collections::BTreeMap;
use trace::{Event, Record};
use workload::Workload;

const RECORDING: &str = "crates/windtunnel/tests/recordings/perf.txt";

/// Returns the CPU time of each task in ns, in the order in which the tasks were created.
fn work(records: &[Record]) -> Vec<u64> {
    let mut tasks: BTreeMap<u32, usize> = BTreeMap::new();
    let mut on: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut work = Vec::new();
    let end = records.last().map_or(0, |record| record.time);
    for record in records {
        match record.event {
            Event::TaskNew { pid, .. } => {
                tasks.insert(pid, work.len());
                work.push(0);
            }
            Event::Switch { next, .. } => {
                if let Some((pid, since)) = on.insert(record.cpu, (next, record.time)).filter(|on| on.0 != 0) {
                    work[tasks[&pid]] += record.time - since;
                }
            }
            _ => {}
        }
    }
    for (pid, since) in on.into_values().filter(|on| on.0 != 0) {
        work[tasks[&pid]] += end - since;
    }
    work
}

/// Replays a recording under a policy or the fair class. The work of the kernel takes no time.
fn replay(workload: &Workload, policy: Option<&str>, cpus: u32) -> Vec<Record> {
    let machine = MachineSpec::smp(cpus).free();
    if let Some(policy) = policy {
        let run = Run::new(policy).machine(machine).workload(workload.clone());
        return run.for_ms(60_000).records;
    }
    let mut machine = Machine::new(machine, workload.clone(), 1).expect("the machine can run the workload");
    let mut records = Vec::new();
    assert_eq!(machine.run(60_000_000_000, &mut records), Ended::AllExited);
    records
}

/// Returns the CPU times by task name, because tasks may be created in another order.
fn by_name(records: &[Record]) -> BTreeMap<String, Vec<u64>> {
    let mut names: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let comms = records.iter().filter_map(|record| match &record.event {
        Event::TaskNew { comm, .. } => Some(comm.clone()),
        _ => None,
    });
    for (comm, ns) in comms.zip(work(records)).filter(|&(_, ns)| ns > 0) {
        names.entry(comm).or_default().push(ns);
    }
    names.values_mut().for_each(|work| work.sort_unstable());
    names
}

#[test]
fn each_thread_computes_as_long_as_recorded_under_any_scheduler() {
    let text = std::fs::read_to_string(root().join(RECORDING)).expect("the recording exists");
    let recorded = by_name(
        &trace::recording::read(&text)
            .expect("the recording can be read")
            .records,
    );
    // The expected times were computed by hand. The listener runs for 100 us, 100 us and 1000 us.
    assert_eq!(recorded["listener"], [1_200_000]);
    assert_eq!(recorded["worker 1"], [200_000 + 207_000]);
    assert_eq!(recorded["worker 2"], [405_000]);
    assert_eq!(recorded["logger"], [100_000]);
    let path = root().join(RECORDING).display().to_string();
    let workload = generated(&path);
    for policy in [None, Some("fifo"), Some("rr"), Some("o1"), Some("windows")] {
        for cpus in [1, 2, 5] {
            assert_eq!(
                by_name(&replay(&workload, policy, cpus)),
                recorded,
                "{policy:?} on {cpus} CPUs"
            );
        }
    }
}

#[test]
fn fewer_cpus_make_a_replay_longer() {
    let workload = generated(&root().join(RECORDING).display().to_string());
    let end = |cpus| {
        replay(&workload, Some("fifo"), cpus)
            .last()
            .expect("the run has records")
            .time
    };
    // On two CPUs, the recording took 2.11 ms, including the time in which the kernel woke tasks.
    // The tasks computed for 4.4 ms together, so a run on one CPU must take much longer.
    let (one, two) = (end(1), end(2));
    assert!((1_900_000..2_300_000).contains(&two), "{two}");
    assert!(one > two + 1_000_000, "{one} ns on one CPU, {two} ns on two");
}

#[test]
fn a_simulated_trace_is_replayed_with_the_same_work() {
    for spec in [
        "closed:n=6,compute=700us,think=400us,duration=30ms",
        "hackbench:groups=1,loops=3",
        "mkbench:builds=1,jobs=3,files=6",
    ] {
        let mut machine =
            Machine::new(MachineSpec::smp(3), generated(spec), 7).expect("the machine can run the workload");
        let mut first = Vec::new();
        machine.run(100_000_000, &mut first);
        let workload = workload::replay::from_records(&first, None, "own").expect("the records describe a workload");
        let again = replay(&workload, Some("vtime"), 2);
        assert_eq!(by_name(&again), by_name(&first), "{spec}");
    }
}

#[test]
fn the_command_accepts_a_recording_as_a_workload() {
    let found = results(&["eevdf", "--machine", "smp4", "--workload", RECORDING]);
    assert_eq!(found[0]["score_better"], "lower", "{}", found[0]);
    assert!(
        found[0]["score"].as_f64().is_some_and(|seconds| seconds < 0.01),
        "{}",
        found[0]
    );
    let spec = format!("trace:file={RECORDING}");
    let shown = windtunnel(&["workload", "show", &spec]);
    assert!(
        shown.stdout.contains("5 tasks, ") && shown.stdout.contains("listener"),
        "{}",
        shown.stdout
    );
    let ran = windtunnel(&["run", "eevdf", "--workload", "Cargo.toml"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("Cargo.toml:1:1: expected an event"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_recording_is_replayed_on_the_machine_of_the_recording_unless_another_is_named() {
    let run = |workload: &str, more: &[&str]| {
        let ran = windtunnel(&[&["run", "eevdf", "-w", workload], more].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        (ran.stdout, ran.stderr)
    };
    let (printed, notes) = run(RECORDING, &[]);
    assert!(printed.starts_with("machine core:2 pu:1 (2 CPUs), "), "{printed}");
    assert!(
        printed.contains("repeat: windtunnel run eevdf --machine 'core:2 pu:1' --workload"),
        "{printed}"
    );
    assert!(
        notes.contains("note: replayed on as many CPUs as recorded, which share one last-level cache"),
        "{notes}"
    );
    let (printed, notes) = run(RECORDING, &["-m", "smp4"]);
    assert!(
        printed.starts_with("machine smp4 (4 CPUs), ") && notes.is_empty(),
        "{printed}{notes}"
    );
    // A trace file names its machine.
    for (machine, replayed) in [("numa16", "numa16"), ("pack:1 core:3 pu:1", "pack:1 core:3 pu:1")] {
        let trace = format!("{}/on-{}.wtt", env!("CARGO_TARGET_TMPDIR"), machine.replace(' ', "-"));
        let recorded = windtunnel(&[
            "run",
            "eevdf",
            "-m",
            machine,
            "-w",
            "chat:rooms=1,users=2,messages=3",
            "--trace",
            &trace,
        ]);
        assert_eq!(recorded.status, 0, "{}", recorded.stderr);
        let (printed, notes) = run(&trace, &[]);
        assert!(printed.starts_with(&format!("machine {replayed} (")), "{printed}");
        assert!(notes.contains("which is used again"), "{notes}");
    }
}

/// Records a simulated run under EEVDF on two CPUs. Returns the path of the trace file.
fn recorded(name: &str, workload: &str) -> String {
    let trace = format!("{}/{name}.wtt", env!("CARGO_TARGET_TMPDIR"));
    let ran = windtunnel(&[
        "run", "eevdf", "-m", "smp2", "-w", workload, "--for", "300ms", "--trace", &trace,
    ]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    trace
}

/// The replay of a run of EEVDF under EEVDF on the same machine has about as many switches as the run
/// itself. hackbench ends long before it would in a replay whose tasks skip sleeps when they are late:
/// it then has a quarter of the switches. Two or four processes of lat_ctx settle on two CPUs in one of
/// two ways, which depends on their start; their replay may settle in the other.
#[test]
fn a_simulated_recording_is_replayed_with_as_many_switches() {
    for (name, workload, most) in [
        ("messages", "hackbench:groups=4,loops=10", 15.0),
        ("requests", "schbench:message_threads=2,workers=4", 10.0),
        ("compile", "mkbench:builds=1,jobs=4,files=10", 10.0),
        ("pauses", "closed:n=6,compute=700us,think=400us", 10.0),
        ("pipe", "lat_ctx:processes=6,rounds=300", 10.0),
    ] {
        let trace = recorded(name, workload);
        let shown = windtunnel(&["replay", &trace, "--validate", "--json"]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        let json: serde_json::Value = serde_json::from_str(&shown.stdout).expect("the output is JSON");
        let figures = json["validation"]["figures"].as_array().expect("there are figures");
        let error = |name: &str| {
            let row = figures.iter().find(|row| row["name"] == name);
            row.and_then(|row| row["error_percent"].as_f64())
                .expect("the figure has an error")
        };
        assert!(error("switches").abs() < most, "{workload}: {figures:?}");
        assert!(error("busy time").abs() < 6.0, "{workload}: {figures:?}");
    }
}

#[test]
fn runs_of_a_recording_print_its_validation_and_what_it_lacks() {
    let ran = windtunnel(&["run", "fifo", "--workload", RECORDING]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for text in [
        "the recorded scheduler (eevdf) simulated on core:2 pu:1",
        "switches",
        "run time of ",
        "the recording lacks affinities",
        "the recording does not name its scheduler",
        "machine calibrate",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let described = windtunnel(&["replay", RECORDING]);
    assert!(
        described.stdout.contains("recorded on 2 CPUs") && described.stdout.contains("--validate"),
        "{}",
        described.stdout
    );
    let compared = windtunnel(&["compare", "eevdf", "fifo", "--workload", RECORDING, "--runs", "2"]);
    assert!(
        compared.stdout.contains("the replay's error for this figure is") && compared.stdout.contains("validation"),
        "{}",
        compared.stdout
    );
    // A workload that is no recording has no validation.
    let generated = windtunnel(&["replay", "closed:n=3"]);
    assert_eq!(generated.status, 2);
    assert!(
        generated.stderr.contains("this is no recording"),
        "{}",
        generated.stderr
    );
}

#[test]
fn a_recording_of_an_unknown_scheduler_is_replayed_without_validation() {
    let trace = format!("{}/unknown.wtt", env!("CARGO_TARGET_TMPDIR"));
    let header = trace::Header {
        machine: "live, kernel 7.0".into(),
        cpus: vec![trace::CpuPosition::default(); 2],
        policy: "scx_unheard_of".into(),
        ..trace::Header::default()
    };
    let text = std::fs::read_to_string(root().join(RECORDING)).expect("the recording exists");
    let records = trace::recording::read(&text)
        .expect("the recording can be read")
        .records;
    let mut file = Vec::new();
    let mut writer = trace::Writer::new(&mut file, &header);
    trace::Sink::take(&mut writer, &records);
    writer.finish().expect("the trace can be written");
    std::fs::write(&trace, file).expect("the trace can be written");
    let ran = windtunnel(&["run", "eevdf", "-w", &trace]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("not validated") && ran.stderr.contains("scx_unheard_of"),
        "{}",
        ran.stderr
    );
    let named = windtunnel(&["replay", &trace, "--validate", "--scheduler", "fifo"]);
    assert!(
        named.stdout.contains("the recorded scheduler (fifo)"),
        "{}",
        named.stdout
    );
}
