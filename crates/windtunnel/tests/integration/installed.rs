// SPDX-License-Identifier: GPL-2.0-only
//! Tests of an installed command: it must work in any directory, without the repository. (The
//! development build needs the repository, but not as its working directory.)
//!
//! The environment variable WINDTUNNEL is the path of another build of the command, which is then
//! tested.

use crate::support::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A temporary folder with a copy of the command, an empty working directory and an empty home
/// directory.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let folder = tempfile::tempdir().expect("the folder can be created");
        for name in ["bin", "home", "work"] {
            std::fs::create_dir(folder.path().join(name)).expect("the folder can be created");
        }
        // Another process makes the copy. If this process wrote the file, a child that another test
        // starts at that time would inherit the open file, and executing it would fail (ETXTBSY).
        let built = std::env::var_os("WINDTUNNEL").map(|command| root().join(command));
        let copied = Command::new("cp")
            .arg(built.unwrap_or_else(|| env!("CARGO_BIN_EXE_windtunnel").into()))
            .arg(folder.path().join("bin/windtunnel"))
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "the command can be copied");
        Installed { folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a line of shell in a directory. The search path contains the installed command and the
    /// host's commands, such as clang. No other environment variable of the test is passed on.
    fn shell(&self, folder: &Path, line: &str) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        let mut shell = Command::new("bash");
        shell.args(["-ec", line]).current_dir(folder);
        shell
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder.path().join("home"));
        shell.output().expect("bash starts")
    }

    /// Runs a line of shell, which must succeed, and returns what it prints.
    fn succeeds(&self, folder: &Path, line: &str) -> String {
        let output = self.shell(folder, line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).expect("the output is UTF-8")
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
    std::fs::create_dir(work.join("machines")).expect("the folder can be created");
    let machine = "description = \"mine\"\nhz = 100\ntopology = \"core:3 pu:1\"\n";
    std::fs::write(work.join("machines/smp4.toml"), machine).expect("the file can be written");
    let shown = installed.succeeds(&work, "windtunnel machine show smp4");
    assert!(shown.contains("mine") && shown.contains("3 CPUs"), "{shown}");
    // The other built-in machines are still listed.
    let listed = installed.succeeds(&work, "windtunnel machine list");
    assert!(listed.contains("epyc-2s"), "{listed}");
}

#[test]
fn the_command_works_without_a_home_directory_that_can_be_written() {
    let installed = Installed::new();
    let work = installed.work();
    // Not even root can create a directory in /proc or below /dev/null.
    for home in [
        "HOME=/dev/null",
        "HOME=/proc",
        "HOME=/proc XDG_CACHE_HOME=/proc/cache",
        "-u HOME",
    ] {
        let temporary = tempfile::tempdir().expect("the folder can be created");
        let environment = format!("env {home} TMPDIR={}", temporary.path().display());
        let run = format!("{environment} windtunnel run steal -m smp4 -w pingpong.json --for 20ms");
        let output = installed.shell(&work, &run);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{home}: {error}");
        let made: Vec<_> = std::fs::read_dir(temporary.path())
            .expect("the folder can be read")
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        let [folder] = made.as_slice() else {
            panic!("{home}: expected one folder, found {made:?}");
        };
        let mode = std::os::unix::fs::MetadataExt::mode(&folder.metadata().expect("the folder exists"));
        assert_eq!(
            mode & 0o777,
            0o700,
            "{home}: other users can read or write {}",
            folder.display()
        );
    }
}

