// SPDX-License-Identifier: GPL-2.0-only
//! The description of a run in the words of the command line: [`RunSpec`].
//!
//! [`RunSpec::resolve`] finds the policy, the machine and the workload. [`RunSpec::command`] returns
//! the command line that repeats the run. [`Inputs::key`](crate::inputs::Inputs::key) identifies its
//! result in a store.

use crate::inputs::Inputs;
use crate::load;
use crate::policy::EEVDF;
use crate::scenario::Scenario;
use bpf::engine::Engine;
use bpf::memory::DEFAULT_LIMIT;
use clap::{Args, ValueEnum};
use input::error::Error;
use input::{duration, size};
use kernel::release::Release;
use kernel::rng::Rng;
use kernel::{Machine, Options};
use machine::scale::Factor;
use machine::{MachineSpec, Noise};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;
use workload::Workload;

mod command;
mod policies;
mod text;

/// Names of the two policies of a comparison, as in `--set A:NAME=VALUE`.
pub const SIDES: [&str; 2] = ["A", "B"];

/// The workload of runs for which the user names none.
const WORKLOAD: &str = "mixed.json";

/// Longest delay of a task's start with [`Phase::Random`], ns.
const MAX_START_DELAY_NS: u64 = 100_000;

// Everything that one run depends on, by name. A command with several policies parses one
// description, from which `for_policies` makes one for each policy.
//
// This is no documentation comment, because clap would show it as the description of each command.
#[derive(Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSpec {
    /// An object file, the name of a built policy, or `eevdf`.
    #[arg(skip)]
    pub policy: String,
    /// Simulated machine: a name (`machine list`), an hwloc XML file, an hwloc synthetic string, or
    /// `host` [default: numa32; for a recording, a machine with as many CPUs as recorded]
    #[arg(long, short)]
    pub machine: Option<String>,
    /// Workload: an rt-app JSON file, a generator such as closed:n=7,compute=250ms (`workload
    /// list`), or the file of a recording
    #[arg(long, short, default_value = WORKLOAD)]
    pub workload: String,
    /// Simulated time, for example 500ms [default: the workload's own length, or until its tasks
    /// exit]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    #[serde(rename = "for", with = "text::duration")]
    pub for_ns: Option<u64>,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1, value_parser = parse_seed)]
    pub seed: u64,
    /// Whether the seed also determines the times of the ticks and of the tasks' starts [default:
    /// fixed, but random in `compare`]
    #[arg(long, value_enum)]
    pub phase: Option<Phase>,
    /// Set a parameter (`policy show`): NAME=VALUE sets it in every policy that has it,
    /// POLICY:NAME=VALUE in one. `compare` and `diff` also accept A:NAME=VALUE and B:NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Profile, which replaces a policy's user-space part (profiles/README.md): a file, a name in
    /// profiles/, or `none`. POLICY:FILE gives it to one policy [default: for a policy NAME,
    /// NAME.toml beside its object, else profiles/NAME.toml]
    #[arg(long, value_name = "FILE")]
    pub profile: Vec<String>,
    /// What happens with the parts of a profile that do not fit the object
    #[arg(long, value_enum, value_name = "FIT", default_value_t)]
    pub profile_fit: load::Fit,
    /// Attach a sub-scheduler, an object that schedules the tasks of a cgroup of the workload on behalf
    /// of the policy: CGROUP=POLICY, for example /app=child.bpf.o
    #[arg(long, value_name = "CGROUP=POLICY")]
    pub sub: Vec<String>,
    /// Take a CPU offline or bring it back online: CPU:off@TIME or CPU:on@TIME
    #[arg(long, value_name = "CPU:off@TIME")]
    pub hotplug: Vec<String>,
    /// Linux release for which objects are loaded, 6.12 to 7.3. It determines which functions,
    /// callbacks and fields exist. Only with 7.3, sched_ext also works differently
    #[arg(long, value_name = "RELEASE", default_value_t)]
    #[serde(with = "text::release")]
    pub kernel: Release,
    /// Background work of the machine's kernel, in place of that in the machine's file
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub noise: Option<NoiseLevel>,
    /// After a policy has failed, let the fair class schedule the rest of the run. The results then
    /// cover the whole run
    #[arg(long)]
    pub after_failure: bool,
    /// Memory that one run may use on this host, for example 512M. A policy that needs more ends
    /// with an error
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size::parse)]
    #[serde(with = "text::size")]
    pub memory: u64,
    /// How to execute the policy's code, which does not change the results
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// Whether the sanitizer checks every memory access and call of the policy. It does not change
    /// the schedule.
    #[arg(skip)]
    pub sanitize: bool,
    /// Whether to record where the policy's costs come from.
    #[arg(skip)]
    #[serde(skip)]
    pub hotspots: bool,
    /// Whether the output of a scheduler's program (`exec:`) appears on standard error.
    #[arg(skip)]
    #[serde(skip)]
    pub program_output: bool,
    /// File to which the settings of a scheduler's program (`exec:`) are written as a profile.
    #[arg(skip)]
    #[serde(skip)]
    pub record_profile: Option<PathBuf>,
    /// Whether the kernel, the policy and the caches cost no time.
    #[arg(skip)]
    pub no_costs: bool,
    /// Ticks per second. `None` means that the machine determines them.
    #[arg(skip)]
    pub hz: Option<u32>,
    /// A constant of the machine that is multiplied by a factor.
    #[arg(skip)]
    pub scaled: Option<(String, Factor)>,
}

