// SPDX-License-Identifier: GPL-2.0-only
//! A scenario is a run that is ready to start: its description, and the inputs that it names.

use crate::destination::Destination;
use crate::interrupt;
use crate::policy::Policy;
use crate::profiles::Located;
use crate::search;
use crate::spec::RunSpec;
use crate::subs::Sub;
use crate::traced;
use bpf::link::Image;
use input::error::Error;
use kernel::Machine;
use kernel::ext::ops::NAMES;
use machine::MachineSpec;
use report::{Run, RunResult, Summary};
use std::io::BufWriter;
use std::path::PathBuf;
use trace::{Draw, DrawOptions, Hash, Header, Record, Sink, Tee, Writer};
use workload::Workload;

/// Time in ns at which a drawing ends if neither `--draw` nor the workload defines an end.
pub const DEFAULT_NS: u64 = 1_000_000_000;
/// The simulation is divided into this many steps, between which its progress is reported. The
/// steps do not affect the result.
const PIECES: u64 = 200;
/// Maximum simulated time of a step, in ns. It is short so that the run ends soon after Ctrl-C.
pub const PIECE_MAX_NS: u64 = 5_000_000;

/// A run whose inputs have been read ([`RunSpec::resolve`]).
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The description of the run, with names for the machine and the profile that were found by
    /// default.
    pub spec: RunSpec,
    pub policy: Policy,
    pub profile: Option<Located>,
    /// Names and values of the settings, in their order.
    pub settings: Vec<(String, String)>,
    /// Sub-schedulers, in the order in which they are attached.
    pub subs: Vec<Sub>,
    /// CPU hotplug events: time in ns, CPU, and whether the CPU goes online.
    pub hotplug: Vec<(u64, u32, bool)>,
    pub machine: MachineSpec,
    pub workload: Workload,
    /// Notes about the inputs: the word that names the input, and a sentence.
    pub notes: Vec<(String, String)>,
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
            let value = image.get(machine.region(), &read.global);
            read.value = Some(value.map_err(|error| Error::new(format!("global {}: {error}", read.global)))?);
        }
        Ok(())
    }
}

impl Scenario {
    /// Returns the time at which the run ends at the latest, if the description or the workload
    /// defines it.
    pub fn limit_ns(&self) -> Option<u64> {
        self.spec.for_ns.or(self.workload.duration_ns)
    }

    /// Prints the notes about the inputs to standard error.
    pub fn print_notes(&self) {
        self.notes
            .iter()
            .for_each(|(input, note)| search::print_note(input, note));
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

    /// Returns the argument of `--profile` that selects the profile of this run. Returns `None` if
    /// the policy has no profile.
    pub fn profile_word(&self) -> Option<&str> {
        self.profile.as_ref().map(|located| located.word.as_str())
    }

    /// Returns the header of this run's trace.
    pub fn header(&self) -> Header {
        Header {
            machine: self.machine.name.clone(),
            cpus: traced::places(&self.machine),
            workload: self.workload.name.clone(),
            policy: self.policy.name().to_owned(),
            seed: self.spec.seed,
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
