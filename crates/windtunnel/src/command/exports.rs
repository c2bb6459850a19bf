// SPDX-License-Identifier: GPL-2.0-only
//! The arguments that name files for other tools.

use clap::Args as ClapArgs;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use windtunnel::destination;
use windtunnel::exports::Exports;

#[derive(ClapArgs)]
pub struct ExportArgs {
    /// Write a trace for ui.perfetto.dev and its trace_processor to FILE
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the scheduler's events as ftrace prints them to FILE
    #[arg(long, value_name = "FILE")]
    ftrace: Option<PathBuf>,
    /// Only explains what replaces it
    #[arg(long = "chrome", value_name = "FILE", hide = true, value_parser = chrome_is_gone)]
    _chrome: Option<Infallible>,
}

fn chrome_is_gone(_file: &str) -> Result<Infallible, &'static str> {
    Err(
        "--chrome is gone: use --perfetto, which ui.perfetto.dev opens (\"Open with legacy UI\" shows it as chrome://tracing does)",
    )
}

impl ExportArgs {
    /// Whether one of the files is standard output.
    pub fn has_stdout(&self) -> bool {
        let paths = [&self.perfetto, &self.ftrace].into_iter().flatten();
        paths.map(PathBuf::as_path).any(destination::is_stdout)
    }

    /// The files of one of `several` runs.
    pub fn of(&self, name: &str, several: usize) -> Exports {
        let of = |path: &Option<PathBuf>| path.as_ref().map(|path| path_of(path, name, several));
        Exports {
            perfetto: of(&self.perfetto),
            ftrace: of(&self.ftrace),
        }
    }
}

/// Names by which files of several runs differ: of equal ones the second becomes `fifo-2`.
pub fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
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

/// `out.wtt` becomes `out.fifo.wtt` where several runs write one each. A device or a pipe takes them all.
pub fn path_of(path: &Path, name: &str, several: usize) -> PathBuf {
    if several == 1 || destination::is_special(path) {
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
    fn each_run_has_a_file_of_its_own() {
        let names = distinct(["fifo", "vtime", "fifo", "fifo-2", "fifo"].into_iter());
        assert_eq!(names, ["fifo", "vtime", "fifo-2", "fifo-2-2", "fifo-3"]);
        assert_eq!(path_of(Path::new("a/out.wtt"), "fifo", 2), Path::new("a/out.fifo.wtt"));
        assert_eq!(path_of(Path::new("a/out.wtt"), "fifo", 1), Path::new("a/out.wtt"));
        for special in ["/dev/null", "-"] {
            assert_eq!(path_of(Path::new(special), "fifo", 2), Path::new(special));
        }
    }
}
