// SPDX-License-Identifier: GPL-2.0-only
//! `live why`: explains the difference between two traces of the same workload.

use crate::run::write_json;
use input::error::Error;
use report::why::{Scan, Why, text};
use runner::console;
use runner::exit::ExitStatus;
use runner::out;
use runner::traced::Traced;
use std::path::Path;
use windtunnel::live::Why as Args;

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let simulated = Traced::open(&args.simulated, None)?;
    let mut scan = Scan::new(simulated.header.clone(), None);
    simulated.replay(&mut scan, &mut |_| {})?;
    let side = scan.finish();
    let live = Traced::open(&args.live, None)?;
    let mut scan = Scan::new(live.header.clone(), Some(side.names())).without_recording(args.event_ns);
    live.replay(&mut scan, &mut |_| {})?;
    print(&Why::new(&side, &scan.finish()), args.json.as_deref())?;
    Ok(ExitStatus::SUCCESS)
}

/// Prints an explanation as text, and writes it as JSON if `json` is set.
///
/// # Errors
/// The file cannot be written.
pub fn print(why: &Why, json: Option<&Path>) -> Result<(), Error> {
    write_json(json, why, || out!("{}", text(why, console::surface())))
}
