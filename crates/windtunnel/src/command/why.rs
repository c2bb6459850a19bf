// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel why` explains why a task waited for a CPU.

use super::complete;
use super::progress::{opened, with_progress};
use clap::Args as ClapArgs;
use input::error::Error;
use lab::why::{self, Told};
use report::wait::Wanted;
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::spec::RunSpec;
use runner::{console, out, outln, search};
use std::path::Path;

const AFTER: &str = "\
A wait begins when a task is woken or loses its CPU, and ends when a CPU switches to it. For each
wait, the output says who woke the task, in which queue it waited and at which place, which tasks
ran instead and how they left the CPU, and whether other CPUs were idle meanwhile. For a run, it
also contains the policy's decisions with their source lines, the CPUs that the task may use, and
the slice of the task that kept running.

SOURCE is a policy, whose run the other options describe, or the file of a trace or recording, which
uses only --machine.";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Object file, name of a built policy (`policy list`), `exec: COMMAND`, `eevdf`, a
    /// trace file, or a recording
    #[arg(add = complete::policies())]
    source: String,
    /// Task (its name or pid) and a time at which it waits, for example `web@12.5ms`
    #[arg(value_name = "TASK@TIME", value_parser = why::parse)]
    wait: Option<Wanted>,
    /// Explain the N longest waits [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "wait", value_parser = clap::value_parser!(u16).range(1..=100))]
    longest: Option<u16>,
    #[command(flatten)]
    spec: RunSpec,
    /// Print the result as JSON: a list of waits
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let longest = usize::from(self.longest.unwrap_or(1));
        let wanted = self.wait.unwrap_or(Wanted::Longest(longest));
        interrupt::listen();
        let told = match recording(&self.source) {
            Some(path) => {
                let machine = self.spec.machine.as_ref().map(|word| search::definition(word));
                let machine = machine.transpose()?.map(|definition| definition.spec);
                let traced = opened(path, machine.as_ref())?;
                with_progress("why", |progress| why::traced(&traced, wanted, progress))?
            }
            None => {
                let scenarios = self.spec.scenarios(std::slice::from_ref(&self.source), &[])?;
                let scenario = &scenarios[0];
                with_progress("why", |progress| why::run(scenario, wanted, progress))?
            }
        };
        if self.json {
            let waits: Vec<_> = told.iter().map(Told::json).collect();
            let text = serde_json::to_string_pretty(&waits).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else {
            for (index, wait) in told.iter().enumerate() {
                if index > 0 {
                    outln!();
                }
                out!("{}", wait.text());
            }
        }
        Ok(ExitStatus::SUCCESS)
    }
}

/// Returns the path of a trace or recording, or `None` if the text names a policy. Objects of
/// policies are ELF files.
fn recording(source: &str) -> Option<&Path> {
    let path = Path::new(source);
    let is_object = || {
        let mut magic = [0; 4];
        let file = std::fs::File::open(path);
        let read = file.and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
        (read.is_ok() && &magic == b"\x7fELF") || source.ends_with(".o") || source.ends_with(".c")
    };
    let is_recording = trace::recording::is_ctf_trace(path) || (path.is_file() && !is_object());
    is_recording.then_some(path)
}
