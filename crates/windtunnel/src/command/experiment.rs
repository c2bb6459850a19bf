// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel experiment`: list, show, run.

use super::progress::bar;
use clap::{Args as ClapArgs, Subcommand};
use std::io::IsTerminal;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use windtunnel::error::Error;
use windtunnel::experiment::measure::kinds;
use windtunnel::experiment::{self, Comparison, Experiment, Options};

#[derive(Subcommand)]
pub enum Action {
    /// Names and titles
    List,
    /// What an experiment asks, and every run of it as a command
    Show {
        /// A name (`experiment list`) or a folder with an experiment.toml
        name: String,
    },
    /// What can be measured of a run
    Measures,
    /// Run experiments and set them beside what was published
    Run(Args),
}

#[derive(ClapArgs)]
pub struct Args {
    /// Names (`experiment list`), groups of them (pmqs), or folders with an experiment.toml
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// Run every experiment; ends in one summary table
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Results as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Write the tables to FILE as Markdown, or as a page if it ends in .html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write measured.csv, and the agreement into the README, of each experiment as it is defined
    #[arg(long, conflicts_with_all = ["seeds", "with"])]
    update: bool,
    /// Seeds 1 to N in every case, instead of what the definition says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Runs at once [default: as many as there are CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Change a variable of the definition (`experiment show`)
    #[arg(long, value_name = "NAME=VALUE")]
    with: Vec<String>,
}

impl Action {
    pub fn run(self) -> Result<ExitCode, Error> {
        match self {
            Action::List => list()?,
            Action::Show { name } => {
                let experiment = Experiment::find(&name)?;
                let plan = experiment.plan(&[])?;
                print!("{}", experiment::show(&experiment, &plan));
            }
            Action::Measures => {
                for kind in kinds() {
                    println!("{}: {}", kind.name, kind.about);
                    for (name, meaning) in kind.arguments {
                        println!("    {name}: {meaning}");
                    }
                }
            }
            Action::Run(args) => return args.run(),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list() -> Result<(), Error> {
    let known = experiment::list();
    let width = known.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, _) in &known {
        println!("{name:width$}  {}", Experiment::find(name)?.definition.title);
    }
    Ok(())
}

impl Args {
    fn run(self) -> Result<ExitCode, Error> {
        let with = self.with.iter().map(|pair| {
            let pair = pair.split_once('=');
            let pair = pair.ok_or_else(|| Error::new("--with: expected NAME=VALUE"))?;
            Ok((pair.0.to_owned(), pair.1.to_owned()))
        });
        let options = Options {
            seeds: self.seeds,
            threads: self.threads,
            with: with.collect::<Result<_, Error>>()?,
        };
        let experiments = self.experiments()?;
        let terminal = std::io::stdout().is_terminal();
        let mut comparisons: Vec<Comparison> = Vec::new();
        let mut errors = Vec::new();
        for experiment in &experiments {
            let bar = bar(&experiment.name);
            let comparison = experiment.run(&options, &|done, of| {
                bar.set_length(of);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            let comparison = match comparison {
                Ok(comparison) => comparison,
                // One that cannot work does not keep the others from running.
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if !self.json {
                println!("{}", experiment::table(&comparison, terminal));
            }
            if self.update {
                let plan = experiment.plan(&options.with)?;
                for path in experiment.update(&plan, &comparison)? {
                    eprintln!("wrote {}", path.display());
                }
            }
            comparisons.push(comparison);
        }
        if self.json {
            let told: Vec<serde_json::Value> = comparisons.iter().map(experiment::json).collect();
            let text = serde_json::to_string_pretty(&told).map_err(|error| Error::new(error.to_string()))?;
            println!("{text}");
        } else if comparisons.len() > 1 {
            print!("{}", experiment::summary(&comparisons, terminal));
        }
        if let Some(path) = &self.report {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
            }
            let text = match path.extension().is_some_and(|ending| ending == "html") {
                true => experiment::page(&comparisons),
                false => {
                    let tables = comparisons.iter().map(|c| experiment::table(c, false) + "\n");
                    tables.collect::<String>() + &experiment::summary(&comparisons, false)
                }
            };
            std::fs::write(path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        }
        if let Some(last) = errors.pop() {
            errors.iter().for_each(|error| eprintln!("windtunnel: {error}"));
            return Err(last);
        }
        let failed = comparisons.iter().any(|comparison| comparison.failed() > 0);
        Ok(ExitCode::from(u8::from(failed)))
    }

    fn experiments(&self) -> Result<Vec<Experiment>, Error> {
        let known = experiment::list();
        let mut wanted: Vec<String> = Vec::new();
        if self.all {
            wanted.extend(known.iter().map(|(name, _)| name.clone()));
        }
        for name in &self.names {
            let group = format!("{}/", name.trim_end_matches('/'));
            let of_group: Vec<&String> = known
                .iter()
                .map(|(known, _)| known)
                .filter(|known| known.starts_with(&group))
                .collect();
            match of_group.as_slice() {
                [] => wanted.push(name.clone()),
                names => wanted.extend(names.iter().map(|name| (*name).clone())),
            }
        }
        wanted.iter().map(|name| Experiment::find(name)).collect()
    }
}