/// Whether the seed also determines what no real run controls: the times of the ticks and of the
/// tasks' starts. If these times are the same for all seeds, tasks that start together stay exactly
/// in step, and the results of a workload without random numbers do not differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(into = "String", try_from = "String")]
pub enum Phase {
    /// The run starts at a tick, and tasks start at the times that the workload defines
    #[default]
    Fixed,
    /// The seed determines when the first tick occurs, and delays the start of each task by up to
    /// 100 us. Starts in a recording are not delayed
    Random,
}

/// Background work of a machine's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(into = "String", try_from = "String")]
pub enum NoiseLevel {
    /// No background work
    Off,
    /// A system on which nothing else runs
    Quiet,
    /// A server with block I/O and network traffic
    Server,
    /// A desktop with a display and an input device
    Desktop,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EngineChoice {
    /// JIT compiler if it supports this host, else the interpreter
    #[default]
    Auto,
    /// Compile to machine code
    Jit,
    /// Interpret
    Interpreter,
}

/// Formats and parses the values of an option by their names on the command line.
macro_rules! named {
    ($type:ty, $error:expr) => {
        impl Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(self.to_possible_value().expect("no value is hidden").get_name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<$type, Error> {
                <$type as ValueEnum>::from_str(text, false).map_err(|_| $error(text))
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;

            fn try_from(text: String) -> Result<$type, Error> {
                text.parse()
            }
        }
    };
}

named!(Phase, |text| Error::new(format!(
    "phase {text}: expected fixed or random"
)));
named!(NoiseLevel, |text| Noise::parse(text)
    .err()
    .unwrap_or_else(|| Error::new("")));

impl NoiseLevel {
    /// Returns the level as machines have it: `None` stands for no background work.
    pub fn noise(self) -> Option<Noise> {
        Noise::named(&self.to_string())
    }
}

impl EngineChoice {
    pub fn engine(self) -> Engine {
        match self {
            EngineChoice::Auto => Engine::default(),
            EngineChoice::Jit => Engine::Jit,
            EngineChoice::Interpreter => Engine::Interpreter,
        }
    }
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec {
            policy: EEVDF.to_owned(),
            machine: None,
            workload: WORKLOAD.to_owned(),
            for_ns: None,
            seed: 1,
            phase: None,
            set: Vec::new(),
            profile: Vec::new(),
            profile_fit: load::Fit::Strict,
            sub: Vec::new(),
            hotplug: Vec::new(),
            kernel: Release::default(),
            noise: None,
            after_failure: false,
            memory: DEFAULT_LIMIT,
            engine: EngineChoice::default(),
            sanitize: false,
            hotspots: false,
            program_output: false,
            record_profile: None,
            no_costs: false,
            hz: None,
            scaled: None,
        }
    }
}

impl RunSpec {
    /// Returns a description of a policy's run on a machine, with the default of each option.
    pub fn new(policy: &str, machine: &str, workload: &str) -> RunSpec {
        RunSpec {
            policy: policy.to_owned(),
            machine: Some(machine.to_owned()),
            workload: workload.to_owned(),
            ..RunSpec::default()
        }
    }

    /// Reads a description from JSON. Fields that are missing have their defaults.
    ///
    /// # Errors
    /// The first field that is unknown or has a wrong value, with its name.
    pub fn from_json(text: &str) -> Result<RunSpec, Error> {
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|error| Error::new(format!("the description of a run: {error}")))?;
        for (name, value) in &fields {
            let alone = serde_json::json!({ name: value });
            serde_json::from_value::<RunSpec>(alone).map_err(|error| {
                let message = error.to_string();
                Error::new(match message.starts_with(name) {
                    true => message,
                    false => format!("{name}: {message}"),
                })
            })?;
        }
        serde_json::from_value(fields.into()).map_err(Error::new)
    }

    /// Finds the policy, the machine and the workload, ready to run.
    ///
    /// # Errors
    /// User errors: an input that does not exist, or an option that cannot be parsed.
    pub fn resolve(&self) -> Result<Scenario, Error> {
        Inputs::default().resolve(self)
    }

    /// Creates the simulated machine of the run. `machine` and `workload` are the inputs that the
    /// description names.
    ///
    /// # Errors
    /// The workload does not fit the machine.
    pub fn boot(&self, machine: MachineSpec, mut workload: Workload) -> Result<Machine, Error> {
        let mut options = Options {
            seed: self.seed,
            release: self.kernel,
            sanitizer: self.sanitize,
            hotspots: self.hotspots,
            stop_with_policy: !self.after_failure,
            memory_limit: self.memory,
            ..Options::default()
        };
        if self.phase.unwrap_or_default() == Phase::Random {
            // These random numbers are drawn apart from those of the run, so that a run with random
            // phase draws the same random numbers as a run with fixed phase.
            let mut rng = Rng::new(!self.seed);
            options.first_tick_ns = rng.below(1_000_000_000 / u64::from(machine.hz));
            if workload.recorded_on.is_none() {
                for task in workload.tasks.iter_mut().filter(|task| task.spawn) {
                    task.start_ns += rng.below(MAX_START_DELAY_NS);
                }
            }
        }
        Machine::new(machine, workload, options).map_err(Error::new)
    }

    /// Returns the value of a parameter that the description sets.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let settings = self.set.iter().filter_map(|setting| setting.split_once('='));
        settings.rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Splits a setting NAME=VALUE.
///
/// # Errors
/// There is no `=` in the text.
pub(crate) fn split_setting(setting: &str) -> Result<(&str, &str), Error> {
    let parts = setting.split_once('=');
    parts.ok_or_else(|| Error::new(format!("--set {setting}: expected NAME=VALUE")))
}

fn parse_seed(text: &str) -> Result<u64, Error> {
    let range = format!("expected a whole number from 0 to {}, for example 7", u64::MAX);
    text.parse().map_err(|_| Error::new(range))
}

#[cfg(test)]
mod tests;
