// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel experiment` lists, describes and runs experiments.

use super::complete;
use super::live;
use super::progress::bar;
use clap::{Args as ClapArgs, Subcommand};
use input::error::Error;
use lab::experiment::measure::kinds;
use lab::experiment::{self, Comparison, Experiment, Options, Sensitivity};
use runner::exit::ExitStatus;
use runner::{console, destination, errln, interrupt, out, outln};
use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub enum Action {
    /// List names and titles
    List,
    /// Describe an experiment and print the command of each of its runs
    Show {
        /// A name (`experiment list`) or a directory with an experiment.toml
        #[arg(add = complete::experiments())]
        name: String,
    },
    /// List what an experiment can measure in a run
    Measures,
    /// Run experiments and compare the results with the published ones
    Run(Args),
}

#[derive(ClapArgs)]
pub struct Args {
    /// Names (`experiment list`), groups of names such as pmqs, or directories with an
    /// experiment.toml
    #[arg(required_unless_present = "all", add = complete::experiments())]
    names: Vec<String>,
    /// Run every experiment and print a summary table
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the tables to FILE as Markdown, or as an HTML page if its name ends in .html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the results as an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the results to measured.csv and to the README of each experiment
    #[arg(long, conflicts_with_all = ["seeds", "with"])]
    update: bool,
    /// Run every case with the seeds 1 to N instead of the seeds of the definition
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Number of runs at the same time [default: number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Set a variable of the definition (`experiment show`)
    #[arg(long, value_name = "NAME=VALUE")]
    with: Vec<String>,
    /// Halve and double each constant of the machines, one at a time, and show which conclusions
    /// depend on it
    #[arg(long, conflicts_with_all = ["all", "update", "report", "live"])]
    sensitivity: bool,
    /// Run on the kernel of this host instead of simulating (`windtunnel live study`)
    #[arg(long, conflicts_with_all = ["all", "update", "report", "threads"])]
    live: bool,
}

impl Action {
    pub fn run(self) -> Result<ExitStatus, Error> {
        match self {
            Action::List => list()?,
            Action::Show { name } => {
                let experiment = Experiment::find(&name)?;
                let plan = experiment.plan(&[])?;
                out!("{}", experiment::show(&experiment, &plan));
            }
            Action::Measures => {
                for kind in kinds() {
                    outln!("{}: {}", kind.name, kind.about);
                    for (name, meaning) in kind.arguments {
                        outln!("    {name}: {meaning}");
                    }
                }
            }
            Action::Run(args) => return args.run(),
        }
        Ok(ExitStatus::SUCCESS)
    }
}

fn list() -> Result<(), Error> {
    let title = |(name, _): (String, PathBuf)| {
        let title = Experiment::find(&name)?.definition.title;
        Ok((name, title))
    };
    let rows = experiment::list()
        .into_iter()
        .map(title)
        .collect::<Result<Vec<_>, Error>>()?;
    console::styled(&report::layout::list(&rows, console::surface()));
    Ok(())
}

impl Args {
    fn run(self) -> Result<ExitStatus, Error> {
        if self.live {
            return live::exec(self.study());
        }
        let printed = self.json.then_some(("--json", Path::new("-")));
        let report = self.report.as_deref().map(|path| ("--report", path));
        destination::check_stdout(printed.into_iter().chain(report))?;
        let with = self.with.iter().map(|pair| {
            let parts = pair.split_once('=');
            let parts = parts.ok_or_else(|| Error::new(format!("--with {pair}: expected NAME=VALUE")))?;
            Ok((parts.0.to_owned(), parts.1.to_owned()))
        });
        let options = Options {
            seeds: self.seeds,
            threads: self.threads,
            with: with.collect::<Result<_, Error>>()?,
        };
        let experiments = self.experiments()?;
        let updated = experiments.iter().filter(|_| self.update).map(Experiment::measured);
        let updated: Vec<PathBuf> = updated.collect();
        if let Some(path) = updated.iter().find(|path| shipped::contains(path)) {
            return Err(
                Error::new(format!("{}: a built-in experiment cannot be updated", path.display()))
                    .hint("run the command in the repository, or copy the experiment's directory to ./experiments"),
            );
        }
        if self.sensitivity {
            return self.sensitivity(&experiments, &options);
        }
        // First, because the check creates temporary files, which a signal must not leave behind.
        interrupt::listen();
        destination::check(updated.iter().chain(&self.report).map(PathBuf::as_path))?;
        let surface = console::surface();
        let mut comparisons: Vec<Comparison> = Vec::new();
        let mut errors = Vec::new();
        let mut left_out = Vec::new();
        for experiment in &experiments {
            if interrupt::signal().is_some() {
                left_out.push(experiment.name.as_str());
                continue;
            }
            let bar = bar(&experiment.name);
            let comparison = experiment.run(&options, &|done, total| {
                bar.set_length(total);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            let comparison = match comparison {
                Ok(comparison) => comparison,
                // An error in one experiment does not stop the others.
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if !self.json {
                console::styled(&experiment::table(&comparison, surface));
                outln!();
            }
            if comparison.interrupted() {
                // Results of an interrupted experiment are incomplete, so they are written to no
                // file.
                let (runs, planned) = (comparison.runs, comparison.planned);
                let note = format!("{}: interrupted after {runs} of {planned} runs", experiment.name);
                if self.json {
                    errln!("{note}");
                } else {
                    outln!("{note}");
                }
                continue;
            }
            if self.update {
                let plan = experiment.plan(&options.with)?;
                match experiment.update(&plan, &comparison) {
                    Ok(paths) => paths.iter().for_each(|path| errln!("wrote {}", path.display())),
                    Err(error) => errors.push(error),
                }
            }
            comparisons.push(comparison);
        }
        if self.json {
            let values: Vec<serde_json::Value> = comparisons.iter().map(experiment::json).collect();
            let text = serde_json::to_string_pretty(&values).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else if comparisons.len() > 1 {
            console::styled(&experiment::summary(&comparisons, surface));
        }
        if !left_out.is_empty() {
            errln!("not run: {}", left_out.join(", "));
        }
        if let Some(path) = self.report.as_ref().filter(|_| !comparisons.is_empty()) {
            let text = match path.extension().is_some_and(|ending| ending == "html") {
                true => experiment::page(&comparisons),
                false => {
                    let tables = comparisons.iter().map(|c| experiment::table(c, false) + "\n");
                    tables.collect::<String>() + &experiment::summary(&comparisons, false)
                }
            };
            errors.extend(destination::write(path, text.as_bytes()).err());
        }
        if let Some(path) = self.html.as_ref().filter(|_| !comparisons.is_empty()) {
            errors.extend(destination::write(path, experiment::page(&comparisons).as_bytes()).err());
        }
        if let Some(last) = errors.pop() {
            errors.iter().for_each(|error| errln!("windtunnel: {error}"));
            return Err(last);
        }
        let failed = comparisons.iter().any(|comparison| comparison.failed() > 0);
        Ok(ExitStatus::from(u8::from(failed)))
    }

    /// Prints how the experiments depend on constants.
    fn sensitivity(&self, experiments: &[Experiment], options: &Options) -> Result<ExitStatus, Error> {
        interrupt::listen();
        let mut found: Vec<Sensitivity> = Vec::new();
        for experiment in experiments {
            let bar = bar(&experiment.name);
            let sensitivity = experiment.sensitivity(options, &|done, total| {
                bar.set_length(total);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            let sensitivity = sensitivity?;
            if sensitivity.runs < sensitivity.planned {
                let (runs, planned) = (sensitivity.runs, sensitivity.planned);
                errln!("{}: interrupted after {runs} of {planned} runs", experiment.name);
                break;
            }
            if !self.json {
                console::styled(&experiment::sensitivity::text(&sensitivity, console::surface()));
                outln!();
            }
            found.push(sensitivity);
        }
        if self.json {
            let values: Vec<serde_json::Value> = found.iter().map(experiment::sensitivity::json).collect();
            let text = serde_json::to_string_pretty(&values).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        }
        let failed = found.iter().any(|sensitivity| sensitivity.failed > 0);
        Ok(ExitStatus::from(u8::from(failed)))
    }

    /// Returns the arguments with which `windtunnel-live` runs the same experiments on this host.
    fn study(&self) -> Vec<OsString> {
        let mut words = vec!["study".to_owned()];
        words.extend(self.names.iter().cloned());
        words.extend(self.with.iter().map(|pair| format!("--with={pair}")));
        words.extend(self.seeds.map(|seeds| format!("--seeds={seeds}")));
        words.extend(self.json.then(|| "--json=-".to_owned()));
        words.into_iter().map(OsString::from).collect()
    }

    fn experiments(&self) -> Result<Vec<Experiment>, Error> {
        let known = experiment::list();
        let mut wanted: Vec<String> = Vec::new();
        if self.all {
            wanted.extend(known.iter().map(|(name, _)| name.clone()));
        }
        for name in &self.names {
            let group = format!("{}/", name.trim_end_matches('/'));
            let members: Vec<&String> = known
                .iter()
                .map(|(known, _)| known)
                .filter(|known| known.starts_with(&group))
                .collect();
            match members.as_slice() {
                [] => wanted.push(name.clone()),
                names => wanted.extend(names.iter().map(|name| (*name).clone())),
            }
        }
        wanted.iter().map(|name| Experiment::find(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn live_runs_receive_names_variables_and_seeds() {
        let words = [
            "x",
            "smp/heavy",
            "--live",
            "--with",
            "seconds=9",
            "--seeds",
            "2",
            "--json",
        ];
        let args = Command::try_parse_from(words).expect("the arguments are valid").args;
        assert!(args.live);
        assert_eq!(
            args.study(),
            ["study", "smp/heavy", "--with=seconds=9", "--seeds=2", "--json=-"]
        );
        assert!(Command::try_parse_from(["x", "smp/heavy", "--live", "--update"]).is_err());
        for other in ["--live", "--update", "--report=x.md"] {
            assert!(Command::try_parse_from(["x", "smp/heavy", "--sensitivity", other]).is_err());
        }
    }
}
