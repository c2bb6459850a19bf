// SPDX-License-Identifier: GPL-2.0-only
//! Exports the trace records of a run, while it runs, to files for Perfetto and for tools that read
//! ftrace.

use crate::destination::Destination;
use input::error::Error;
use std::path::PathBuf;
use trace::export::{Ftrace, Perfetto};
use trace::{Header, Record, Sink};

/// The paths of the files that the user requests.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    pub perfetto: Option<PathBuf>,
    pub ftrace: Option<PathBuf>,
}

/// The files of one run, which are being written.
pub struct Exporting {
    paths: Exports,
    perfetto: Option<Perfetto<Destination>>,
    ftrace: Option<Ftrace<Destination>>,
}

fn open(path: &Option<PathBuf>) -> Result<Option<Destination>, Error> {
    path.as_deref().map(Destination::open).transpose()
}

impl Exports {
    pub fn is_empty(&self) -> bool {
        self.perfetto.is_none() && self.ftrace.is_none()
    }

    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.perfetto, &self.ftrace].into_iter().flatten()
    }

    /// Opens the files. A file appears at its path when it is complete (see [`Exporting::finish`]).
    ///
    /// # Errors
    /// A file cannot be created.
    pub fn start(&self, header: &Header) -> Result<Exporting, Error> {
        Ok(Exporting {
            paths: self.clone(),
            perfetto: open(&self.perfetto)?.map(|file| Perfetto::new(file, header)),
            ftrace: open(&self.ftrace)?.map(|file| Ftrace::new(file, header.cpus.len())),
        })
    }
}

impl Exporting {
    /// Completes the files of a run that ended at `end` (ns). Returns the errors of the files that
    /// could not be written.
    #[must_use]
    pub fn finish(self, end: u64) -> Vec<Error> {
        let written = [
            (self.paths.perfetto, self.perfetto.map(|export| export.finish(end))),
            (self.paths.ftrace, self.ftrace.map(Ftrace::finish)),
        ];
        let mut errors = Vec::new();
        for (path, written) in written {
            if let (Some(path), Some(written)) = (path, written) {
                let written = written.map_err(|error| Error::io(&path, &error));
                errors.extend(written.and_then(Destination::commit).err());
            }
        }
        errors
    }
}

impl Sink for Exporting {
    fn take(&mut self, records: &[Record]) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.take(records);
        }
        if let Some(ftrace) = &mut self.ftrace {
            ftrace.take(records);
        }
    }
}
