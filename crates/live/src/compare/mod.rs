// SPDX-License-Identifier: GPL-2.0-only
//! `live compare`: simulates a policy and workload on a model of this machine, executes both here,
//! and compares the results.

mod live;
mod table;

use crate::journal::Journal;
use crate::kernel;
use crate::load::setting;
use crate::policy::{Failure, Source};
use bpf::engine::Engine;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windtunnel::console;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::policy::Policy;
use windtunnel::scenario::Scenario;
use windtunnel::search;
use windtunnel::{errln, out};

/// Time limit for a workload that defines no length of its own, on both sides.
const DEFAULT_NS: u64 = 5_000_000_000;

#[derive(clap::Args)]
pub struct Args {
    /// A sched_ext object, the name of a built policy, or `eevdf` for the kernel's default
    /// scheduler
    policy: String,
    /// An rt-app JSON file or a generator (`windtunnel workload list`)
    workload: String,
    /// Run time of each side [default: the workload's own, else until its tasks have exited, 5 s at
    /// most]
    #[arg(long = "for", value_parser = duration::parse_some)]
    for_ns: Option<u64>,
    /// Machine to simulate, as for `windtunnel run`; a file from `machine calibrate` has this
    /// machine's costs
    #[arg(long, short, default_value = "host")]
    machine: String,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set a policy's parameter (`windtunnel policy show` lists them)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Print Markdown table rows: policy, workload, figure, simulated, live, error
    #[arg(long)]
    markdown: bool,
    /// Do not record the live side with tracefs; counts then come from /proc, and latencies are
    /// missing
    #[arg(long)]
    unrecorded: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let policy = Policy::find(&self.policy)?;
        let folders = |name| search::folders(name);
        let machine = machine::load(&self.machine, &paths(&folders("machines")))?;
        let workload = workload::load(&self.workload, &paths(&folders("workloads")))?;
        let settings: Vec<(String, String)> = self.set.iter().map(|text| setting(text)).collect::<Result<_, _>>()?;
        let limit = self.for_ns.or(workload.duration_ns).unwrap_or(DEFAULT_NS);
        let execute = || live::run(&workload, limit, self.seed, !self.unrecorded);
        let (live, notes) = match &policy {
            Policy::Eevdf if !kernel::ops().is_empty() => {
                return Err(
                    Error::new(format!("'{}' is loaded, not the default scheduler", kernel::ops()))
                        .hint("unload it: `windtunnel live unload`"),
                );
            }
            Policy::Eevdf => execute()?,
            Policy::Object { name, path } => {
                kernel::can_load()?;
                let source = Source::new(name.clone(), path.clone(), &settings)?;
                match source.load(&mut Journal::from_now()) {
                    Ok(_loaded) => execute()?,
                    Err(Failure::Policy(words)) => {
                        errln!("{words}");
                        return Ok(ExitCode::from(1));
                    }
                    Err(Failure::Restart) => {
                        return Err(Error::new(
                            "CPUs went online or offline while the policy was enabled: run it again",
                        ));
                    }
                    Err(Failure::Refused(error)) => return Err(error),
                }
            }
        };
        let scenario = Scenario {
            profile: None,
            policy,
            settings,
            engine: Engine::default(),
            sanitizer: false,
            machine,
            workload,
            seed: self.seed,
            for_ns: Some(limit),
            kernel: ::kernel::release::Release::default(),
            after_failure: false,
            hotplug: Vec::new(),
            memory: bpf::memory::DEFAULT_LIMIT,
            trace: None,
            draw: None,
        };
        let simulated = scenario.run(&mut |_| {})?.result;
        for note in notes {
            errln!("windtunnel live: {note}");
        }
        let rows = table::rows(&simulated, &live);
        match self.markdown {
            true => out!("{}", table::markdown(&simulated, &live, &rows)),
            false => console::styled(&table::text(&simulated, &live, &rows, console::surface())),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}
