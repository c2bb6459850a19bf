// SPDX-License-Identifier: GPL-2.0-only
//! The options of `windtunnel live`. The separate program `windtunnel-live` executes these commands.
//!
//! They are defined here, so that help, man pages and completions of `windtunnel` contain them,
//! although the program may not be installed.

use crate::command::complete;
use clap::{Args, Subcommand};
use input::Error;
use input::duration;
use std::path::PathBuf;

/// Default size of each CPU's buffer in KiB. A buffer of this size holds tens of thousands of
/// events.
pub const BUFFER_KIB: u64 = 4096;
/// Highest number of CPUs in a list of CPUs (CPU_SETSIZE).
const MAX_CPUS: u32 = 1024;

#[derive(Subcommand)]
pub enum Action {
    /// Load a policy into this kernel and schedule with it until Ctrl-C
    Load(Load),
    /// Print the kernel's sched_ext state and the loaded policy's parameters and counters
    Status,
    /// Change a parameter of the running policy
    Set(Set),
    /// Unload the policy that `live load` loaded
    Unload,
    /// Execute a workload on this machine under its current scheduler
    Run(Run),
    /// Record what this machine's scheduler does into a trace file
    Record(Record),
    /// Execute experiments on this machine and show the published figures beside the measured ones
    Study(Study),
    /// Simulate and execute the same workload under the same policy, and compare the results
    Compare(Compare),
    /// Explain the difference between two traces of the same workload, simulated and live
    Why(Why),
}

#[derive(Args)]
pub struct Load {
    /// A sched_ext object (FILE.bpf.o) or the name of a built policy
    #[arg(add = complete::policies())]
    pub policy: String,
    /// Set a parameter (`windtunnel policy show` lists them)
    #[arg(long, value_name = "NAME=VALUE", add = complete::settings())]
    pub set: Vec<String>,
    /// Unload the policy after this time [default: run until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Attach the policy to this cgroup, as a sub-scheduler of the loaded policy
    #[arg(long, value_name = "DIRECTORY")]
    pub cgroup: Option<PathBuf>,
    /// Do not print a line of statistics each second
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct Set {
    /// Parameter and value; elements and members work too: NAME[3].MEMBER=VALUE
    #[arg(required = true)]
    pub settings: Vec<String>,
}

#[derive(Args)]
pub struct Run {
    /// An rt-app JSON file, a generator (`windtunnel workload list`), for example
    /// hackbench:groups=2, or the file of a recording
    #[arg(add = complete::workloads())]
    pub workload: String,
    /// Run time [default: the workload's own, else until its tasks have exited, 10 s at most]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// CPUs of this machine that serve as the workload's CPUs 0, 1, ...: 0,2 or 4-7 [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub cpus: Option<CpuList>,
    /// Write the result as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Record {
    /// File for the trace
    #[arg(long, short, value_name = "FILE", default_value = "recording.trace")]
    pub output: PathBuf,
    /// Record for this time [default: until the workload or command ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Buffer of each CPU, KiB
    #[arg(long, value_name = "KIB", default_value_t = BUFFER_KIB, value_parser = clap::value_parser!(u64).range(64..=1 << 20))]
    pub buffer: u64,
    /// Seed of the random generator, for a workload
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Record while this runs: a workload, as for `live run`, or a command with its arguments
    #[arg(last = true, value_name = "WORKLOAD|COMMAND")]
    pub program: Vec<String>,
}

#[derive(Args)]
pub struct Study {
    /// Experiments (`windtunnel experiment list`) [default: all whose definition has a table
    /// [live]]
    #[arg(add = complete::experiments())]
    pub names: Vec<String>,
    /// Change a variable of the definition, for example seconds=10 (`windtunnel experiment show`)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub with: Vec<(String, String)>,
    /// Run every case with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// CPUs that replace those of the experiment's machine [default: this machine's first CPUs, as
    /// many as needed]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub cpus: Option<CpuList>,
    /// Simulate the same runs too, under the same policy and on as many CPUs
    #[arg(long)]
    pub simulate: bool,
    /// Machine to simulate, as for `windtunnel run` [default: one core with one CPU for each CPU
    /// used]
    #[arg(long, short, requires = "simulate", add = complete::machines())]
    pub machine: Option<String>,
    /// Write the results as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Compare {
    /// A sched_ext object, the name of a built policy, `eevdf` for the kernel's default scheduler,
    /// or `exec: COMMAND` for a scheduler's program
    #[arg(add = complete::policies())]
    pub policy: String,
    /// An rt-app JSON file, a generator (`windtunnel workload list`), or the file of a recording
    #[arg(add = complete::workloads())]
    pub workload: String,
    /// Run time of each side [default: the workload's own, else until its tasks have exited, 5 s at
    /// most]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Machine to simulate, as for `windtunnel run`; a file from `machine calibrate` has this
    /// machine's costs
    #[arg(long, short, default_value = "host", add = complete::machines())]
    pub machine: String,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Set a policy's parameter (`windtunnel policy show` lists them)
    #[arg(long, value_name = "NAME=VALUE", add = complete::settings())]
    pub set: Vec<String>,
    /// Print Markdown table rows: policy, workload, figure, simulated, live, error
    #[arg(long)]
    pub markdown: bool,
    /// Execute this program instead of the workload, which only stands for it in the simulator.
    /// Words are separated by blanks; the live side has no score
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["unrecorded", "why", "saved"])]
    pub program: Option<String>,
    /// Do not record the live side with tracefs; counts then come from /proc, and latencies are
    /// missing
    #[arg(long)]
    pub unrecorded: bool,
    /// Explain the difference: who was woken where, why tasks stopped, and how long they ran, on
    /// both sides
    #[arg(long, conflicts_with = "unrecorded")]
    pub why: bool,
    /// Write the explanation as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE", requires = "why")]
    pub json: Option<PathBuf>,
    /// Only execute, and write the live side into a directory for --saved
    #[arg(long, value_name = "DIR", conflicts_with_all = ["why", "saved", "markdown"])]
    pub save: Option<PathBuf>,
    /// Do not execute; compare with a live side that --save has written, perhaps on another machine
    #[arg(long, value_name = "DIR")]
    pub saved: Option<PathBuf>,
}

#[derive(Args)]
pub struct Why {
    /// Trace of the simulated run (`windtunnel run --trace`)
    pub simulated: PathBuf,
    /// Trace of the same workload on a real machine (`windtunnel live record`), or of another
    /// simulated run
    pub live: PathBuf,
    /// Time in ns by which recording one event lengthened the live run. It is subtracted from each
    /// measured interval, once for each event in the interval
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub event_ns: u64,
    /// Write the explanation as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The CPUs that `--cpus` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

/// Parses a list of CPUs such as 0,2 or 4-7.
///
/// # Errors
/// The text is not a list of CPUs.
pub fn cpu_list(text: &str) -> Result<CpuList, Error> {
    let list = input::cpu_list::parse(text, MAX_CPUS);
    list.map(CpuList)
        .map_err(|message| Error::new(format!("{message}: expected a list like 0,2 or 4-7")))
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0,2"), Ok(CpuList(vec![0, 2])));
        assert_eq!(cpu_list("4-6,1"), Ok(CpuList(vec![4, 5, 6, 1])));
        assert!(cpu_list("1,1").is_err_and(|message| message.message.contains("twice")));
        for text in ["", "x", "3-", "5-4"] {
            assert!(
                cpu_list(text).is_err_and(|message| message.message.contains("0,2 or 4-7")),
                "{text}"
            );
        }
    }
}
