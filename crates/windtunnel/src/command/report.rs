// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel report` prints and exports what a trace file or a recording contains, and writes the
//! HTML page of a sweep.

use super::complete;
use super::exports::{ExportArgs, distinct_names, outputs, write_json};
use super::progress::{opened, with_progress};
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use lab::page;
use lab::sweep::{self, analysis, rows};
use lab::why::{self, Told};
use machine::MachineSpec;
use report::wait::{Find, Wanted};
use report::{Latency, RunResult, Schedstat, Timehist};
use runner::exit::ExitStatus;
use runner::exports::Exports;
use runner::traced::{TraceSource, Traced};
use runner::{console, destination, errln, interrupt, out, outln, search};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use trace::{Header, Record, Sink, Tee};

#[derive(ClapArgs)]
pub struct Args {
    /// Trace files (`run --trace`), or recordings of real machines (of perf, trace-cmd, Perfetto,
    /// LTTng or ftrace); or the table of a sweep (Parquet), which becomes an HTML page
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Machine on which the recordings were made (`machine list`); needed for distances between
    /// CPUs
    #[arg(long, short, add = complete::machines())]
    machine: Option<String>,
    #[command(flatten)]
    exports: ExportArgs,
    /// Print the wake-up latencies of tasks, as `perf sched latency` does
    #[arg(long)]
    latency: bool,
    /// Print a row for each time a task left a CPU, as `perf sched timehist` does
    #[arg(long)]
    timehist: bool,
    /// Print the counters of /proc/schedstat
    #[arg(long)]
    schedstat: bool,
    /// Print how many events of each name a recording has, and how many were lost
    #[arg(long)]
    events: bool,
    /// Write the figures as JSON, with one object per trace; - means standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one HTML page of all traces to FILE: timelines, runqueues, migrations, latencies,
    /// fairness, costs. The page of a sweep is written to a file with the ending .html by default
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Explain the N longest waits of each trace on the page, as `windtunnel why` does
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=100))]
    explain: u16,
    /// Time slice of a round-robin policy. The page then also shows the response times that theory
    /// predicts for a closed workload
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "output")]
    timeslice: Option<u64>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let tables = [
            ("--latency", self.latency),
            ("--timehist", self.timehist),
            ("--schedstat", self.schedstat),
            ("--events", self.events),
        ];
        let printed = tables.into_iter().find(|(_, wanted)| *wanted);
        let printed = printed.map(|(name, _)| (name, Path::new("-")));
        destination::check_stdout(printed.into_iter().chain(self.outputs()))?;
        if self.traces.iter().any(|path| rows::is_parquet(path)) {
            return self.report_sweep();
        }
        let machine = self.machine.as_ref().map(|word| search::definition(word));
        let machine = machine.transpose()?.map(|definition| definition.spec);
        let stems = self
            .traces
            .iter()
            .map(|path| path.file_stem().unwrap_or_default().to_string_lossy());
        let stems: Vec<_> = stems.collect();
        let names = distinct_names(stems.iter().map(AsRef::as_ref));
        let exports: Vec<Exports> = names
            .iter()
            .map(|name| self.exports.for_run(name, names.len()))
            .collect();
        let paths = exports
            .iter()
            .flat_map(Exports::paths)
            .chain(&self.output)
            .chain(&self.json);
        // First, because the check creates temporary files, which a signal must not leave behind.
        interrupt::listen();
        destination::check(paths.map(PathBuf::as_path))?;
        let mut done = Collected::default();
        for ((path, name), exports) in self.traces.iter().zip(&names).zip(&exports) {
            if interrupt::signal().is_some() {
                errln!("{}: not read (interrupted)", path.display());
                continue;
            }
            if let Err(error) = self.report_one(path, name, exports, machine.as_ref(), &mut done) {
                done.errors.push(error);
                break;
            }
        }
        if let Some(path) = &self.json {
            let complete: Vec<_> = done.results.iter().filter(|result| !result.interrupted).collect();
            done.errors.extend(write_json(path, &complete).err());
        }
        if !(self.latency
            || self.timehist
            || self.schedstat
            || self.events
            || done.results.is_empty()
            || self.has_stdout())
        {
            print_summary(&done.results);
        }
        if let Some(path) = self.output.as_ref().filter(|_| !done.pages.is_empty()) {
            match page::write(path, &done.pages, None) {
                Ok(()) if !self.has_stdout() => outln!("report: {}", path.display()),
                written => done.errors.extend(written.err()),
            }
        }
        done.errors.iter().for_each(|error| errln!("windtunnel: {error}"));
        Ok(ExitStatus::from(if done.errors.is_empty() { 0 } else { 2 }))
    }

    /// Writes the page of a sweep.
    fn report_sweep(&self) -> Result<ExitStatus, Error> {
        let [table] = self.traces.as_slice() else {
            return Err(Error::new("report: the table of a sweep must be the only file")
                .hint("a sweep with more values makes one table of all its runs"));
        };
        let output = self.output.clone().unwrap_or_else(|| table.with_extension("html"));
        destination::check([output.as_path()])?;
        let name = table.file_stem().unwrap_or_default().to_string_lossy();
        let page = sweep::page(&name, &analysis::analyse(&rows::read(table)?));
        destination::write(&output, page.as_bytes())?;
        if !destination::is_stdout(&output) {
            outln!("report: {}", output.display());
        }
        Ok(ExitStatus::SUCCESS)
    }

    /// Reads one trace, and writes its files and tables. If a signal interrupts the reading,
    /// nothing is written.
    fn report_one(
        &self,
        path: &Path,
        name: &str,
        exports: &Exports,
        machine: Option<&MachineSpec>,
        done: &mut Collected,
    ) -> Result<(), Error> {
        let traced = opened(path, machine)?;
        match &traced.kind {
            TraceSource::Recording { missing, lost, .. } if *missing > 0 || *lost > 0 => {
                let lost = match lost {
                    0 => String::new(),
                    lost => format!(" ({lost} events were lost)"),
                };
                errln!(
                    "{}: warning: {missing} context switches are missing from the recording{lost}",
                    path.display()
                );
            }
            TraceSource::Recording { .. } | TraceSource::File { .. } => {}
        }
        if let TraceSource::Recording { unwoken: 1.., .. } = &traced.kind {
            errln!(
                "{}: warning: the recording has no wake-ups, so it shows no latencies\n  hint: {}",
                path.display(),
                trace::recording::EVENTS_HINT
            );
        }
        if self.events {
            print_events(&traced)?;
        }
        let mut exporting = exports.start(&traced.header)?;
        let mut tables = Tables::new(self, &traced.header);
        let mut sinks = Tee::new().with(&mut exporting).with(&mut tables);
        let output = self.output.as_ref();
        let named = page::machine_of(&traced.header);
        let mut scan = output.map(|_| page::scan(&traced.header, machine.or(named.as_ref()), self.traces.len()));
        let wanted = Wanted::Longest(self.explain.into());
        let mut find = output.map(|_| Find::new(wanted, traced.header.cpus.len()));
        if let (Some(scan), Some(find)) = (&mut scan, &mut find) {
            sinks = sinks.with(scan).with(find);
        }
        let result = with_progress(name, |progress| traced.summarise(&mut sinks, progress))?;
        if result.interrupted {
            let reached = duration::format(result.simulated_ns);
            errln!("{}: interrupted after {reached} of the trace", path.display());
        } else {
            done.errors.extend(exporting.finish(result.simulated_ns));
            tables.finish(result.simulated_ns)?;
            if let (Some(scan), Some(find)) = (scan, find) {
                let mut shown = page::finish_run(&traced.header, scan, result.clone(), self.timeslice);
                shown.lacks = lacks(&traced.kind);
                shown.why = format!("windtunnel why {}", runner::quote::quote(&path.to_string_lossy()));
                // A trace without waits has none to explain.
                let waits = find.finish().unwrap_or_default();
                let told = with_progress(name, |progress| why::explain_traced(&traced, &waits, progress))?;
                shown.explained = told.iter().map(Told::for_page).collect();
                done.pages.push(shown);
            }
        }
        done.results.push(result);
        Ok(())
    }

    /// Returns the files that this command writes, with the options that request them.
    fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let mut all = outputs(&[("--json", &self.json), ("--output", &self.output)]);
        all.extend(self.exports.outputs());
        all
    }

    fn has_stdout(&self) -> bool {
        self.outputs().iter().any(|(_, path)| destination::is_stdout(path))
    }
}

