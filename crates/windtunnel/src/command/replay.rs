// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel replay` describes a recording, and says how accurately the simulator replays it.

use super::complete;
use clap::Args as ClapArgs;
use input::error::Error;
use lab::validate::{Validation, validate};
use report::Surface;
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::spec::RunSpec;
use runner::{console, errln, out, outln};
use serde_json::{Value, json};
use workload::{RecordedMachine, Workload};

const AFTER: &str = "\
`run` and `compare` with a recording as the workload print the same validation below their results.";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Recording of a real machine (of perf, trace-cmd, Perfetto, LTTng or ftrace), or a trace file
    /// of `live record` or `run --trace`
    recording: String,
    /// Recorded machine: a name, or a file of `machine calibrate` [default: a machine with as many
    /// CPUs as recorded]
    #[arg(long, short, value_name = "MACHINE", add = complete::machines())]
    machine: Option<String>,
    /// Simulate the recorded scheduler, and compare its figures with those of the recording
    #[arg(long)]
    validate: bool,
    /// Recorded scheduler: `eevdf`, an object file, or the name of a built policy [default: the
    /// scheduler that the recording names]
    #[arg(long, value_name = "POLICY", requires = "validate", add = complete::policies())]
    scheduler: Option<String>,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the description and the validation as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let inputs = Inputs::default();
        let spec = RunSpec {
            policy: "eevdf".to_owned(),
            machine: self.machine.clone(),
            workload: self.recording.clone(),
            seed: self.seed,
            ..RunSpec::default()
        };
        let workload = inputs.workload(&spec)?;
        let Some(recorded) = &workload.recorded_on else {
            return Err(Error::new(format!("{}: this is no recording", self.recording))
                .hint("record one with windtunnel live record, or run a workload with windtunnel run -w"));
        };
        let validation = match self.validate {
            true => validate(&inputs, &spec, self.scheduler.as_deref())?,
            false => None,
        };
        if self.json {
            let json = json!({
                "recording": recorded,
                "tasks": workload.tasks.len(),
                "validation": validation.as_ref().map_or(Value::Null, Validation::json),
            });
            let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
            return Ok(ExitStatus::SUCCESS);
        }
        let surface = console::surface();
        out!("{}", describe(recorded, &workload, surface));
        match validation {
            Some(validation) => console::styled(&validation.text(surface)),
            None => outln!(
                "to compare its replay with it: windtunnel replay {} --validate",
                self.recording
            ),
        }
        Ok(ExitStatus::SUCCESS)
    }
}

/// Describes a recording. The validation lists what it lacks.
fn describe(recorded: &RecordedMachine, workload: &Workload, surface: Surface) -> String {
    let mut parts = vec![format!("{} CPUs", recorded.nr_cpus)];
    parts.extend((recorded.hz > 0).then(|| format!("{} Hz", recorded.hz)));
    parts.extend((!recorded.release.is_empty()).then(|| format!("Linux {}", recorded.release)));
    parts.extend((!recorded.name.is_empty()).then(|| format!("machine '{}'", recorded.name)));
    let groups = match workload.cgroups.len() - 1 {
        0 => String::new(),
        1 => " in 1 group".to_owned(),
        groups => format!(" in {groups} groups"),
    };
    let under = match recorded.names_scheduler() {
        true => format!(" under {}", recorded.policy),
        false => String::new(),
    };
    let line = format!(
        "{}: {} tasks{groups}, recorded{under} on {}",
        recorded.path.display(),
        workload.tasks.len(),
        parts.join(", ")
    );
    surface.line(&line, " ")
}

/// Validates the replay of a run, if its workload is a recording. If that is impossible, prints the
/// reason.
pub fn validated(inputs: &Inputs, spec: &RunSpec) -> Option<Validation> {
    validate(inputs, spec, None).unwrap_or_else(|error| {
        errln!("windtunnel: the replay is not validated: {error}");
        None
    })
}
