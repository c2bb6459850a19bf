// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel sweep`: the table that it writes, the store of results, and sweeps that are
//! interrupted and continued.

use crate::support::{object, root};
use lab::sweep::table::{self, Column};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const SWEEP: &str = "policies = ['eevdf', 'FIFO']
machines = ['smp4', 'core:2 pu:1']
workloads = ['closed:n=6,compute=1ms,think=1ms']
seeds = 3
for = '20ms'
[set]
slice_ns = [1_000_000, 4_000_000]
";

/// Writes a sweep file in which `FIFO` stands for the object of the policy fifo.
fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("the directory can be created");
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    std::fs::write(folder.path().join("sweep.toml"), text.replace("FIFO", &fifo)).expect("the file can be written");
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel"));
    let (file, store) = (folder.join("sweep.toml"), folder.join("store"));
    command
        .arg("sweep")
        .arg(file)
        .arg("--store")
        .arg(store)
        .args(args)
        .current_dir(root());
    command
}

fn sweep(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("the command runs")
}

/// Runs a sweep that must succeed, and returns what it prints.
fn complete(folder: &Path, args: &[&str]) -> String {
    let output = sweep(folder, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Returns a column of a Parquet file as texts.
fn column(file: &Path, name: &str) -> Vec<String> {
    let table = table::read(file, 1000).expect("the file is a table");
    match table.column(name).expect("the column exists") {
        Column::Texts(values) => values.iter().map(|text| text.clone().unwrap_or_default()).collect(),
        Column::Numbers(values) => values.iter().map(u64::to_string).collect(),
        Column::Floats(values) => values
            .iter()
            .map(|value| value.map_or(String::new(), |value| value.to_string()))
            .collect(),
    }
}

#[test]
fn a_sweep_has_one_row_for_each_combination() {
    let folder = folder(SWEEP);
    let said = complete(folder.path(), &[]);
    // eevdf has no slice_ns, so it has 2 machines * 3 seeds = 6 runs. fifo has 2 machines * 3 seeds
    // * 2 slices = 12 runs.
    assert!(said.starts_with("18 runs in "), "{said}");
    let file = folder.path().join("sweep.parquet");
    let machines = column(&file, "machine");
    assert_eq!(machines.len(), 18);
    assert_eq!(machines[..4], ["smp4", "smp4", "smp4", "core:2 pu:1"]);
    assert_eq!(column(&file, "set.slice_ns")[5..8], ["", "1000000", "1000000"]);
    assert_eq!(column(&file, "seed")[..4], ["1", "2", "3", "1"]);

    // The command of a row repeats the run.
    let (commands, hashes) = (column(&file, "command"), column(&file, "trace_hash"));
    let line = commands[17].replace("windtunnel run", &format!("{} run", env!("CARGO_BIN_EXE_windtunnel")));
    let output = Command::new("bash").args(["-c", &line]).current_dir(root()).output();
    let printed = String::from_utf8(output.expect("bash runs").stdout).expect("the output is text");
    assert!(printed.contains(&hashes[17]), "{}: {printed}", commands[17]);
}

#[test]
fn results_in_the_store_are_not_computed_again() {
    let folder = folder(SWEEP);
    complete(folder.path(), &["-o", "/dev/null"]);
    let again = complete(folder.path(), &[]);
    assert!(again.contains("of which 18 were in the store"), "{again}");
    let file = folder.path().join("sweep.parquet");
    let first = std::fs::read(&file).expect("the file exists");

    // The file does not depend on the store, on the number of threads or on the engine.
    let other = self::folder(SWEEP);
    complete(other.path(), &["--threads", "1", "--engine", "interpreter"]);
    assert!(first == std::fs::read(other.path().join("sweep.parquet")).expect("the file exists"));

    // A damaged result is computed again. If the workload changes, all results are computed again.
    let path = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).expect("the directory exists").flatten();
        entries.next().expect("the directory is not empty").path()
    };
    std::fs::write(path(&path(&folder.path().join("store"))), "{").expect("the file can be written");
    let damaged = complete(folder.path(), &[]);
    assert!(damaged.contains("of which 17 were in the store"), "{damaged}");
    assert!(first == std::fs::read(&file).expect("the file exists"));
    let sweep = folder.path().join("sweep.toml");
    let text = std::fs::read_to_string(&sweep).expect("the file exists");
    std::fs::write(&sweep, text.replace("n=6", "n=7")).expect("the file can be written");
    let changed = complete(folder.path(), &[]);
    assert!(changed.contains("of which 0 were in the store"), "{changed}");
}

#[test]
fn a_killed_sweep_goes_on_and_writes_the_same_file() {
    let text = SWEEP.replace("seeds = 3", "seeds = 60").replace("20ms", "100ms");
    let (killed, whole) = (folder(&text), folder(&text));
    let mut child = command(killed.path(), &["--threads", "1"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let store = killed.path().join("store");
    for _ in 0..2400 {
        if std::fs::read_dir(&store).is_ok_and(|entries| entries.count() > 3) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("the command still runs");
    child.wait().expect("the command can be waited for");
    let file = killed.path().join("sweep.parquet");
    assert!(!file.exists(), "the sweep was killed, but the table has its final name");
    let said = complete(killed.path(), &[]);
    assert!(!said.contains("of which 0 were in the store"), "{said}");
    complete(whole.path(), &[]);
    let read = |path: &Path| std::fs::read(path).expect("the file exists");
    assert!(read(&file) == read(&whole.path().join("sweep.parquet")));
}

#[test]
fn a_failing_policy_has_a_row_without_figures() {
    let folder = folder(&SWEEP.replace("'FIFO'", "'BROKEN'"));
    let broken = object("crates/windtunnel/tests/negative/missing_dsq.bpf.c")
        .display()
        .to_string();
    let file = folder.path().join("sweep.toml");
    let text = std::fs::read_to_string(&file).expect("the file exists");
    std::fs::write(
        &file,
        text.replace("BROKEN", &broken)
            .replace("[set]\nslice_ns = [1_000_000, 4_000_000]\n", ""),
    )
    .expect("the file can be written");
    let output = sweep(folder.path(), &[]);
    let said = String::from_utf8(output.stdout).expect("the output is text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("6 runs have no figures, because their policy failed; the first is: "),
        "{said}"
    );
    let table = folder.path().join("sweep.parquet");
    assert_eq!(column(&table, "status")[5..7], ["ran", "ejected"]);
    assert_eq!(column(&table, "p99_wakeup")[11], "");
    assert!(!column(&table, "failure")[11].is_empty());
}

#[test]
fn bad_sweeps_are_refused_with_a_hint() {
    for (from, to, error) in [
        ("'eevdf'", "'eevd'", "did you mean eevdf?"),
        ("'smp4'", "'smp44'", "did you mean"),
        (
            "slice_ns",
            "slice_us",
            "set.slice_us: no policy of the sweep has this parameter",
        ),
        ("[1_000_000, ", "[1, ", "slice_ns"),
        ("for =", "fro =", "sweep.toml:5:1"),
    ] {
        let folder = folder(&SWEEP.replace(from, to));
        let output = sweep(folder.path(), &[]);
        let said = String::from_utf8(output.stderr).expect("the output is text");
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(error), "{to}: {said}");
        assert!(!folder.path().join("sweep.parquet").exists(), "{to}");
    }
}