#[test]
fn the_description_of_a_policy_has_the_values_that_its_profile_sets() {
    let installed = Installed::new();
    let work = installed.work();
    std::fs::create_dir(work.join("profiles")).expect("the folder can be created");
    let profile = "[set]\nslice_ns = 7_000_000\n";
    std::fs::write(work.join("profiles/fifo.toml"), profile).expect("the file can be written");
    let shown = installed.succeeds(&work, "windtunnel policy show fifo");
    assert!(shown.contains("set by the profile: 7000000"), "{shown}");
    let json = installed.succeeds(&work, "windtunnel policy show fifo --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the output is JSON");
    let all = json.as_array().expect("a list of parameters");
    let slice = all
        .iter()
        .find(|one| one["name"] == "slice_ns")
        .expect("fifo has a slice");
    assert_eq!(slice["profile"], "7000000");
    assert_ne!(slice["value"], "7000000");
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

    // Without windtunnel-live or a kernel with sched_ext, `make live` fails, but not because of its
    // command line.
    let live = installed.shell(&project, "make live");
    let error = String::from_utf8_lossy(&live.stderr);
    assert_eq!(live.status.code(), Some(2), "{error}");
    assert!(error.contains("windtunnel-live cannot be started"), "{error}");

    let again = installed.shell(&work, "windtunnel init 'my scheduler'");
    let error = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(error.contains("the directory is not empty"), "{error}");

    // A second policy in the same project has its own line in the Makefile.
    let said = installed.succeeds(&project, "windtunnel policy new second");
    assert!(said.contains("next: make run-second"), "{said}");
    let table = installed.succeeds(&project, "make run-second");
    assert!(table.contains("| second "), "{table}");
    let both = installed.succeeds(&project, "make run");
    assert!(both.contains("| first ") && both.contains("| second "), "{both}");
    let again = installed.shell(&project, "windtunnel policy new second");
    let error = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(error.contains("second.bpf.c: the file exists"), "{error}");

    // A directory without a project gets everything that the policy needs, except for a job for CI.
    let said = installed.succeeds(&work, "windtunnel policy new third other");
    assert!(said.contains("next: cd other && make run-third"), "{said}");
    installed.succeeds(&work.join("other"), "make test-third");
    assert!(!work.join("other/.github").exists());

    // A Makefile of another origin is not changed.
    let foreign = work.join("foreign");
    std::fs::create_dir(&foreign).expect("the directory can be created");
    std::fs::write(foreign.join("Makefile"), "all:\n").expect("the file can be written");
    let said = installed.succeeds(&foreign, "windtunnel policy new fourth");
    let compile = said.lines().find_map(|line| line.strip_prefix("next: "));
    let compile = compile.unwrap_or_else(|| panic!("no command: {said}"));
    installed.succeeds(&foreign, compile);
    installed.succeeds(&foreign, "windtunnel check ./fourth.bpf.o");
    let text = std::fs::read_to_string(foreign.join("Makefile")).expect("the file exists");
    assert_eq!(text, "all:\n");
}

/// The JIT compiles only on x86-64, so other hosts have no files of compiled code.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_files_of_compiled_code_change_no_result() {
    let installed = Installed::new();
    let work = installed.work();
    let code = installed.folder.path().join("home/.cache/windtunnel/code");
    let files = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&code).into_iter().flatten();
        entries
            .map(|entry| entry.expect("the folder can be read").path())
            .collect()
    };
    let run = |options: &str| {
        let line = format!("windtunnel run steal -m smp4 -w pingpong.json --for 20ms {options}");
        installed.succeeds(&work, &line)
    };
    // Returns the output up to the trace hash. The command that repeats the run follows. It is left
    // out, because it contains the options.
    let run = |options: &str| {
        let text = run(options);
        let end = text
            .find("repeat:")
            .expect("the output ends with the command that repeats it");
        text[..end].to_owned()
    };

    let compiled = run("--no-cache");
    assert_eq!(files(), Vec::<PathBuf>::new(), "--no-cache has written a file");
    assert_eq!(run(""), compiled);
    let written = files();
    assert!(!written.is_empty(), "a run without --no-cache has written no code");
    assert_eq!(
        run(""),
        compiled,
        "the code of the earlier command gives another result"
    );
    assert_eq!(run("--engine interpreter"), compiled);

    for file in &written {
        let mut bytes = std::fs::read(file).expect("the file can be read");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(file, bytes).expect("the file can be written");
    }
    assert_eq!(run(""), compiled, "damaged files have changed the result");
    let mut again = files();
    let mut before = written.clone();
    again.sort();
    before.sort();
    assert_eq!(again, before, "the damaged files were not replaced");
}
