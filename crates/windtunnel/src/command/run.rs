// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel run` runs policies on a simulated machine, prints their results and writes files.

use super::complete;
use super::exports::{ExportArgs, distinct_names, outputs, run_path, write_json};
use super::progress::with_progress;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use lab::page;
use lab::validate::Validation;
use lab::why::{self, Told};
use report::wait::{Find, Wanted};
use report::{RunResult, Status};
use runner::exit::ExitStatus;
use runner::exports::Exports;
use runner::inputs::Inputs;
use runner::scenario::{DEFAULT_NS, Observer, Outcome, Scenario};
use runner::spec::RunSpec;
use runner::{console, destination, errln, interrupt, outln};
use std::io;
use std::path::{Path, PathBuf};
use trace::export::Printk;
use trace::{DrawOptions, Tee, escape};

#[derive(ClapArgs)]
pub struct Args {
    /// sched_ext object files (FILE.bpf.o), names of built policies (`policy list`), `exec: COMMAND`
    /// for schedulers with their own program, or `eevdf` for the built-in fair class
    #[arg(required = true, add = complete::policies())]
    policies: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl Args {
    pub fn run(mut self) -> Result<ExitStatus, Error> {
        // The lines of several programs would be mixed.
        self.options.spec.program_output = self.policies.len() == 1;
        self.options.run(&self.policies)
    }
}

/// The options of `run` and `exec`.
#[derive(ClapArgs)]
pub struct Options {
    #[command(flatten)]
    pub spec: RunSpec,
    /// Run the policies in the sanitizer: check every memory access and call against the rules of
    /// the kernel's verifier, and end the run with the source line of the first violation. The
    /// schedule is the same, but the run takes longer
    #[arg(long, alias = "check")]
    sanitize: bool,
    /// Print what the policies print with bpf_printk() to standard error, as trace_pipe does: with
    /// the running task, the CPU and the simulated time
    #[arg(long)]
    printk: bool,
    /// Print the kernel's debug dump of a policy that fails, and include it in the JSON
    #[arg(long)]
    dump: bool,
    /// Write the results as JSON to FILE (- for standard output), one object for each policy
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a trace of all events to FILE. With several policies, each has a file of its own:
    /// out.wtt becomes out.fifo.wtt
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    exports: ExportArgs,
    /// Write the callbacks, locks, fairness and busiest tasks of each policy to FILE (- for
    /// standard output)
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Write where each policy's costs come from to FILE (- for standard output): the instructions of
    /// each source line, the fields whose cache lines move between CPUs, and the callbacks that wait
    /// for each other's locks. The schedule is the same, but the run takes longer. The JSON
    /// and the HTML page contain these costs, too
    #[arg(long, value_name = "FILE", conflicts_with = "sanitize")]
    hotspots: Option<PathBuf>,
    /// Write the instructions by callback, function and source line to FILE as folded stacks, for
    /// tools that draw flame graphs. With several policies, each has a file of its own
    #[arg(long, value_name = "FILE", conflicts_with = "sanitize")]
    folded: Option<PathBuf>,
    /// Write one HTML page of all policies to FILE: timelines, runqueues, migrations, latencies,
    /// fairness, costs
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Explain the N longest waits of each policy on the page of --html, as `windtunnel why` does.
    /// Executes each run twice more
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=100))]
    explain: u16,
    /// Draw the schedule of each CPU, or only the window FROM-TO, for example 10ms-20ms
    #[arg(long, value_name = "FROM-TO", num_args = 0..=1, default_missing_value = "")]
    draw: Option<String>,
}

