// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel run`.

use super::exports::{ExportArgs, path_of};
use super::inputs::{Inputs, find};
use super::progress::with_progress;
use clap::Args as ClapArgs;
use report::{RunResult, Status};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::{DrawOptions, Tee};
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::page;
use windtunnel::scenario::{DEFAULT_NS, Onlooker, Outcome};

#[derive(ClapArgs)]
pub struct Args {
    /// sched_ext objects (FILE.bpf.o), names of built policies, or `eevdf` for the built-in fair class
    #[arg(required = true)]
    policies: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// Checked mode: hold every memory access and call of the policies to the rules of the kernel's verifier, and end the run at the first
    /// that breaks one, with its source line. The schedule is the same; it takes longer
    #[arg(long)]
    check: bool,
    /// Print the kernel's debug dump of a policy that fails, and write it to the JSON
    #[arg(long)]
    dump: bool,
    /// Write results as JSON, one object a policy, to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write everything that happened to FILE (FILE.POLICY with several policies)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    exports: ExportArgs,
    /// Write callbacks, locks, fairness and the busiest tasks of each policy to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Write one HTML page of all policies to FILE: timelines, runqueues, migrations, latencies, fairness, costs
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw the schedule per CPU; with FROM-TO only that window, for example 10ms-20ms
    #[arg(long, value_name = "FROM-TO", num_args = 0..=1, default_missing_value = "")]
    draw: Option<String>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let policies = find(&self.policies)?;
        let mut outcomes = Vec::new();
        let mut runs = Vec::new();
        for mut scenario in self.inputs.scenarios(&policies, &[])? {
            let policy = scenario.policy.clone();
            scenario.checked = self.check;
            scenario.trace = self
                .trace
                .as_ref()
                .map(|path| path_of(path, policy.name(), policies.len()));
            scenario.draw = self.draw_options(scenario.workload.duration_ns)?;
            let exports = self.exports.of(policy.name(), policies.len());
            let mut exporting = exports.start(&scenario.header())?;
            let mut scan = self
                .html
                .as_ref()
                .map(|_| page::scan(&scenario.header(), policies.len()));
            let mut sinks = Tee::new().with(&mut exporting);
            if let Some(scan) = &mut scan {
                sinks = sinks.with(scan);
            }
            let mut onlooker = Onlooker {
                sink: &mut sinks,
                reads: Vec::new(),
                details: !exports.is_empty() || self.html.is_some(),
            };
            let outcome = with_progress(policy.name(), |progress| scenario.watched(&mut onlooker, progress))?;
            exporting.finish(outcome.result.simulated_ns)?;
            runs.extend(scan.map(|scan| page::finished(scan, outcome.result.clone(), None)));
            print_notes(policy.name(), &outcome, self.dump);
            outcomes.push(outcome);
        }
        self.print(&outcomes)?;
        if let Some(path) = &self.html {
            page::write(path, &runs)?;
            if self.json.as_deref() != Some(Path::new("-")) {
                println!("report: {}", path.display());
            }
        }
        let failed = outcomes.iter().any(|outcome| outcome.result.failed());
        Ok(ExitCode::from(u8::from(failed)))
    }

    fn draw_options(&self, workload_ns: Option<u64>) -> Result<Option<DrawOptions>, Error> {
        const COLUMNS: u64 = 100;
        let Some(window) = &self.draw else { return Ok(None) };
        let whole = self.inputs.for_ns.or(workload_ns).unwrap_or(DEFAULT_NS);
        let (from, to) = match window.split_once('-') {
            Some((from, to)) => {
                let time =
                    |text| duration::parse(text).map_err(|error| Error::new(format!("--draw {window}: {error}")));
                (time(from)?, time(to)?)
            }
            None if window.is_empty() => (0, whole),
            None => {
                return Err(Error::new(format!(
                    "--draw {window}: expected FROM-TO, for example 10ms-20ms"
                )));
            }
        };
        if from >= to {
            return Err(Error::new(format!("--draw {window}: the window is empty")));
        }
        Ok(Some(DrawOptions::columns(from, to, COLUMNS)))
    }

    fn print(&self, outcomes: &[Outcome]) -> Result<(), Error> {
        let mut results: Vec<RunResult> = outcomes.iter().map(|outcome| outcome.result.clone()).collect();
        for exit in results
            .iter_mut()
            .filter_map(|result| result.exit.as_mut())
            .filter(|_| !self.dump)
        {
            exit.dump.clear();
        }
        let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if !to_stdout(&self.json) {
            for outcome in outcomes {
                if let Some(drawing) = &outcome.drawing {
                    println!("{}\n{drawing}", outcome.result.policy);
                }
            }
            print!("{}", report::table(&results, std::io::stdout().is_terminal()));
            for (result, policy) in results.iter().zip(&self.policies) {
                if result.lost_tasks.is_some() {
                    let command = self.inputs.command("invariants", std::slice::from_ref(policy));
                    println!("{}: the first wait that is too long, drawn: {command}", result.policy);
                }
            }
            for result in results.iter().filter(|result| result.status != Status::Refused) {
                println!("{}: trace hash {}", result.policy, result.trace_hash);
            }
            for (result, checked) in results.iter().filter_map(|result| Some((result, result.checked?))) {
                let (accesses, calls) = (checked.accesses, checked.calls);
                println!("{}: checked {accesses} accesses, {calls} calls", result.policy);
            }
            let check = if self.check { " --check" } else { "" };
            println!("repeat: {}{check}", self.inputs.command("run", &self.policies));
        }
        if let Some(path) = &self.json {
            let json: Result<Vec<_>, _> = results.iter().map(RunResult::to_json).collect();
            let text = json.and_then(|json| serde_json::to_string_pretty(&json));
            let text = text.map_err(|error| Error::new(error.to_string()))?;
            write(path, &(text + "\n"))?;
        }
        if let Some(path) = &self.details {
            let text: Vec<String> = results.iter().map(report::details).collect();
            write(path, &text.join("\n"))?;
            if !to_stdout(&self.details) && !to_stdout(&self.json) {
                println!("details: {}", path.display());
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    if path == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    }
    std::fs::write(path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

fn print_notes(policy: &str, outcome: &Outcome, dump: bool) {
    for warning in &outcome.warnings {
        eprintln!("{policy}: warning: {warning}");
    }
    if !outcome.deadlock.is_empty() {
        let shown: Vec<String> = outcome.deadlock.iter().take(8).map(u32::to_string).collect();
        eprintln!(
            "{policy}: the run ended early: all {} tasks left wait for each other (pids {}{})",
            outcome.deadlock.len(),
            shown.join(", "),
            if outcome.deadlock.len() > 8 { ", ..." } else { "" }
        );
    }
    if let Some(exit) = &outcome.result.exit {
        eprintln!(
            "{policy} {}",
            outcome.result.failure().unwrap_or_else(|| exit.sentence())
        );
        if let Some(callback) = &exit.callback {
            eprintln!(
                "  in {callback}{}",
                exit.source.as_ref().map(|at| format!(" at {at}")).unwrap_or_default()
            );
        }
        for caller in exit.backtrace.iter().skip(1).rev().skip(1).rev() {
            eprintln!("  called from {caller}");
        }
        for note in &exit.notes {
            eprintln!("  {note}");
        }
        if dump {
            exit.dump.lines().for_each(|line| eprintln!("  {line}"));
        } else if !exit.dump.is_empty() {
            eprintln!("  (--dump prints the kernel's debug dump)");
        }
    }
}
