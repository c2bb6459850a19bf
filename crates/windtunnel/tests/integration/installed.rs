// SPDX-License-Identifier: GPL-2.0-only
//! The command as a user has it who installed it: away from the repository, in any directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An installed command, and a working directory and a home that begin empty.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["bin", "home", "work"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        std::fs::copy(env!("CARGO_BIN_EXE_windtunnel"), folder.path().join("bin/windtunnel")).expect("a copy");
        Installed { folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a line of shell in a directory. Only clang and the installed command are found by name.
    fn shell(&self, folder: &Path, line: &str) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        let mut shell = Command::new("bash");
        shell.args(["-ec", line]).current_dir(folder);
        shell
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder.path().join("home"));
        shell.output().expect("bash")
    }

    /// Runs a line of shell, which must succeed, and returns what it prints.
    fn succeeds(&self, folder: &Path, line: &str) -> String {
        let output = self.shell(folder, line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }
}

#[test]
fn an_installed_command_has_its_policies_machines_workloads_and_experiments() {
    let installed = Installed::new();
    let work = installed.work();
    let table = installed.succeeds(
        &work,
        "windtunnel run eevdf fifo steal -m smp4 -w pingpong.json --for 20ms",
    );
    assert!(table.contains("| steal "), "{table}");
    let policies = installed.succeeds(&work, "windtunnel policy list");
    assert!(policies.contains("pmqs") && policies.contains("windows"), "{policies}");
    let experiments = installed.succeeds(&work, "windtunnel experiment list");
    assert!(experiments.contains("pmqs/table6"), "{experiments}");
    // The profile of linux26 sets the groups of the machine's scheduling domains.
    installed.succeeds(&work, "windtunnel run linux26 -m x6-2 -w closed:n=4 --for 20ms");
}

#[test]
fn a_file_in_the_working_directory_replaces_the_one_in_the_command() {
    let installed = Installed::new();
    let work = installed.work();
    std::fs::create_dir(work.join("machines")).expect("a folder");
    let machine = "description = \"mine\"\nhz = 100\ntopology = \"core:3 pu:1\"\n";
    std::fs::write(work.join("machines/smp4.toml"), machine).expect("a file");
    let shown = installed.succeeds(&work, "windtunnel machine show smp4");
    assert!(shown.contains("mine") && shown.contains("3 CPUs"), "{shown}");
    // The others are still there.
    let listed = installed.succeeds(&work, "windtunnel machine list");
    assert!(listed.contains("epyc-2s"), "{listed}");
}

#[test]
fn a_builtin_experiment_is_not_updated() {
    let installed = Installed::new();
    let output = installed.shell(&installed.work(), "windtunnel experiment run smp/decay --update");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("a built-in experiment cannot be updated"), "{error}");
}

#[test]
fn a_starter_project_builds_and_runs() {
    let installed = Installed::new();
    let work = installed.work();
    let said = installed.succeeds(&work, "windtunnel init 'my scheduler'");
    assert!(said.contains("next: cd 'my scheduler' && make run"), "{said}");
    let project = work.join("my scheduler");
    let table = installed.succeeds(&project, "make run");
    assert!(table.contains("| first "), "{table}");
    let checked = installed.succeeds(&project, "make test");
    assert!(
        checked.contains("work conservation") && !checked.contains("BROKEN"),
        "{checked}"
    );

    let again = installed.shell(&work, "windtunnel init 'my scheduler'");
    let error = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(error.contains("the directory is not empty"), "{error}");
}
