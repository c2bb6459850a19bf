// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel sweep` runs all combinations of policies, machines, workloads, parameters and seeds.

use super::progress::runs_bar;
use clap::Args as ClapArgs;
use input::error::Error;
use lab::sweep::{self, Options, Plan, Sweep, analysis, rows};
use report::Status;
use runner::exit::ExitStatus;
use runner::spec::EngineChoice;
use runner::store::Store;
use runner::{destination, errln, interrupt, outln};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

#[derive(ClapArgs)]
pub struct Args {
    /// Sweep file (TOML) with the policies, machines, workloads, parameters and seeds to combine
    file: PathBuf,
    /// Write the table, with one row for each run, to this Parquet file [default: the sweep file
    /// with the ending .parquet]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the page of the table to this HTML file, as `report TABLE` does
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the results of runs in DIR, and do not repeat runs whose results are there [default:
    /// the directory `runs` in the user's cache directory]
    #[arg(long, value_name = "DIR", conflicts_with = "no_store")]
    store: Option<PathBuf>,
    /// Repeat every run, and keep nothing
    #[arg(long)]
    no_store: bool,
    /// Number of threads [default: one for each CPU of this host]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// How to execute the policies' code, which does not change the results
    #[arg(long, value_enum, default_value_t)]
    engine: EngineChoice,
    /// Print the commands of the runs instead of executing them
    #[arg(long)]
    list: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let plan = Plan::new(&Sweep::read(&self.file)?)?;
        if self.list {
            plan.runs.iter().for_each(|run| outln!("{}", plan.command(run)));
            return Ok(ExitStatus::SUCCESS);
        }
        let output = self
            .output
            .clone()
            .unwrap_or_else(|| self.file.with_extension("parquet"));
        // First, because the check creates a temporary file, which a signal must not leave behind.
        interrupt::listen();
        if self.html.is_some() && destination::is_stdout(&output) {
            return Err(
                Error::new("--html: the page is made from the table, so the table must be a file")
                    .hint("give --output a file name"),
            );
        }
        destination::check(std::iter::once(output.as_path()).chain(self.html.as_deref()))?;
        let store = match (&self.store, self.no_store) {
            (_, true) => None,
            (Some(folder), false) => Some(Store::new(folder)),
            (None, false) => Some(Store::new(shipped::cache().join("runs"))),
        };
        let options = Options {
            store,
            output: Some(output.clone()),
            threads: self.threads,
            engine: self.engine,
        };
        let started = Instant::now();
        let bar = runs_bar(plan.runs.len() as u64);
        let done = plan.run(&options, &|done, _| bar.set_position(done / 1000));
        bar.finish_and_clear();
        let done = done?;
        let all = plan.runs.len();
        if done.interrupted() {
            let complete = done.results.iter().flatten().count();
            errln!("interrupted after {complete} of {all} runs; the same command goes on from there");
            return Ok(ExitStatus::SUCCESS);
        }
        let failed: Vec<usize> = (0..all)
            .filter(|&index| {
                done.results[index]
                    .as_ref()
                    .is_some_and(|result| result.status != Status::Ran)
            })
            .collect();
        let say = |note: String| match destination::is_stdout(&output) {
            true => errln!("{note}"),
            false => outln!("{note}"),
        };
        say(format!(
            "{all} runs in {:.1} s, of which {} were in the store: {}",
            started.elapsed().as_secs_f64(),
            done.stored,
            output.display()
        ));
        if let Some(path) = &self.html {
            let name = output.file_stem().unwrap_or_default().to_string_lossy();
            let page = sweep::page(&name, &analysis::analyse(&rows::read(&output)?));
            destination::write(path, page.as_bytes())?;
        }
        if let Some(&first) = failed.first() {
            say(format!(
                "{} runs have no figures, because their policy failed; the first is: {}",
                failed.len(),
                plan.command(&plan.runs[first])
            ));
        }
        Ok(ExitStatus::from(u8::from(!failed.is_empty())))
    }
}
