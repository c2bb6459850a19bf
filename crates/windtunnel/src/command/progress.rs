// SPDX-License-Identifier: GPL-2.0-only
//! Progress bars on standard error, shown only if it is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use input::error::Error;
use machine::MachineSpec;
use runner::traced::Traced;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;
use trace::escape;

/// Shows a progress bar if `work` takes longer than half a second. `work` calls its argument with
/// the progress, from 0 to 1000.
pub fn with_progress<T>(name: &str, work: impl FnOnce(&mut dyn FnMut(u64)) -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work(&mut |_| {});
    }
    let started = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let result = work(&mut |done| {
        if bar.is_none() && started.elapsed().as_millis() > 500 {
            let style = ProgressStyle::with_template("{prefix:>16} [{bar:40}] {percent:>3}% {eta}");
            let made = ProgressBar::new(1000).with_prefix(name.to_owned());
            made.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar = Some(made);
        }
        if let Some(bar) = &bar {
            bar.set_position(done);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result
}

/// Opens a trace or a recording, with a progress bar if this takes longer than half a second.
///
/// # Errors
/// As [`Traced::open`] does.
pub fn opened(path: &Path, machine: Option<&MachineSpec>) -> Result<Traced, Error> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    with_progress(&format!("opening {}", escape::line(&name)), |progress| {
        let progress = RefCell::new(progress);
        Traced::open_watched(path, machine, &|done| (*progress.borrow_mut())(done))
    })
}

/// Returns a progress bar for a series of runs. It is hidden if standard error is not a terminal.
pub fn bar(name: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:>24} [{bar:40}] {percent:>3}% {eta}");
    let bar = ProgressBar::new(0).with_prefix(name.to_owned());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Returns a progress bar that counts runs, with their rate and the time left.
pub fn runs_bar(runs: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("[{bar:40}] {pos} of {len} runs, {per_sec}, {eta} left");
    let bar = ProgressBar::new(runs);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
