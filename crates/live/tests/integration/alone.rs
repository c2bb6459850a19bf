// SPDX-License-Identifier: GPL-2.0-only
//! Runs the command while no other test runs it. Some workloads have real-time tasks, which would
//! leave no CPU time for other tests.

use report::RunResult;
use std::fs::File;
use std::process::Command;

/// Locks a file until the returned value is dropped. The lock excludes the other tests of this
/// process and of other processes that execute these tests.
pub fn alone() -> File {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    let file = File::create(path).expect("the lock file can be created");
    file.lock().expect("the file can be locked");
    file
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live"));
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(args);
    command
}

/// Returns the exit status and everything that the command printed.
pub fn status_and_text(args: &[&str]) -> (i32, String) {
    let output = command(args).output().expect("windtunnel-live can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    (output.status.code().unwrap_or(-1), text)
}

/// Returns the result that `live run` writes as JSON.
pub fn run(args: &[&str]) -> RunResult {
    let _alone = alone();
    let output = command(&["run"]).args(args).args(["--json", "-"]).output();
    let output = output.expect("windtunnel-live can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    let mut results: Vec<RunResult> = serde_json::from_slice(&output.stdout).expect("the output is a JSON list");
    results.remove(0)
}