impl Options {
    /// Runs the policies and prints their results.
    pub fn run(self, policies: &[String]) -> Result<ExitStatus, Error> {
        destination::check_stdout(self.outputs())?;
        let spec = RunSpec {
            sanitize: self.sanitize,
            hotspots: self.hotspots.is_some() || self.folded.is_some(),
            ..self.spec.clone()
        };
        let mut scenarios = spec.scenarios(policies, &[])?;
        let runs = scenarios.len();
        let names = distinct_names(scenarios.iter().map(|scenario| scenario.policy.name()));
        let mut exports = Vec::new();
        for (scenario, name) in scenarios.iter_mut().zip(&names) {
            scenario.trace = self.trace.as_ref().map(|path| run_path(path, name, runs));
            scenario.draw = self.draw_options(scenario.limit_ns())?;
            exports.push(self.exports.for_run(name, runs));
        }
        let shared = [&self.json, &self.details, &self.hotspots, &self.html];
        let shared = shared.into_iter().flatten();
        let traces = scenarios.iter().filter_map(|scenario| scenario.trace.as_ref());
        let folded = self.folded.as_ref();
        let folded: Vec<PathBuf> = names
            .iter()
            .filter_map(|name| Some(run_path(folded?, name, runs)))
            .collect();
        let paths = shared
            .chain(&folded)
            .chain(traces)
            .chain(exports.iter().flat_map(Exports::paths));
        // First, because the check creates temporary files, which a signal must not leave behind.
        interrupt::listen();
        destination::check(paths.map(PathBuf::as_path))?;
        let mut done = Collected::default();
        for (scenario, exports) in scenarios.iter().zip(&exports) {
            if interrupt::signal().is_some() {
                break;
            }
            if let Err(error) = self.run_one(scenario, exports, runs, &mut done) {
                done.errors.push(error);
                break;
            }
        }
        let left_out = names.get(done.outcomes.len()..).unwrap_or_default();
        let validation = match scenarios.first() {
            Some(first) if interrupt::signal().is_none() && (!self.has_stdout() || self.html.is_some()) => {
                self.validate(&first.spec)
            }
            _ => None,
        };
        self.print(&mut done, &spec, &scenarios, left_out, validation.as_ref());
        if let Some(validation) = validation.filter(|_| !self.has_stdout()) {
            console::styled(&validation.text(console::surface()));
        }
        done.errors.iter().for_each(|error| errln!("windtunnel: {error}"));
        let failed = done.outcomes.iter().any(|outcome| {
            let result = &outcome.result;
            let subs = result.sub_schedulers.iter();
            result.failed() || result.lost_tasks.is_some() || subs.into_iter().any(|sub| sub.failure().is_some())
        });
        Ok(ExitStatus::from(match done.errors.is_empty() {
            true => u8::from(failed),
            false => 2,
        }))
    }

    /// Validates the replay, if the workload is a recording.
    fn validate(&self, run: &RunSpec) -> Option<Validation> {
        // The machine stays unnamed if the user names none, so that it has the recorded number of
        // ticks.
        let spec = RunSpec {
            machine: self.spec.machine.clone(),
            ..run.clone()
        };
        super::replay::validated(&Inputs::default(), &spec)
    }

    /// Runs one scenario and writes its files. If a signal interrupts the run, no files are
    /// written.
    fn run_one(&self, scenario: &Scenario, exports: &Exports, runs: usize, done: &mut Collected) -> Result<(), Error> {
        let name = scenario.policy.name();
        let mut exporting = exports.start(&scenario.header())?;
        let machine = &scenario.machine;
        let html = self.html.as_ref();
        let mut scan = html.map(|_| page::scan(&scenario.header(), Some(machine), runs));
        let wanted = Wanted::Longest(self.explain.into());
        let mut find = html.map(|_| Find::new(wanted, machine.topology.cpus.len()));
        let mut printk = self.printk.then(|| {
            let prefix = if runs > 1 { format!("{name}: ") } else { String::new() };
            Printk::new(io::stderr(), &prefix, scenario.machine.topology.nr_cpus() as usize)
        });
        let mut sinks = Tee::new().with(&mut exporting);
        if let (Some(scan), Some(find)) = (&mut scan, &mut find) {
            sinks = sinks.with(scan).with(find);
        }
        if let Some(printk) = &mut printk {
            sinks = sinks.with(printk);
        }
        let mut observer = Observer {
            sink: &mut sinks,
            reads: Vec::new(),
            counters: true,
            details: !exports.is_empty() || self.html.is_some(),
        };
        let mut outcome = match self.printk {
            // A progress bar would be mixed with the lines.
            true => scenario.run_observed(&mut observer, &mut |_| {})?,
            false => with_progress(name, |progress| scenario.run_observed(&mut observer, progress))?,
        };
        let result = &outcome.result;
        if !result.interrupted {
            done.errors.extend(exporting.finish(result.simulated_ns));
            if let (Some(scan), Some(find)) = (scan, find) {
                let mut shown = page::finish_run(&scenario.header(), scan, result.clone(), None);
                shown.why = scenario.spec.command("why");
                // A run without waits has none to explain.
                let waits = find.finish().unwrap_or_default();
                let told = with_progress("why", |progress| why::explain(scenario, &waits, progress))?;
                shown.explained = told.iter().map(Told::for_page).collect();
                done.pages.push(shown);
            }
        }
        if let Some(window) = scenario
            .draw
            .as_ref()
            .filter(|window| window.from >= result.simulated_ns)
        {
            let (from, end) = (duration::format(window.from), duration::format(result.simulated_ns));
            outcome.drawing = Some(format!(
                "nothing to draw: the window starts at {from}, but the run ended at {end}\n"
            ));
        }
        done.errors.extend(outcome.unwritten.take());
        if let (Some(path), Some(costs)) = (&self.folded, &outcome.result.hotspots)
            && !outcome.result.interrupted
        {
            let written = destination::write(&run_path(path, name, runs), costs.folded().as_bytes());
            done.errors.extend(written.err());
        }
        print_notes(name, &outcome, self.dump);
        done.outcomes.push(outcome);
        Ok(())
    }

