// SPDX-License-Identifier: GPL-2.0-only
//! Command-line options that write a trace in the format of another tool.

use clap::Args as ClapArgs;
use input::error::Error;
use report::RunResult;
use runner::exports::Exports;
use runner::{console, destination};
use std::convert::Infallible;
use std::path::{Path, PathBuf};

#[derive(ClapArgs)]
pub struct ExportArgs {
    /// Write a trace for ui.perfetto.dev and its trace_processor to FILE
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the scheduler's events as ftrace prints them to FILE
    #[arg(long, value_name = "FILE")]
    ftrace: Option<PathBuf>,
    /// The option `--chrome`, which no longer exists. Its error message names the replacement
    #[arg(long = "chrome", value_name = "FILE", hide = true, value_parser = reject_chrome)]
    _chrome: Option<Infallible>,
}

fn reject_chrome(_file: &str) -> Result<Infallible, &'static str> {
    Err(
        "--chrome was removed: use --perfetto and open the file in ui.perfetto.dev \
         (\"Open with legacy UI\" looks like chrome://tracing)",
    )
}

impl ExportArgs {
    /// Returns the requested files with the options that request them.
    pub fn outputs(&self) -> Vec<(&'static str, &Path)> {
        outputs(&[("--perfetto", &self.perfetto), ("--ftrace", &self.ftrace)])
    }

    /// Returns the files to write for the run `name`, if the command runs `runs` scenarios in
    /// total.
    pub fn for_run(&self, name: &str, runs: usize) -> Exports {
        let output = |path: &Option<PathBuf>| path.as_ref().map(|path| run_path(path, name, runs));
        Exports {
            perfetto: output(&self.perfetto),
            ftrace: output(&self.ftrace),
        }
    }
}

/// Writes the results of complete runs as JSON. If there are none, creates no file.
pub fn write_json(path: &Path, complete: &[&RunResult]) -> Result<(), Error> {
    let json: Result<Vec<_>, _> = complete.iter().map(|result| result.to_json()).collect();
    let text = json.and_then(|json| serde_json::to_string_pretty(&json));
    let text = text.map_err(|error| Error::new(error.to_string()))?;
    if destination::is_stdout(path) {
        console::json(&text);
        return Ok(());
    }
    match complete {
        [] => Ok(()),
        _ => destination::write(path, (text + "\n").as_bytes()),
    }
}

/// Returns the files that are requested, with the options that request them.
pub fn outputs<'a>(options: &[(&'static str, &'a Option<PathBuf>)]) -> Vec<(&'static str, &'a Path)> {
    let given = options
        .iter()
        .filter_map(|(name, path)| Some((*name, path.as_deref()?)));
    given.collect()
}

/// Makes names unique, so that they can be used in file names: the second `fifo` becomes `fifo-2`.
pub fn distinct_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// Returns the output file of the run `name`. With several runs, each run has its own file:
/// `out.wtt` becomes `out.fifo.wtt`. If `path` is a device or a pipe, all runs write to it.
pub fn run_path(path: &Path, name: &str, runs: usize) -> PathBuf {
    if runs == 1 || destination::is_special(path) {
        return path.to_owned();
    }
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    path.with_extension(format!("{name}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_writes_a_file_of_its_own() {
        let names = distinct_names(["fifo", "vtime", "fifo", "fifo-2", "fifo"].into_iter());
        assert_eq!(names, ["fifo", "vtime", "fifo-2", "fifo-2-2", "fifo-3"]);
        assert_eq!(run_path(Path::new("a/out.wtt"), "fifo", 2), Path::new("a/out.fifo.wtt"));
        assert_eq!(run_path(Path::new("a/out.wtt"), "fifo", 1), Path::new("a/out.wtt"));
        for special in ["/dev/null", "-"] {
            assert_eq!(run_path(Path::new(special), "fifo", 2), Path::new(special));
        }
    }
}
