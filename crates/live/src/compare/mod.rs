// SPDX-License-Identifier: GPL-2.0-only
//! `live compare`: simulates a workload under a policy on a model of this machine, executes the
//! workload under the policy on this machine, and compares the results.

mod live;
mod saved;
mod table;
pub mod why;

use crate::journal::Journal;
use crate::kernel;
use crate::load::setting;
use crate::policy::{Failure, Source};
use live::Live;
use report::why::{Scan, Why};
use std::path::{Path, PathBuf};
use windtunnel::console;
use windtunnel::destination;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::exit::ExitStatus;
use windtunnel::policy::Policy;
use windtunnel::scenario::{Observer, Scenario};
use windtunnel::search;
use windtunnel::{errln, out};
use workload::Workload;

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
    /// Explain the difference: who was woken where, why tasks stopped, and how long they ran, on
    /// both sides
    #[arg(long, conflicts_with = "unrecorded")]
    why: bool,
    /// Write the explanation as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE", requires = "why")]
    json: Option<PathBuf>,
    /// Only execute, and write the live side into a directory for --saved
    #[arg(long, value_name = "DIR", conflicts_with_all = ["why", "saved", "markdown"])]
    save: Option<PathBuf>,
    /// Do not execute; compare with a live side that --save has written, perhaps on another machine
    #[arg(long, value_name = "DIR")]
    saved: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let policy = Policy::find(&self.policy)?;
        let folders = |name| search::folders(name);
        let mut machine = search::machine(&self.machine)?;
        // The live side has the times of the kernel's tracepoints.
        machine.kernel.trace_before_switch = true;
        let workload = workload::load(&self.workload, &paths(&folders("workloads")))?;
        let settings: Vec<(String, String)> = self.set.iter().map(|text| setting(text)).collect::<Result<_, _>>()?;
        let limit = self.for_ns.or(workload.duration_ns).unwrap_or(DEFAULT_NS);
        let live = match &self.saved {
            Some(folder) => {
                let live = saved::read(folder, self.why)?;
                saved::check(folder, &live, policy.name(), &workload.name)?;
                live
            }
            None => match self.execute(&policy, &workload, &settings, limit)? {
                Ok(live) => live,
                Err(code) => return Ok(code),
            },
        };
        if let Some(folder) = &self.save {
            saved::write(folder, &live)?;
            return Ok(ExitStatus::SUCCESS);
        }
        let scenario = Scenario {
            settings,
            seed: self.seed,
            for_ns: Some(limit),
            ..Scenario::new(policy, machine, workload)
        };
        for note in &live.notes {
            errln!("windtunnel live: {note}");
        }
        let mut scan = Scan::new(scenario.header(), None);
        let mut observer = Observer {
            sink: &mut scan,
            reads: Vec::new(),
            details: false,
        };
        let simulated = scenario.run_observed(&mut observer, &mut |_| {})?.result;
        let side = scan.finish();
        let recorded = live.recorded.as_ref().map(|run| run.scan(side.names()));
        let rows = table::rows(&simulated, &live.result);
        let to_stdout = self.json.as_deref().is_some_and(destination::is_stdout);
        match self.markdown {
            true => out!("{}", table::markdown(&simulated, &live.result, &rows)),
            false if to_stdout => {}
            false => console::styled(&table::text(&simulated, &live.result, &rows, console::surface())),
        }
        if self.why {
            let recorded = recorded
                .ok_or_else(|| Error::new("the live side was not recorded, so the difference cannot be explained"))?;
            why::print(&Why::new(&side, &recorded), self.json.as_deref())?;
        }
        Ok(ExitStatus::SUCCESS)
    }

    /// Executes the workload under the policy. If the policy failed, prints the reason and returns
    /// the exit status.
    fn execute(
        &self,
        policy: &Policy,
        workload: &Workload,
        settings: &[(String, String)],
        limit: u64,
    ) -> Result<Result<Live, ExitStatus>, Error> {
        let measure_events = self.why || self.save.is_some();
        let execute = || live::run(workload, limit, self.seed, !self.unrecorded, measure_events);
        match policy {
            Policy::Eevdf if !kernel::ops().is_empty() => Err(Error::new(format!(
                "'{}' is loaded, not the default scheduler",
                kernel::ops()
            ))
            .hint("unload it: `windtunnel live unload`")),
            Policy::Eevdf => execute().map(Ok),
            Policy::Object { name, path } => {
                kernel::can_load()?;
                let source = Source::new(name.clone(), path.clone(), settings)?;
                match source.load(&mut Journal::from_now()) {
                    Ok(_loaded) => execute().map(Ok),
                    Err(Failure::Policy(words)) => {
                        errln!("{words}");
                        Ok(Err(ExitStatus::from(1)))
                    }
                    Err(Failure::Restart) => Err(Error::new(
                        "CPUs went online or offline while the policy was enabled: run it again",
                    )),
                    Err(Failure::Refused(error)) => Err(error),
                }
            }
        }
    }
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}