    /// Parses `--draw` for a run that ends at `end` (ns) at the latest.
    fn draw_options(&self, end: Option<u64>) -> Result<Option<DrawOptions>, Error> {
        const COLUMNS: u64 = 100;
        let Some(window) = &self.draw else { return Ok(None) };
        let (from, to) = match window.split_once('-') {
            Some((from, to)) => {
                let time =
                    |text| duration::parse(text).map_err(|error| Error::new(format!("--draw {window}: {error}")));
                (time(from)?, time(to)?)
            }
            None if window.is_empty() => (0, end.unwrap_or(DEFAULT_NS)),
            None => {
                return Err(Error::new(format!(
                    "--draw {window}: expected FROM-TO, for example 10ms-20ms"
                )));
            }
        };
        if from >= to {
            return Err(Error::new(format!(
                "--draw {window}: the window is empty: FROM must be before TO"
            )));
        }
        if let Some(end) = end.filter(|&end| from >= end) {
            let end = duration::format(end);
            return Err(Error::new(format!(
                "--draw {window}: the window starts after the end of the run at {end}"
            ))
            .hint("extend the run with --for"));
        }
        let mut options = DrawOptions::columns(from, to.min(end.unwrap_or(to)), COLUMNS);
        if let Some(width) = console::surface().width {
            options.width = width;
        }
        Ok(Some(options))
    }

    /// Prints and writes the results. If a file cannot be written, the error is added to
    /// `done.errors`.
    fn print(
        &self,
        done: &mut Collected,
        spec: &RunSpec,
        scenarios: &[Scenario],
        left_out: &[String],
        validation: Option<&Validation>,
    ) {
        let outcomes = &done.outcomes;
        let mut results: Vec<RunResult> = outcomes.iter().map(|outcome| outcome.result.clone()).collect();
        if !self.dump {
            let exits = results.iter_mut().filter_map(|result| result.exit.as_mut());
            exits.for_each(|exit| exit.dump.clear());
        }
        let complete: Vec<&RunResult> = results.iter().filter(|result| !result.interrupted).collect();
        let surface = console::surface();
        let quiet = self.has_stdout();
        if !quiet && !results.is_empty() {
            for outcome in outcomes {
                if let Some(drawing) = &outcome.drawing {
                    outln!("{}\n{drawing}", outcome.result.policy);
                }
            }
            // `print_notes` has already printed the failures to standard error.
            console::styled(&match console::outputs_are_one() {
                true => report::table_without_failures(&results, surface),
                false => report::table(&results, surface),
            });
            for (result, scenario) in results.iter().zip(scenarios) {
                if result.lost_tasks.is_some() {
                    let run = RunSpec {
                        sanitize: false,
                        ..scenario.spec.clone()
                    };
                    let command = run.command("invariants");
                    outln!("{}: to draw the first wait that is too long: {command}", result.policy);
                }
            }
            for result in complete.iter().filter(|result| result.status != Status::Refused) {
                outln!("{}: trace hash {}", result.policy, result.trace_hash);
            }
            for result in results.iter().filter(|result| result.printed_lines > 0 && !self.printk) {
                outln!(
                    "{}: printed {} lines with bpf_printk (--printk shows them)",
                    result.policy,
                    result.printed_lines
                );
            }
            for (result, storm) in results.iter().filter_map(|result| Some((result, result.kick_storm()?))) {
                console::styled(&surface.line(&escape::line(&format!("{}: {storm}", result.policy)), " "));
            }
            for result in results.iter().filter(|result| !result.profile.is_empty()) {
                outln!("{}: profile {}", result.policy, result.profile);
            }
            for (result, checked) in complete.iter().filter_map(|result| Some((result, result.checked?))) {
                let (accesses, calls) = (checked.accesses, checked.calls);
                outln!(
                    "{}: checked {accesses} memory accesses and {calls} calls",
                    result.policy
                );
            }
        }
        if interrupt::signal().is_some() {
            note_interruption(&results, left_out, quiet);
        }
        if !quiet && !results.is_empty() {
            outln!("repeat: {}", spec.command_for("run", scenarios, &[]));
        }
        if let Some(path) = &self.json {
            done.errors.extend(write_json(path, &complete).err());
        }
        if complete.is_empty() {
            return;
        }
        if let Some(path) = &self.hotspots {
            let stdout = destination::is_stdout(path);
            let surface = if stdout { surface } else { false.into() };
            let text: Vec<String> = complete.iter().map(|result| hotspots_text(result, surface)).collect();
            match destination::write(path, text.join("\n").as_bytes()) {
                Ok(()) if !stdout && !quiet => outln!("hot spots: {}", path.display()),
                written => done.errors.extend(written.err()),
            }
        }
        if let Some(path) = &self.details {
            let stdout = destination::is_stdout(path);
            let surface = if stdout { surface } else { false.into() };
            let text: Vec<String> = complete.iter().map(|result| report::details(result, surface)).collect();
            match destination::write(path, text.join("\n").as_bytes()) {
                Ok(()) if !stdout && !quiet => outln!("details: {}", path.display()),
                written => done.errors.extend(written.err()),
            }
        }
        if let Some(path) = &self.html {
            match page::write(path, &done.pages, validation) {
                Ok(()) if !quiet => outln!("report: {}", path.display()),
                written => done.errors.extend(written.err()),
            }
        }
    }

