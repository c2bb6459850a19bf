// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel report`: what trace files and recordings tell.

use super::exports::ExportArgs;
use super::progress::with_progress;
use clap::Args as ClapArgs;
use report::{Latency, RunResult, Schedstat, Timehist};
use std::io::{BufWriter, IsTerminal, Stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::{Header, Record, Sink, Tee};
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::page;
use windtunnel::search;
use windtunnel::traced::{Kind, Traced};

#[derive(ClapArgs)]
pub struct Args {
    /// Trace files (`run --trace`), or recordings of real machines: the text of `perf script` or `trace-cmd report`
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The machine that recordings are of, so that distances between its CPUs are known (`machine list`)
    #[arg(long, short)]
    machine: Option<String>,
    #[command(flatten)]
    exports: ExportArgs,
    /// Print how long tasks waited for a CPU, as `perf sched latency` does
    #[arg(long)]
    latency: bool,
    /// Print a row each time that a task left a CPU, as `perf sched timehist` does
    #[arg(long)]
    timehist: bool,
    /// Print what /proc/schedstat would have counted
    #[arg(long)]
    schedstat: bool,
    /// Write one HTML page of all traces to FILE: timelines, runqueues, migrations, latencies, fairness, costs
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The time slice of round robin, for the response times that theory expects of a closed workload
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "output")]
    timeslice: Option<u64>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let folders = search::folders("machines");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let machine = self.machine.as_ref();
        let machine = machine.map(|name| machine::load(name, &folders)).transpose()?;
        let mut results = Vec::new();
        let mut runs = Vec::new();
        for path in &self.traces {
            let traced = Traced::open(path, machine.as_ref())?;
            if let Kind::Recording { missing, .. } = traced.kind
                && missing > 0
            {
                eprintln!("{}: warning: {missing} switches are missing in it", path.display());
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let mut exporting = self.exports.of(&name, self.traces.len()).start(&traced.header)?;
            let mut tables = Tables::new(&self, &traced.header);
            let mut sinks = Tee::new().with(&mut exporting).with(&mut tables);
            let mut scan = self
                .output
                .as_ref()
                .map(|_| page::scan(&traced.header, self.traces.len()));
            if let Some(scan) = &mut scan {
                sinks = sinks.with(scan);
            }
            let result = with_progress(&name, |progress| traced.summarise(&mut sinks, progress))?;
            exporting.finish(result.simulated_ns)?;
            tables.finish(result.simulated_ns)?;
            runs.extend(scan.map(|scan| page::finished(scan, result.clone(), self.timeslice)));
            results.push(result);
        }
        if !(self.latency || self.timehist || self.schedstat) {
            print_summary(&results);
        }
        if let Some(path) = &self.output {
            page::write(path, &runs)?;
            println!("report: {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The tables that are asked for, of one trace.
struct Tables {
    header: Header,
    latency: Option<Latency>,
    timehist: Option<Timehist<BufWriter<Stdout>>>,
    schedstat: Option<Schedstat>,
}

impl Tables {
    fn new(args: &Args, header: &Header) -> Tables {
        let nr_cpus = header.cpus.len();
        let any = args.latency || args.timehist || args.schedstat;
        if any && args.traces.len() > 1 {
            println!("{} on {} under {}", header.policy, header.machine, header.workload);
        }
        let stdout = || BufWriter::new(std::io::stdout());
        Tables {
            header: header.clone(),
            latency: args.latency.then(|| Latency::new(nr_cpus)),
            timehist: args.timehist.then(|| Timehist::new(stdout(), nr_cpus)),
            schedstat: args.schedstat.then(|| Schedstat::new(&header.cpus)),
        }
    }

    /// Prints what is not printed yet of a trace that ended at `end`.
    fn finish(self, end: u64) -> Result<(), Error> {
        if let Some(timehist) = self.timehist {
            timehist
                .finish()
                .map_err(|error| Error::new(format!("standard output: {error}")))?;
        }
        if let Some(latency) = self.latency {
            print!("{}", latency.finish(end));
        }
        if let Some(schedstat) = self.schedstat {
            print!("{}", schedstat.finish(end, self.header.hz));
        }
        Ok(())
    }
}

impl Sink for Tables {
    fn take(&mut self, records: &[Record]) {
        if let Some(latency) = &mut self.latency {
            latency.take(records);
        }
        if let Some(timehist) = &mut self.timehist {
            timehist.take(records);
        }
        if let Some(schedstat) = &mut self.schedstat {
            schedstat.take(records);
        }
    }
}

fn print_summary(results: &[RunResult]) {
    print!("{}", report::table(results, std::io::stdout().is_terminal()));
    for result in results {
        println!("{}: trace hash {}", result.policy, result.trace_hash);
    }
}
