// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel run`.

use bpf::vm::Engine;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use report::RunResult;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::DrawOptions;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::load;
use windtunnel::policy::Policy;
use windtunnel::scenario::{DEFAULT_NS, Outcome, Scenario};
use windtunnel::search;

#[derive(ClapArgs)]
pub struct Args {
    /// sched_ext objects (FILE.bpf.o), names of built policies, or `eevdf` for the built-in fair class
    #[arg(required = true)]
    policies: Vec<String>,
    /// A name (`machine list`), an hwloc XML file, an hwloc synthetic string, or `host`
    #[arg(long, short, default_value = "numa32")]
    machine: String,
    /// An rt-app JSON file, a generator (`workload list`), for example closed:n=7,compute=250ms, or a recording's file
    #[arg(long, short, default_value = "mixed.json")]
    workload: String,
    /// Simulated time, for example 500ms [default: what the workload asks for, or until its tasks have exited]
    #[arg(long = "for", value_parser = duration::parse)]
    for_ns: Option<u64>,
    /// Where chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A policy's parameter: NAME=VALUE, or POLICY:NAME=VALUE for one of several (`policy show`)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write results as JSON, one object a policy, to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write everything that happened to FILE (FILE.POLICY with several policies)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write callbacks, locks, fairness and the busiest tasks of each policy to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Draw the schedule per CPU; with FROM-TO only that window, for example 10ms-20ms
    #[arg(long, value_name = "FROM-TO", num_args = 0..=1, default_missing_value = "")]
    draw: Option<String>,
    /// Take a CPU offline or bring it back: CPU:off@TIME or CPU:on@TIME
    #[arg(long, value_name = "CPU:off@TIME")]
    hotplug: Vec<String>,
    /// What executes the policy; both give the same bytes
    #[arg(long, value_enum, default_value_t)]
    engine: EngineArg,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum EngineArg {
    /// Machine code where there is a compiler for this host, else interpreted
    #[default]
    Auto,
    Jit,
    Interpreter,
}

impl EngineArg {
    fn engine(self) -> Engine {
        match self {
            EngineArg::Auto => Engine::default(),
            EngineArg::Jit => Engine::Jit,
            EngineArg::Interpreter => Engine::Interpreter,
        }
    }
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let policies = self
            .policies
            .iter()
            .map(|spec| Policy::find(spec))
            .collect::<Result<Vec<_>, _>>()?;
        let machine = machine::load(&self.machine, &paths(&search::folders("machines")))?;
        let workload = workload::load(&self.workload, &paths(&search::folders("workloads")))?;
        let settings = self.settings(&policies)?;
        let hotplug = self
            .hotplug
            .iter()
            .map(|spec| parse_hotplug(spec))
            .collect::<Result<Vec<_>, _>>()?;
        let mut outcomes = Vec::new();
        for (index, policy) in policies.iter().enumerate() {
            let scenario = Scenario {
                policy: policy.clone(),
                settings: settings[index].clone(),
                engine: self.engine.engine(),
                machine: machine.clone(),
                workload: workload.clone(),
                seed: self.seed,
                for_ns: self.for_ns,
                hotplug: hotplug.clone(),
                trace: self
                    .trace
                    .as_ref()
                    .map(|path| trace_path(path, policy.name(), policies.len())),
                draw: self.draw_options(workload.duration_ns)?,
            };
            let outcome = with_progress(policy.name(), |progress| scenario.run(progress))?;
            print_notes(policy.name(), &outcome);
            outcomes.push(outcome);
        }
        self.print(&outcomes)?;
        let failed = outcomes.iter().any(|outcome| outcome.result.failed());
        Ok(ExitCode::from(u8::from(failed)))
    }

