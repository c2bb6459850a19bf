// SPDX-License-Identifier: GPL-2.0-only
//! Executes the runs of a sweep.

use super::plan::Plan;
use super::rows;
use super::table::File;
use input::error::Error;
use report::RunResult;
use runner::parallel::{self, Progress};
use runner::spec::{EngineChoice, RunSpec};
use runner::store::Store;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of rows that are written to the file as one group. A different number would change the
/// bytes of the file.
const GROUP: usize = 1000;

/// How a sweep is executed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store that keeps the results. `None` executes every run and keeps nothing.
    pub store: Option<Store>,
    /// The Parquet file, if one is to be written.
    pub output: Option<PathBuf>,
    /// Number of threads. `None` means one for each CPU of the host.
    pub threads: Option<NonZero<usize>>,
    /// The engine that executes the policies' code. It changes no result, so results of one engine
    /// are also used for the other one.
    pub engine: EngineChoice,
}

/// The results of a sweep.
pub struct Done {
    /// The result of each run. `None` if a signal ended the sweep before the run was complete.
    pub results: Vec<Option<RunResult>>,
    /// Number of runs whose results were already in the store.
    pub stored: usize,
}

impl Done {
    /// Returns whether a signal ended the sweep early. In this case no Parquet file is written.
    pub fn interrupted(&self) -> bool {
        self.results.iter().any(Option::is_none)
    }
}

impl Plan {
    /// Executes the runs whose results are not in the store, and writes the file.
    ///
    /// # Errors
    /// A run cannot be started, for example because a profile does not match its policy, or a file
    /// cannot be written.
    pub fn run(&self, options: &Options, progress: &Progress) -> Result<Done, Error> {
        let file = options
            .output
            .as_ref()
            .map(|path| File::open(path, &rows::table(self, &[])))
            .transpose()?;
        let writer = Mutex::new(Writer {
            plan: self,
            file,
            next: 0,
            waiting: BTreeMap::new(),
        });
        let stored = AtomicUsize::new(0);
        let jobs: Vec<(usize, &RunSpec)> = self.runs.iter().enumerate().collect();
        let results = parallel::run_until_interrupted(&jobs, options.threads, progress, |&(index, run), report| {
            let store = options
                .store
                .as_ref()
                .map(|store| Ok::<_, Error>((store, self.inputs.key(run)?)));
            let store = store.transpose()?;
            let result = match store.as_ref().and_then(|(store, key)| store.get(key)) {
                Some(result) => {
                    stored.fetch_add(1, Ordering::Relaxed);
                    result
                }
                None => {
                    let run = RunSpec {
                        engine: options.engine,
                        ..run.clone()
                    };
                    let mut result = self.inputs.resolve(&run)?.run(report)?.result;
                    if result.interrupted {
                        return Ok(None);
                    }
                    // The host time of the run is removed, so that equal runs have equal results.
                    result.wall_ns = 0;
                    if let Some(exit) = &mut result.exit {
                        exit.dump.clear();
                    }
                    store.map_or(Ok(()), |(store, key)| store.put(&key, &result))?;
                    result
                }
            };
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.add(index, result.clone())?;
            Ok(Some(result))
        })?;
        let done = Done {
            results,
            stored: stored.into_inner(),
        };
        if !done.interrupted() {
            writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        Ok(done)
    }
}

/// Writes results to the file in the order of the runs, in groups of [`GROUP`] rows.
struct Writer<'a> {
    plan: &'a Plan,
    file: Option<File>,
    /// The first run that has not been written.
    next: usize,
    /// Results that have not been written, by the index of their run.
    waiting: BTreeMap<usize, RunResult>,
}

impl Writer<'_> {
    fn add(&mut self, index: usize, result: RunResult) -> Result<(), Error> {
        if self.file.is_none() {
            return Ok(());
        }
        self.waiting.insert(index, result);
        while (self.next..self.next + GROUP).all(|index| self.waiting.contains_key(&index)) {
            self.write(GROUP)?;
        }
        Ok(())
    }

    /// Writes the next `count` results.
    fn write(&mut self, count: usize) -> Result<(), Error> {
        let range = self.next..self.next + count;
        let results: Vec<(usize, RunResult)> = range
            .filter_map(|index| Some((index, self.waiting.remove(&index)?)))
            .collect();
        let rows: Vec<_> = results
            .iter()
            .map(|(index, result)| (&self.plan.runs[*index], result))
            .collect();
        self.next += count;
        let table = rows::table(self.plan, &rows);
        self.file.as_mut().map_or(Ok(()), |file| file.write(&table))
    }

    fn finish(mut self) -> Result<(), Error> {
        let rest = self.waiting.len();
        if rest > 0 {
            self.write(rest)?;
        }
        self.file.map_or(Ok(()), File::finish)
    }
}
