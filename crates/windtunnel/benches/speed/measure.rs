// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios, CPU times and medians for the tables.

use runner::policy::Policy;
use runner::scenario::{Outcome, Scenario};
use runner::spec::RunSpec;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Number of runs of which a median is taken.
pub const RUNS: usize = 5;

/// Returns the compiled policy `name`: one of this repository, or one that `make compat` compiled.
pub fn policy(name: &str) -> Option<Policy> {
    if name == "eevdf" {
        return Some(Policy::Eevdf);
    }
    let built = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"));
    ["policies", "compat/objects/kernel", "compat/objects/scx"]
        .iter()
        .map(|folder| built.join(folder).join(format!("{name}.bpf.o")))
        .find_map(|object| Policy::find(&object.display().to_string()).ok())
}

/// Returns a scenario with seed 1 that lasts `for_ns` of simulated time.
pub fn scenario(policy: &Policy, machine: &str, workload: &str, for_ns: u64) -> Scenario {
    let word = match policy {
        Policy::Eevdf | Policy::Exec { .. } => policy.name().to_owned(),
        Policy::Object { path, .. } => path.display().to_string(),
    };
    let spec = RunSpec {
        for_ns: Some(for_ns),
        ..RunSpec::new(&word, machine, workload)
    };
    spec.resolve().expect("the inputs are valid")
}

pub fn run(scenario: &Scenario) -> Outcome {
    let outcome = scenario.run(&mut |_| {}).expect("the run succeeds");
    assert!(
        outcome.result.exit.is_none(),
        "the policy failed: {:?}",
        outcome.result.exit
    );
    outcome
}

/// Returns the median of [`RUNS`] measurements.
pub fn median(one: impl FnMut() -> u64) -> u64 {
    let mut runs: Vec<u64> = std::iter::repeat_with(one).take(RUNS).collect();
    runs.sort_unstable();
    runs[RUNS / 2]
}

/// Returns the CPU time in ns that this process needs to execute `body`.
pub fn cpu_ns(body: impl FnOnce()) -> u64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid memory for the result.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let began = now();
    body();
    now() - began
}

/// CPU time and peak memory of a command.
pub struct Used {
    pub cpu_ns: u64,
    /// Peak memory of the largest command that this process has executed so far, in bytes.
    pub peak_bytes: u64,
}

/// Executes the command windtunnel with arguments. Its cache of compiled code is in the directory
/// `cache`.
pub fn command(args: &[&str], cache: &std::path::Path) -> Used {
    let usage = || {
        // SAFETY: a struct of numbers may be zero.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid memory for the result.
        unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    let cpu = |usage: &libc::rusage| ns(usage.ru_utime) + ns(usage.ru_stime);
    let before = usage();
    let status = Command::new(env!("CARGO_BIN_EXE_windtunnel"))
        .args(args)
        .env("XDG_CACHE_HOME", cache)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "windtunnel {args:?} failed"
    );
    let after = usage();
    Used {
        cpu_ns: cpu(&after) - cpu(&before),
        peak_bytes: after.ru_maxrss as u64 * 1024,
    }
}