    /// The settings of each policy. A name without a policy goes to all that have such a parameter.
    fn settings(&self, policies: &[Policy]) -> Result<Vec<Vec<(String, String)>>, Error> {
        let mut settings = vec![Vec::new(); policies.len()];
        for setting in &self.set {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Error::new(format!("--set {setting}: expected NAME=VALUE")));
            };
            let (policy, name) = match name.split_once(':') {
                Some((policy, name)) => (Some(policy), name),
                None => (None, name),
            };
            let mut found = false;
            for (index, known) in policies.iter().enumerate() {
                let chosen = match policy {
                    Some(policy) => known.name() == policy,
                    // One policy is told what it lacks; of several, those that have it take it.
                    None => policies.len() == 1 || load::has_parameter(known, name)?,
                };
                if chosen {
                    settings[index].push((name.to_owned(), value.to_owned()));
                    found = true;
                }
            }
            if !found {
                return Err(Error::new(format!(
                    "--set {setting}: none of the policies of this run takes it"
                )));
            }
        }
        Ok(settings)
    }

    fn draw_options(&self, workload_ns: Option<u64>) -> Result<Option<DrawOptions>, Error> {
        const COLUMNS: u64 = 100;
        let Some(window) = &self.draw else { return Ok(None) };
        let whole = self.for_ns.or(workload_ns).unwrap_or(DEFAULT_NS);
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
        let results: Vec<RunResult> = outcomes.iter().map(|outcome| outcome.result.clone()).collect();
        let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if !to_stdout(&self.json) {
            for outcome in outcomes {
                if let Some(drawing) = &outcome.drawing {
                    println!("{}\n{drawing}", outcome.result.policy);
                }
            }
            print!("{}", report::table(&results, std::io::stdout().is_terminal()));
            for result in &results {
                println!("{}: trace hash {}", result.policy, result.trace_hash);
            }
            println!("repeat: {}", self.command());
        }
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&results).map_err(|error| Error::new(error.to_string()))?;
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

    /// The command that repeats this run to the byte, with defaults spelled out.
    fn command(&self) -> String {
        let mut words = vec!["windtunnel run".to_owned()];
        words.extend(self.policies.iter().map(|policy| quote(policy)));
        words.push(format!(
            "--machine {} --workload {}",
            quote(&self.machine),
            quote(&self.workload)
        ));
        if let Some(ns) = self.for_ns {
            words.push(format!("--for {}", duration::format(ns)));
        }
        words.push(format!("--seed {}", self.seed));
        words.extend(self.set.iter().map(|setting| format!("--set {}", quote(setting))));
        words.extend(self.hotplug.iter().map(|spec| format!("--hotplug {}", quote(spec))));
        words.join(" ")
    }
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}

/// A word as a shell takes it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
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

/// `out.wtt` becomes `out.fifo.wtt` where several policies write one each.
fn trace_path(path: &Path, policy: &str, policies: usize) -> PathBuf {
    if policies == 1 {
        return path.to_owned();
    }
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    path.with_extension(format!("{policy}{extension}"))
}

fn parse_hotplug(spec: &str) -> Result<(u64, u32, bool), Error> {
    let bad = || {
        Error::new(format!(
            "--hotplug {spec}: expected CPU:off@TIME or CPU:on@TIME, for example 3:off@500ms"
        ))
    };
    let (cpu, rest) = spec.split_once(':').ok_or_else(bad)?;
    let (state, at) = rest.split_once('@').ok_or_else(bad)?;
    let online = match state {
        "on" => true,
        "off" => false,
        _ => return Err(bad()),
    };
    Ok((
        duration::parse(at).map_err(|_| bad())?,
        cpu.parse().map_err(|_| bad())?,
        online,
    ))
}

/// Shows a bar on a terminal if the run takes longer than a moment.
fn with_progress<T>(name: &str, run: impl FnOnce(&mut dyn FnMut(u64)) -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return run(&mut |_| {});
    }
    let started = std::time::Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let result = run(&mut |done| {
        if bar.is_none() && started.elapsed().as_millis() > 500 {
            let style = ProgressStyle::with_template("{prefix:>16} [{bar:40}] {percent:>3}% {eta}");
            let made = ProgressBar::new(1000).with_prefix(name.to_owned());
            made.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar = Some(made);
        }
        if let Some(bar) = &bar {
            bar.set_position(done);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result
}

fn print_notes(policy: &str, outcome: &Outcome) {
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
        eprintln!("{policy}: {}: {}", exit.reason, exit.message);
        if let Some(callback) = &exit.callback {
            eprintln!(
                "  in {callback}{}",
                exit.source.as_ref().map(|at| format!(" at {at}")).unwrap_or_default()
            );
        }
        for line in exit.dump.lines().take(40) {
            eprintln!("  {line}");
        }
    }
}
