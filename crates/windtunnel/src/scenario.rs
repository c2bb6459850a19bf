// SPDX-License-Identifier: GPL-2.0-only
//! A scenario contains everything that one run depends on: policy, machine, workload, seed and
//! options.

use crate::destination::Destination;
use crate::error::Error;
use crate::interrupt;
use crate::load;
use crate::policy::Policy;
use crate::profiles;
use crate::traced;
use bpf::link::Image;
use clap::ValueEnum;
use kernel::Machine;
use kernel::ext::ops::NAMES;
use kernel::release::Release;
use kernel::rng::Rng;
use machine::MachineSpec;
use report::{Run, RunResult, Summary};
use serde::Serialize;
use std::io::BufWriter;
use std::path::PathBuf;
use std::str::FromStr;
use trace::{Draw, DrawOptions, Hash, Header, Record, Sink, Tee, Writer};
use workload::Workload;

/// Time in ns at which a drawing ends if neither `--draw` nor the workload defines an end.
pub const DEFAULT_NS: u64 = 1_000_000_000;
/// The simulation is divided into this many steps, between which its progress is reported. The
/// steps do not affect the result.
const PIECES: u64 = 200;
/// Maximum simulated time of a step, in ns. It is short so that the run ends soon after Ctrl-C.
pub(crate) const PIECE_MAX_NS: u64 = 5_000_000;

/// Longest delay of a task's start with [`Phase::Random`], ns.
const MAX_START_DELAY_NS: u64 = 100_000;

/// Whether the seed also determines what no real run controls: the times of the ticks and of the
/// tasks' starts. If these times are the same for all seeds, tasks that start together stay exactly
/// in step, and the results of a workload without random numbers do not differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The run starts at a tick, and tasks start at the times that the workload defines
    #[default]
    Fixed,
    /// The seed determines when the first tick occurs, and delays the start of each task by up to
    /// 100 us. Starts in a recording are not delayed
    Random,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Fixed => "fixed",
            Phase::Random => "random",
        }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Phase, String> {
        <Phase as ValueEnum>::from_str(text, false).map_err(|_| format!("phase {text}: expected fixed or random"))
    }
}

/// Everything that one run depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub policy: Policy,
    /// The argument of `--profile`. `None` means the profile that [`profiles::locate`] finds by the
    /// name of the policy.
    pub profile: Option<PathBuf>,
    pub profile_fit: load::Fit,
    /// Names and values of the `--set` options, in their order.
    pub settings: Vec<(String, String)>,
    pub engine: bpf::engine::Engine,
    /// Whether the sanitizer (`--sanitize`) checks the policy. It checks every memory access and
    /// call, and does not change the result.
    pub sanitizer: bool,
    pub machine: MachineSpec,
    pub workload: Workload,
    pub seed: u64,
    pub phase: Phase,
    /// Simulated time in ns. `None` means the length that the workload defines.
    pub for_ns: Option<u64>,
    /// Linux release for which the policy is loaded. It determines which functions, callbacks and
    /// fields exist.
    pub kernel: Release,
    /// Whether the run continues after the policy has failed. In this case, the fair class
    /// schedules the rest of the run.
    pub after_failure: bool,
    /// CPU hotplug events: time in ns, CPU, and whether the CPU goes online.
    pub hotplug: Vec<(u64, u32, bool)>,
    /// Maximum host memory that the run may use, in bytes.
    pub memory: u64,
    /// Path of the trace file, if one is to be written.
    pub trace: Option<PathBuf>,
    /// The part of the schedule to draw as text.
    pub draw: Option<DrawOptions>,
}

/// Result of a run, with its warnings and its drawing.
#[derive(Debug)]
pub struct Outcome {
    pub result: RunResult,
    /// The drawing of the schedule, if it was requested.
    pub drawing: Option<String>,
    /// Warnings of the loader and the machine, for example about functions that are not modelled.
    pub warnings: Vec<String>,
    /// Callbacks of the policy that the run did not call, so nothing is known about their code.
    /// Empty if the policy ended before the run did.
    pub uncalled: Vec<&'static str>,
    /// The error, if the trace file could not be written. The result is valid nevertheless.
    pub unwritten: Option<Error>,
}

