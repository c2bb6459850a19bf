// SPDX-License-Identifier: GPL-2.0-only
//! The command, executed by one test at a time: some workloads have realtime tasks, which leave others nothing.

use report::RunResult;
use std::fs::File;
use std::process::Command;

/// Held while a workload runs: a file lock, because other processes may run these tests, too.
pub fn alone() -> File {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    let file = File::create(path).expect("a file to lock");
    file.lock().expect("a lock");
    file
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live"));
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(args);
    command
}

/// Exit status, and all that was said.
pub fn told(args: &[&str]) -> (i32, String) {
    let output = command(args).output().expect("windtunnel-live runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    (output.status.code().unwrap_or(-1), text)
}

/// The result of `live run`.
pub fn run(args: &[&str]) -> RunResult {
    let _alone = alone();
    let output = command(&["run"]).args(args).args(["--json", "-"]).output();
    let output = output.expect("windtunnel-live runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    let mut results: Vec<RunResult> = serde_json::from_slice(&output.stdout).expect("the simulator's JSON");
    results.remove(0)
}