    /// Returns the files that this command writes, with the options that request them.
    fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let mut all = outputs(&[
            ("--json", &self.json),
            ("--trace", &self.trace),
            ("--html", &self.html),
            ("--details", &self.details),
            ("--hotspots", &self.hotspots),
            ("--folded", &self.folded),
        ]);
        all.extend(self.exports.outputs());
        all
    }

    /// Returns whether a file with machine-readable content is written to standard output. In this
    /// case nothing else may be printed there.
    fn has_stdout(&self) -> bool {
        let texts = ["--details", "--hotspots"];
        let mut others = self.outputs().into_iter().filter(|(name, _)| !texts.contains(name));
        others.any(|(_, path)| destination::is_stdout(path))
    }
}

/// Returns the text of `--hotspots` about a result.
fn hotspots_text(result: &RunResult, surface: report::Surface) -> String {
    match &result.hotspots {
        Some(costs) => costs.text(&result.policy, surface),
        None => format!(
            "{}: no instructions were counted: it has no BPF code\n",
            escape::line(&result.policy)
        ),
    }
}

/// The policies that have been run so far, and the errors that occurred.
#[derive(Default)]
struct Collected {
    outcomes: Vec<Outcome>,
    /// Runs for the HTML page.
    pages: Vec<report::html::Run>,
    /// Errors of running and writing.
    errors: Vec<Error>,
}

/// Reports which runs were interrupted by a signal and which runs were not started.
fn note_interruption(results: &[RunResult], left_out: &[String], quiet: bool) {
    let mut parts = Vec::new();
    for result in results.iter().filter(|result| result.interrupted) {
        let reached = duration::format(result.simulated_ns);
        parts.push(format!("{} ended at {reached} of simulated time", result.policy));
    }
    if !left_out.is_empty() {
        parts.push(format!("not run: {}", left_out.join(", ")));
    }
    if parts.is_empty() {
        return;
    }
    let note = format!("interrupted: {}", parts.join("; "));
    if quiet {
        errln!("windtunnel: {note}");
    } else {
        outln!("{note}");
    }
}

fn print_notes(policy: &str, outcome: &Outcome, dump: bool) {
    for warning in &outcome.warnings {
        errln!("{policy}: warning: {warning}");
    }
    if outcome.result.status == Status::Deadlock
        && let Some(failure) = outcome.result.failure()
    {
        errln!("{policy} {failure}");
    }
    if let Some(exit) = &outcome.result.exit {
        let failure = outcome.result.failure().unwrap_or_else(|| exit.sentence());
        errln!("{policy} {failure}");
        let location = exit.location();
        if !location.is_empty() {
            errln!("  in {}", location.join(" at "));
        }
        for caller in exit.backtrace.iter().skip(1).rev().skip(1).rev() {
            errln!("  called from {caller}");
        }
        for note in &exit.notes {
            errln!("  {note}");
        }
        if dump {
            exit.dump.lines().for_each(|line| errln!("  {line}"));
        } else if !exit.dump.is_empty() {
            errln!("  (--dump prints the kernel's debug dump)");
        }
    }
}