/// Observes a run without changing its result.
pub struct Observer<'a> {
    /// The consumer (sink) of the records, which receives every record.
    pub sink: &'a mut dyn Sink,
    /// Global variables to read. After the run, they contain the values.
    pub reads: Vec<Read>,
    /// Whether to read the counters of the policy ([`RunResult::counters`]).
    pub counters: bool,
    /// Whether to emit detail records ([`trace::Event::is_detail`]). A trace file always contains
    /// them.
    pub details: bool,
}

/// A request to read a global variable of the policy.
#[derive(Clone, Debug)]
pub struct Read {
    /// Simulated time at which the variable is read. `None` means the end of the run.
    pub at_ns: Option<u64>,
    /// Name of the variable as in `--set`, for example `nr_stolen` or `queue[3].len`.
    pub global: String,
    /// The value. `None` if the run ended before that time or has no policy.
    pub value: Option<String>,
}

impl Observer<'_> {
    fn next(&self, after: u64) -> Option<u64> {
        self.reads
            .iter()
            .filter_map(|read| read.at_ns)
            .filter(|&at| at > after)
            .min()
    }

    fn read_globals(&mut self, at_ns: Option<u64>, machine: &Machine, image: &Image) -> Result<(), Error> {
        for read in self.reads.iter_mut().filter(|read| read.at_ns == at_ns) {
            let value = image.get(&machine.region, &read.global);
            read.value = Some(value.map_err(|error| Error::new(format!("global {}: {error}", read.global)))?);
        }
        Ok(())
    }
}

impl Scenario {
    /// Returns a scenario with seed 1 and the default of each other option.
    pub fn new(policy: Policy, machine: MachineSpec, workload: Workload) -> Scenario {
        Scenario {
            policy,
            profile: None,
            profile_fit: load::Fit::Strict,
            settings: Vec::new(),
            engine: bpf::engine::Engine::default(),
            sanitizer: false,
            machine,
            workload,
            seed: 1,
            phase: Phase::Fixed,
            for_ns: None,
            kernel: Release::default(),
            after_failure: false,
            hotplug: Vec::new(),
            memory: bpf::memory::DEFAULT_LIMIT,
            trace: None,
            draw: None,
        }
    }

    /// Runs the scenario. `progress` is called with the progress, from 0 to 1000.
    ///
    /// A policy that fails is not an error: the result contains the failure (`RunResult::exit`). A
    /// signal ends the run early ([`interrupt`], `RunResult::interrupted`).
    ///
    /// # Errors
    /// User errors: a setting that does not match the policy, a file that is not an object, a trace
    /// file that cannot be created.
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let observer = &mut Observer {
            sink: &mut Tee::new(),
            reads: Vec::new(),
            counters: false,
            details: false,
        };
        self.run_observed(observer, progress)
    }

    /// Runs the scenario with an observer.
    ///
    /// # Errors
    /// The errors of [`Scenario::run`]. It is also an error if the policy lacks a global variable
    /// that the observer reads.
    pub fn run_observed(&self, observer: &mut Observer, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let mut running = self.start()?;
        running.machine.details |= observer.details;
        if observer.counters {
            running.count();
        }
        let piece = (running.until() / PIECES).clamp(1, PIECE_MAX_NS);
        while !running.ended() {
            if interrupt::signal().is_some() {
                running.interrupt();
                break;
            }
            let at = running.at();
            let next = observer.next(at).filter(|&next| next < running.until());
            let to = (at + piece).min(next.unwrap_or(u64::MAX));
            running.advance(to, observer.sink)?;
            if let Some(image) = running.image().filter(|_| next == Some(to)) {
                observer.read_globals(next, &running.machine, image)?;
            }
            progress(running.at().saturating_mul(1000) / running.until());
        }
        running.end(observer.sink);
        if let Some(image) = running.image() {
            observer.read_globals(None, &running.machine, image)?;
        }
        running.outcome()
    }

    /// Returns the workload and the time of the first tick in ns, which both depend on
    /// [`Scenario::phase`].
    pub(crate) fn phased(&self) -> (Workload, u64) {
        let mut workload = self.workload.clone();
        if self.phase == Phase::Fixed {
            return (workload, 0);
        }
        // These random numbers are drawn apart from those of the run, so that a run with random
        // phase draws the same random numbers as a run with fixed phase.
        let mut rng = Rng::new(!self.seed);
        let first_tick_ns = rng.below(1_000_000_000 / u64::from(self.machine.hz));
        if workload.recorded_on.is_none() {
            for task in workload.tasks.iter_mut().filter(|task| task.spawn) {
                task.start_ns += rng.below(MAX_START_DELAY_NS);
            }
        }
        (workload, first_tick_ns)
    }

    /// Returns the argument of `--profile` that selects the profile of this run. Returns `None` if
    /// the policy has no profile.
    ///
    /// # Errors
    /// The profile that `--profile` names does not exist.
    pub fn profile_word(&self) -> Result<Option<String>, Error> {
        let Policy::Object { name, path } = &self.policy else {
            return Ok(None);
        };
        let located = profiles::locate(self.profile.as_deref(), name, path)?;
        Ok(located.map(|located| located.word))
    }

    /// Returns the header of this run's trace.
    pub fn header(&self) -> Header {
        Header {
            machine: self.machine.name.clone(),
            cpus: traced::places(&self.machine),
            workload: self.workload.name.clone(),
            policy: self.policy.name().to_owned(),
            seed: self.seed,
            hz: self.machine.hz,
            ops: callback_names(),
            locks: Vec::new(),
        }
    }
}

