// SPDX-License-Identifier: GPL-2.0-only
//! One run: a policy on a machine under a workload, from a seed to a result.

use crate::destination::Destination;
use crate::error::Error;
use crate::interrupt;
use crate::policy::Policy;
use crate::traced;
use bpf::link::Image;
use kernel::Machine;
use kernel::ext::ops::NAMES;
use kernel::release::Release;
use machine::MachineSpec;
use report::{Run, RunResult, Summary};
use std::io::BufWriter;
use std::path::PathBuf;
use trace::{Draw, DrawOptions, Hash, Header, Record, Sink, Tee, Writer};
use workload::Workload;

/// Simulated time of a workload that says nothing of its length.
pub const DEFAULT_NS: u64 = 1_000_000_000;
/// A run is cut into this many pieces for progress reports; cuts leave no mark in it.
const PIECES: u64 = 200;
/// No piece is longer, so that a run ends soon after Ctrl-C.
pub(crate) const PIECE_MAX_NS: u64 = 5_000_000;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub policy: Policy,
    /// The file of its profile; `None`: found by the policy's name.
    pub profile: Option<PathBuf>,
    /// `--set NAME=VALUE`, in order.
    pub settings: Vec<(String, String)>,
    pub engine: bpf::engine::Engine,
    /// Run the policy in checked mode: a sanitizer for BPF, which changes nothing but the time it takes.
    pub checked: bool,
    pub machine: MachineSpec,
    pub workload: Workload,
    pub seed: u64,
    /// Simulated time; `None`: what the workload asks for.
    pub for_ns: Option<u64>,
    /// Whose functions, callbacks and fields the policy finds.
    pub kernel: Release,
    /// After the policy has ended, the fair class schedules the rest of the run; otherwise the run ends with the policy.
    pub after_failure: bool,
    /// CPUs that go offline or come online: (time, cpu, online).
    pub hotplug: Vec<(u64, u32, bool)>,
    /// Bytes of the host's memory that the run may use.
    pub memory: u64,
    pub trace: Option<PathBuf>,
    pub draw: Option<DrawOptions>,
}

/// What a run leaves.
#[derive(Debug)]
pub struct Outcome {
    pub result: RunResult,
    /// The schedule as text, if asked for.
    pub drawing: Option<String>,
    /// What the loader and the machine want known: fields and functions that are not modelled, programs that never run.
    pub warnings: Vec<String>,
    /// Every task waits for another one: their pids.
    pub deadlock: Vec<u32>,
    /// Why there is no trace file though one was asked for. The result does not suffer from it.
    pub unwritten: Option<Error>,
}

/// Who looks on while a scenario runs, and leaves no mark in it.
pub struct Onlooker<'a> {
    /// Takes every record.
    pub sink: &'a mut dyn Sink,
    pub reads: Vec<Read>,
    /// Details are wanted, too ([`trace::Event::is_detail`]); a trace file makes them in any case.
    pub details: bool,
}

/// A look at a global variable of the policy.
#[derive(Clone, Debug)]
pub struct Read {
    /// `None`: when the run is over.
    pub at_ns: Option<u64>,
    /// As `--set` spells it: `nr_stolen`, `queue[3].len`.
    pub global: String,
    /// What it was; `None` if the run was over before, or there is no policy.
    pub value: Option<String>,
}

impl Onlooker<'_> {
    fn next(&self, after: u64) -> Option<u64> {
        self.reads
            .iter()
            .filter_map(|read| read.at_ns)
            .filter(|&at| at > after)
            .min()
    }

    fn look(&mut self, at_ns: Option<u64>, machine: &Machine, image: &Image) -> Result<(), Error> {
        for read in self.reads.iter_mut().filter(|read| read.at_ns == at_ns) {
            let value = image.get(&machine.region, &read.global);
            read.value = Some(value.map_err(|error| Error::new(format!("global {}: {error}", read.global)))?);
        }
        Ok(())
    }
}

impl Scenario {
    /// Runs it. `progress` is told the share done, in 0..=1000, as the simulation goes on.
    ///
    /// # Errors
    /// What the user gave cannot work: settings, an object that is none, a trace file that cannot be begun. A policy that
    /// fails is a result (`RunResult::exit`). A signal ends the run early ([`interrupt`]; `RunResult::interrupted`).
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let onlooker = &mut Onlooker {
            sink: &mut Tee::new(),
            reads: Vec::new(),
            details: false,
        };
        self.watched(onlooker, progress)
    }

    /// Runs it while somebody looks on.
    ///
    /// # Errors
    /// As [`Scenario::run`], or a global that the policy does not have.
    pub fn watched(&self, onlooker: &mut Onlooker, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let mut running = self.start()?;
        running.machine.details |= onlooker.details;
        let piece = (running.until() / PIECES).clamp(1, PIECE_MAX_NS);
        while !running.ended() {
            if interrupt::signal().is_some() {
                running.interrupt();
                break;
            }
            let at = running.at();
            let next = onlooker.next(at).filter(|&next| next < running.until());
            let to = (at + piece).min(next.unwrap_or(u64::MAX));
            running.advance(to, onlooker.sink)?;
            if let Some(image) = running.image().filter(|_| next == Some(to)) {
                onlooker.look(next, &running.machine, image)?;
            }
            progress(running.at().saturating_mul(1000) / running.until());
        }
        running.end(onlooker.sink);
        if let Some(image) = running.image() {
            onlooker.look(None, &running.machine, image)?;
        }
        running.outcome()
    }

    /// The header of this run's trace.
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

/// What takes in a run's records.
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

    /// Leaves the trace file as it was before the run.
    pub(crate) fn discard_trace(&mut self) {
        self.writer = None;
    }

    pub(crate) fn finish(self, run: Run, warnings: Vec<String>, deadlock: Vec<u32>) -> Result<Outcome, Error> {
        let drawing = self.draw.map(|draw| draw.finish(run.simulated_ns));
        let result = self.summary.result(run);
        let mut unwritten = None;
        if let Some((path, mut writer)) = self.writer {
            // The same run leaves the same bytes.
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
            deadlock,
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
