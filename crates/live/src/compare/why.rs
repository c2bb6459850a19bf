// SPDX-License-Identifier: GPL-2.0-only
//! `live why`: explains the difference between two traces of the same workload.

use crate::run::write_json;
use report::why::{Scan, Why, text};
use std::path::{Path, PathBuf};
use windtunnel::console;
use windtunnel::error::Error;
use windtunnel::exit::ExitStatus;
use windtunnel::out;
use windtunnel::traced::Traced;

#[derive(clap::Args)]
pub struct Args {
    /// Trace of the simulated run (`windtunnel run --trace`)
    simulated: PathBuf,
    /// Trace of the same workload on a real machine (`windtunnel live record`), or of another
    /// simulated run
    live: PathBuf,
    /// Time in ns by which recording one event lengthened the live run. It is subtracted from each
    /// measured interval, once for each event in the interval
    #[arg(long, value_name = "NS", default_value_t = 0)]
    event_ns: u64,
    /// Write the explanation as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let simulated = Traced::open(&self.simulated, None)?;
        let mut scan = Scan::new(simulated.header.clone(), None);
        simulated.replay(&mut scan, &mut |_| {})?;
        let side = scan.finish();
        let live = Traced::open(&self.live, None)?;
        let mut scan = Scan::new(live.header.clone(), Some(side.names())).without_recording(self.event_ns);
        live.replay(&mut scan, &mut |_| {})?;
        print(&Why::new(&side, &scan.finish()), self.json.as_deref())?;
        Ok(ExitStatus::SUCCESS)
    }
}

/// Prints an explanation as text, and writes it as JSON if `json` is set.
///
/// # Errors
/// The file cannot be written.
pub fn print(why: &Why, json: Option<&Path>) -> Result<(), Error> {
    write_json(json, why, || out!("{}", text(why, console::surface())))
}