/// The consumers of a run's records: the hash, the summary, the trace file and the drawing.
pub(crate) struct Sinks {
    pub(crate) hash: Hash,
    summary: Summary,
    writer: Option<(PathBuf, Writer<BufWriter<Destination>>)>,
    draw: Option<Draw>,
}

impl Sinks {
    pub(crate) fn new(scenario: &Scenario, machine: &Machine) -> Result<Sinks, Error> {
        let writer = match &scenario.trace {
            None => None,
            Some(path) => {
                let file = BufWriter::new(Destination::open(path)?);
                Some((path.clone(), Writer::new(file, &scenario.header())))
            }
        };
        let draw = match &scenario.draw {
            None => None,
            Some(options) => Some(
                Draw::new(options.clone(), machine.nr_cpus() as usize)
                    .map_err(|error| Error::new(error.to_string()))?,
            ),
        };
        Ok(Sinks {
            hash: Hash::default(),
            summary: Summary::new(&traced::places(&scenario.machine)),
            writer,
            draw,
        })
    }

    /// Discards the new trace file. An earlier file of the same name is kept.
    pub(crate) fn discard_trace(&mut self) {
        self.writer = None;
    }

    pub(crate) fn finish(self, run: Run, warnings: Vec<String>) -> Result<Outcome, Error> {
        let drawing = self.draw.map(|draw| draw.finish(run.simulated_ns));
        let result = self.summary.result(run);
        let mut unwritten = None;
        if let Some((path, mut writer)) = self.writer {
            // The wall time is set to 0, so that equal runs write equal bytes.
            let timeless = RunResult {
                wall_ns: 0,
                ..result.clone()
            };
            writer.result(&serde_json::to_string(&timeless).map_err(|error| Error::new(error.to_string()))?);
            let written = writer.finish_into().and_then(|(_, file)| Ok(file.into_inner()?));
            let written = written.map_err(|error| Error::io(&path, &error));
            unwritten = written.and_then(Destination::commit).err();
        }
        Ok(Outcome {
            result,
            drawing,
            warnings,
            uncalled: Vec::new(),
            unwritten,
        })
    }
}

impl Sink for Sinks {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.hash.add(record);
        }
        self.summary.take(records);
        if let Some((_, writer)) = &mut self.writer {
            writer.take(records);
        }
        if let Some(draw) = &mut self.draw {
            draw.take(records);
        }
    }
}

pub(crate) fn callback_names() -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).collect()
}
