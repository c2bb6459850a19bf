// SPDX-License-Identifier: GPL-2.0-only
//! Repeats published experiments and compares the results with the published figures.
//!
//! The directory `experiments/[GROUP/]NAME/` contains these files:
//! - `experiment.toml`: the definition ([`definition`]). [`cases`] expands it into runs and table
//!   rows.
//! - `published.csv`: the published figures, if there are any.
//! - `measured.csv`: the measured figures. `experiment run --update` writes this file.
//! - `README.md`.
//!
//! [`sensitivity`] halves and doubles constants to see which results depend on them.
//!
//! The runs are ordinary [scenarios](runner::scenario). [`measure`] lists the quantities that can be
//! measured in a run.

pub mod cases;
pub mod compare;
pub mod definition;
pub mod equation;
mod files;
pub mod measure;
pub mod observe;
mod page;
mod present;
pub mod recursion;
pub mod run;
pub mod sensitivity;
pub mod statistics;

pub use compare::Comparison;
pub use page::page;
pub use present::{agreement, json, show, summary, table};
pub use run::Options;
pub use sensitivity::Sensitivity;

use definition::{Definition, MAX_BYTES};
use input::error::Error;
use input::{Source, suggest};
use runner::inputs::Inputs;
use runner::search;
use std::path::{Path, PathBuf};

/// An experiment: its definition, with its name and directory.
#[derive(Debug)]
pub struct Experiment {
    /// Name as in `experiment list`: `group/name` or `name`.
    pub name: String,
    pub folder: PathBuf,
    pub source: Source,
    pub definition: Definition,
}

const FILE: &str = "experiment.toml";

/// Returns the names and directories of all experiments, sorted by name.
pub fn list() -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for folder in search::folders("experiments") {
        for group in subfolders(&folder) {
            for path in std::iter::once(group.clone()).chain(subfolders(&group)) {
                let Ok(name) = path.strip_prefix(&folder) else { continue };
                let name = name.to_string_lossy().into_owned();
                if path.join(FILE).is_file() && !found.iter().any(|(known, _)| *known == name) {
                    found.push((name, path));
                }
            }
        }
    }
    found.sort();
    found
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

impl Experiment {
    /// Finds an experiment by name or directory.
    ///
    /// # Errors
    /// There is no such experiment, or its definition cannot be read.
    pub fn find(name: &str) -> Result<Experiment, Error> {
        let known = list();
        if let Some((name, folder)) = known.iter().find(|(known, _)| known == name) {
            return Experiment::read(name, folder);
        }
        let folder = Path::new(name);
        if folder.join(FILE).is_file() {
            let own = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            return Experiment::read(&own.unwrap_or_default(), folder);
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        let groups = names.iter().filter_map(|name| Some(name.split_once('/')?.0));
        let hint = match suggest::nearest(name, names.iter().copied().chain(groups)) {
            Some(near) => format!("did you mean {near}? `windtunnel experiment list` shows all"),
            None => format!("use one of {}, or a directory with an {FILE}", names.join(", ")),
        };
        Err(Error::new(format!("there is no experiment '{name}'")).hint(hint))
    }

    fn read(name: &str, folder: &Path) -> Result<Experiment, Error> {
        let source = Source::read(&folder.join(FILE), MAX_BYTES)?;
        Ok(Experiment {
            name: name.to_owned(),
            folder: folder.to_owned(),
            definition: Definition::parse(&source)?,
            source,
        })
    }

    /// Expands the definition into runs and rows. `with` contains variables and the values that the
    /// user gives them.
    ///
    /// # Errors
    /// An error in the definition, with its position.
    pub fn plan(&self, with: &[(String, String)]) -> Result<cases::Plan, Error> {
        cases::plan(&self.source, &self.definition, with)
    }

    /// Expands the definition for runs on a real machine. A variable has its value in `with`, or
    /// else its value in the definition's table `[live]`, or else its value in the table `[run]`.
    ///
    /// # Errors
    /// As [`Experiment::plan`].
    pub fn live_plan(&self, with: &[(String, String)]) -> Result<cases::Plan, Error> {
        let live = self.definition.live.iter().flat_map(|live| &live.with);
        let pair = |(name, value)| Some((String::clone(name), definition::text(value)?));
        let own: Vec<(String, String)> = live.filter_map(pair).chain(with.iter().cloned()).collect();
        self.plan(&own)
    }

    /// Runs the experiment in the simulator and compares the results with the published ones.
    ///
    /// # Errors
    /// The definition or published.csv contains an error. A policy that fails is no error: its
    /// cells have no values.
    pub fn run(&self, options: &Options, progress: &runner::parallel::Progress) -> Result<Comparison, Error> {
        let inputs = Inputs::default();
        self.run_plan(&self.plan(&options.with)?, options, progress, &|run, wanted, report| {
            run::simulate(&inputs, run, wanted, report)
        })
    }

    /// Executes the runs of a plan with `execute`, and compares the results with the published
    /// ones.
    ///
    /// # Errors
    /// As [`Experiment::run`], and the errors of `execute`.
    pub fn run_plan(
        &self,
        plan: &cases::Plan,
        options: &Options,
        progress: &runner::parallel::Progress,
        execute: &run::Execute,
    ) -> Result<Comparison, Error> {
        // An error in published.csv is reported before the runs instead of after them.
        self.published(plan)?;
        let measured = plan.run(self, options, progress, execute)?;
        compare::compare(self, plan, measured)
    }
}
