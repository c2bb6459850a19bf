// SPDX-License-Identifier: GPL-2.0-only
//! Files for other tools, written while records pass.

use crate::error::Error;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use trace::export::{Chrome, Ftrace, Perfetto};
use trace::{Header, Record, Sink};

/// What is to be written, and where.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    pub perfetto: Option<PathBuf>,
    pub chrome: Option<PathBuf>,
    pub ftrace: Option<PathBuf>,
}

/// The exports of one run.
pub struct Exporting {
    paths: Exports,
    perfetto: Option<Perfetto<File>>,
    chrome: Option<Chrome<File>>,
    ftrace: Option<Ftrace<File>>,
}

fn create(path: &Option<PathBuf>) -> Result<Option<File>, Error> {
    let Some(path) = path else { return Ok(None) };
    let at = |error: io::Error| Error::new(format!("{}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(at)?;
    }
    File::create(path).map(Some).map_err(at)
}

impl Exports {
    pub fn is_empty(&self) -> bool {
        self.perfetto.is_none() && self.chrome.is_none() && self.ftrace.is_none()
    }

    /// Begins the files.
    ///
    /// # Errors
    /// One that cannot be created.
    pub fn start(&self, header: &Header) -> Result<Exporting, Error> {
        Ok(Exporting {
            paths: self.clone(),
            perfetto: create(&self.perfetto)?.map(|file| Perfetto::new(file, header)),
            chrome: create(&self.chrome)?.map(|file| Chrome::new(file, header)),
            ftrace: create(&self.ftrace)?.map(|file| Ftrace::new(file, header.cpus.len())),
        })
    }
}

impl Exporting {
    /// Ends the files of a run that ended at `end` (ns).
    ///
    /// # Errors
    /// One that could not be written.
    pub fn finish(self, end: u64) -> Result<(), Error> {
        let written = [
            (self.paths.perfetto, self.perfetto.map(|export| export.finish(end))),
            (self.paths.chrome, self.chrome.map(|export| export.finish(end))),
            (self.paths.ftrace, self.ftrace.map(Ftrace::finish)),
        ];
        for (path, written) in written {
            if let (Some(path), Some(Err(error))) = (path, written) {
                return Err(Error::new(format!("{}: {error}", path.display())));
            }
        }
        Ok(())
    }
}

impl Sink for Exporting {
    fn take(&mut self, records: &[Record]) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.take(records);
        }
        if let Some(chrome) = &mut self.chrome {
            chrome.take(records);
        }
        if let Some(ftrace) = &mut self.ftrace {
            ftrace.take(records);
        }
    }
}