/// Returns sentences about what a recording lacks.
fn lacks(kind: &TraceSource) -> Vec<String> {
    let TraceSource::Recording {
        missing, lost, unwoken, ..
    } = kind
    else {
        return Vec::new();
    };
    let all = [
        (*lost > 0).then(|| format!("the recording says that {lost} events were lost")),
        (*missing > 0).then(|| format!("{missing} context switches are missing from the recording")),
        (*unwoken > 0).then(|| "the recording has no wake-ups, so there are no latencies after wake-ups".to_owned()),
    ];
    all.into_iter().flatten().collect()
}

/// The traces that have been read so far, and the errors that occurred.
#[derive(Default)]
struct Collected {
    results: Vec<RunResult>,
    /// Runs for the HTML page.
    pages: Vec<report::html::Run>,
    /// Errors of reading and writing.
    errors: Vec<Error>,
}

/// The requested tables of one trace.
struct Tables {
    header: Header,
    latency: Option<Latency>,
    timehist: Option<Timehist<BufWriter<console::Stdout>>>,
    schedstat: Option<Schedstat>,
}

impl Tables {
    fn new(args: &Args, header: &Header) -> Tables {
        let nr_cpus = header.cpus.len();
        let any = args.latency || args.timehist || args.schedstat;
        if any && args.traces.len() > 1 {
            outln!("{} on {} under {}", header.policy, header.machine, header.workload);
        }
        let stdout = || BufWriter::new(console::Stdout);
        Tables {
            header: header.clone(),
            latency: args.latency.then(|| Latency::new(nr_cpus)),
            timehist: args.timehist.then(|| Timehist::new(stdout(), nr_cpus)),
            schedstat: args.schedstat.then(|| Schedstat::new(&header.cpus)),
        }
    }

    /// Prints the tables that need the whole trace. The trace ended at `end` (ns).
    fn finish(self, end: u64) -> Result<(), Error> {
        if let Some(timehist) = self.timehist {
            timehist
                .finish()
                .map_err(|error| Error::new(format!("standard output: {error}")))?;
        }
        if let Some(latency) = self.latency {
            out!("{}", latency.finish(end));
        }
        if let Some(schedstat) = self.schedstat {
            out!("{}", schedstat.finish(end, self.header.hz));
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
    console::styled(&report::table(results, console::surface()));
    for result in results.iter().filter(|result| !result.interrupted) {
        outln!("{}: trace hash {}", result.policy, result.trace_hash);
    }
}

/// Prints the number of events of a recording by name, and the number of lost events.
fn print_events(traced: &Traced) -> Result<(), Error> {
    let TraceSource::Recording { lost, counts, .. } = &traced.kind else {
        let message = format!(
            "{}: --events is for recordings, and this is a trace file",
            traced.path.display()
        );
        return Err(Error::new(message).hint("leave out --events; the tables count the events of a trace file"));
    };
    for (name, count) in counts {
        outln!("{name} {count}");
    }
    outln!("lost {lost}");
    Ok(())
}
