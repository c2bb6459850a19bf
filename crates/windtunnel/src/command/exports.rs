// SPDX-License-Identifier: GPL-2.0-only
//! The arguments that name files for other tools.

use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use windtunnel::exports::Exports;

#[derive(ClapArgs)]
pub struct ExportArgs {
    /// Write a trace for ui.perfetto.dev and its trace_processor to FILE
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write a trace in the Trace Event Format (JSON; chrome://tracing and others) to FILE
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    /// Write the scheduler's events as ftrace prints them to FILE
    #[arg(long, value_name = "FILE")]
    ftrace: Option<PathBuf>,
}

impl ExportArgs {
    /// The files of one of `several` runs.
    pub fn of(&self, name: &str, several: usize) -> Exports {
        let of = |path: &Option<PathBuf>| path.as_ref().map(|path| path_of(path, name, several));
        Exports {
            perfetto: of(&self.perfetto),
            chrome: of(&self.chrome),
            ftrace: of(&self.ftrace),
        }
    }
}

/// `out.wtt` becomes `out.fifo.wtt` where several runs write one each.
pub fn path_of(path: &Path, name: &str, several: usize) -> PathBuf {
    if several == 1 {
        return path.to_owned();
    }
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    path.with_extension(format!("{name}{extension}"))
}
