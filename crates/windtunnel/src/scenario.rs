// SPDX-License-Identifier: GPL-2.0-only
//! One run: a policy on a machine under a workload, from a seed to a result.

use crate::error::Error;
use crate::load;
use crate::policy::Policy;
use bpf::link::Image;
use kernel::ext::EnableState;
use kernel::ext::ops::NAMES;
use kernel::layout::enums::SCX_ECODE_ACT_RESTART;
use kernel::{Ended, Machine};
use machine::MachineSpec;
use report::{CallbackResult, ExitRecord, LockResult, Run, RunResult, Summary};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Instant;
use trace::{Draw, DrawOptions, Hash, Header, Place, Record, Sink, Tee, Writer};
use workload::Workload;

/// Simulated time of a workload that says nothing of its length.
pub const DEFAULT_NS: u64 = 1_000_000_000;
/// A workload that ends when its tasks have exited may take this long.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// A policy that hotplug has ended is gone four ticks later; after so many its user-space half has loaded it again.
const RELOAD_TICKS: u64 = 10;
/// A run is cut into this many pieces for progress reports; cuts leave no mark in it.
const PIECES: u64 = 200;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub policy: Policy,
    /// `--set NAME=VALUE`, in order.
    pub settings: Vec<(String, String)>,
    pub engine: bpf::vm::Engine,
    pub machine: MachineSpec,
    pub workload: Workload,
    pub seed: u64,
    /// Simulated time; `None`: what the workload asks for.
    pub for_ns: Option<u64>,
    /// CPUs that go offline or come online: (time, cpu, online).
    pub hotplug: Vec<(u64, u32, bool)>,
    pub trace: Option<PathBuf>,
    pub draw: Option<DrawOptions>,
}

/// Is the policy gone, and did the kernel ask for it to be loaded again?
fn wants_restart(machine: &Machine) -> bool {
    let restart = SCX_ECODE_ACT_RESTART as i64;
    let exit = machine.ext.exit.as_ref();
    machine.ext.state == EnableState::Disabled && exit.is_some_and(|exit| exit.code & restart != 0)
}

/// What to say of tasks that the policy did not let come into being.
fn failed_forks(forks: &[(String, i32)]) -> Option<String> {
    let (comm, errno) = forks.first()?;
    let number = forks.len();
    Some(format!(
        "{number} forks failed: ops.init_task() returned {errno} for '{comm}', the first; the workload went on without them"
    ))
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
}

/// Who looks on while a scenario runs, and leaves no mark in it.
pub struct Onlooker<'a> {
    /// Takes every record but details.
    pub sink: &'a mut dyn Sink,
    pub reads: Vec<Read>,
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
    /// What the user gave cannot work: settings, an object that is none, a trace file that cannot be written. A policy that
    /// fails is a result (`RunResult::exit`).
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let onlooker = &mut Onlooker {
            sink: &mut Tee::new(),
            reads: Vec::new(),
        };
        self.watched(onlooker, progress)
    }

    /// Runs it while somebody looks on.
    ///
    /// # Errors
    /// As [`Scenario::run`], or a global that the policy does not have.
    pub fn watched(&self, onlooker: &mut Onlooker, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
        let started = Instant::now();
        let mut machine = Machine::new(self.machine.clone(), self.workload.clone(), self.seed).map_err(Error::new)?;
        for &(at, cpu, online) in &self.hotplug {
            if cpu >= machine.nr_cpus() {
                return Err(Error::new(format!(
                    "--hotplug: there is no CPU {cpu} on machine '{}'",
                    self.machine.name
                )));
            }
            machine.plan_hotplug(at, cpu, online);
        }
        let mut image = match &self.policy {
            Policy::Eevdf => {
                if let Some((name, _)) = self.settings.first() {
                    return Err(Error::new(format!(
                        "--set {name}: eevdf is built in and has no parameters"
                    )));
                }
                None
            }
            Policy::Object { name, path } => load::policy(&mut machine, name, path, &self.settings, self.engine)?,
        };
        let mut warnings = image.as_ref().map(|image| image.warnings.clone()).unwrap_or_default();
        machine.details = self.trace.is_some();
        let mut sinks = Sinks::new(self, &machine)?;
        // Without a limit the run ends with the last task.
        let limit = self.for_ns.or(self.workload.duration_ns);
        let until = limit.unwrap_or(LONGEST_NS);
        let mut ended = None;
        let piece = (until / PIECES).max(1);
        let (mut at, mut reloads) = (0, 0);
        while ended.is_none() && at < until {
            let next = onlooker.next(at).unwrap_or(until);
            let after = RELOAD_TICKS * 1_000_000_000 / u64::from(self.machine.hz);
            let reload = self.hotplug.iter().map(|&(time, ..)| time.saturating_add(after));
            let reload = reload.filter(|&time| time > at).min();
            at = (at + piece).min(until).min(next).min(reload.unwrap_or(until));
            ended = machine.advance(at, &mut Tee::new().with(&mut sinks).with(onlooker.sink));
            if let Some(image) = image.as_ref().filter(|_| at == next) {
                onlooker.look(Some(at), &machine, image)?;
            }
            if let Policy::Object { name, path } = &self.policy
                && ended.is_none()
                && Some(at) == reload
                && wants_restart(&machine)
            {
                image = load::policy(&mut machine, name, path, &self.settings, self.engine)?;
                reloads += 1;
            }
            progress(at.saturating_mul(1000) / until);
        }
        let ended = ended.unwrap_or(Ended::Time);
        machine.finish(&ended, until, &mut Tee::new().with(&mut sinks).with(onlooker.sink));
        if let Some(image) = &image {
            onlooker.look(None, &machine, image)?;
        }
        let exit = machine.ext.exit.as_ref().map(exit_record);
        let completed = ended == Ended::AllExited;
        let deadlock = match ended {
            Ended::Deadlock { waiting } => waiting,
            Ended::Time | Ended::AllExited => Vec::new(),
        };
        let run = Run {
            policy: self.policy.name().to_owned(),
            machine: self.machine.name.clone(),
            workload: self.workload.name.clone(),
            seed: self.seed,
            simulated_ns: machine.now,
            wall_ns: started.elapsed().as_nanos() as u64,
            idle_while_waiting_ns: machine.checks.idle_while_waiting_ns,
            trace_hash: sinks.hash.value(),
            exit,
            unit: self.workload.unit.clone(),
            score: self.workload.score,
            completed,
            callbacks: callbacks(&machine),
            lock_waits: lock_waits(&machine),
            reload_ns: machine.reload_ns(),
            line_transfers: machine.line_transfers().count,
            line_transfer_ns: machine.line_transfers().ns,
            ops: callback_names(),
            locks: machine.locks().map(|(id, _)| machine.lock_name(id)).collect(),
        };
        warnings.extend(failed_forks(&machine.failed_forks));
        if reloads > 0 {
            warnings.push(format!(
                "hotplug ended the policy, which does not follow it; it was loaded again ({reloads} times)"
            ));
        }
        sinks.finish(run, warnings, deadlock)
    }

    /// The header of this run's trace.
    fn header(&self) -> Header {
        Header {
            machine: self.machine.name.clone(),
            cpus: self.places(),
            workload: self.workload.name.clone(),
            policy: self.policy.name().to_owned(),
            seed: self.seed,
            hz: self.machine.hz,
            ops: callback_names(),
            locks: Vec::new(),
        }
    }

    fn places(&self) -> Vec<Place> {
        let place = |cpu: &machine::Cpu| Place {
            core: cpu.core,
            llc: cpu.llc,
            node: cpu.node,
        };
        self.machine.topology.cpus.iter().map(place).collect()
    }
}

/// What takes in a run's records.
struct Sinks {
    hash: Hash,
    summary: Summary,
    writer: Option<(PathBuf, Writer<BufWriter<File>>)>,
    draw: Option<Draw>,
}

impl Sinks {
    fn new(scenario: &Scenario, machine: &Machine) -> Result<Sinks, Error> {
        let writer = match &scenario.trace {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
                Some((path.clone(), Writer::new(BufWriter::new(file), &scenario.header())))
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
            summary: Summary::new(&scenario.places()),
            writer,
            draw,
        })
    }

    fn finish(self, run: Run, warnings: Vec<String>, deadlock: Vec<u32>) -> Result<Outcome, Error> {
        if let Some((path, writer)) = self.writer {
            writer
                .finish()
                .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        }
        let drawing = self.draw.map(|draw| draw.finish(run.simulated_ns));
        Ok(Outcome {
            result: self.summary.result(run),
            drawing,
            warnings,
            deadlock,
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

fn callbacks(machine: &Machine) -> Vec<CallbackResult> {
    let called = NAMES
        .iter()
        .zip(&machine.ext.called)
        .filter(|(_, called)| called.count > 0);
    called
        .map(|(name, called)| CallbackResult::new(name, called.count, called.insns, called.insns_max))
        .collect()
}

fn lock_waits(machine: &Machine) -> Vec<LockResult> {
    let taken = machine.locks().filter(|(_, stat)| stat.acquisitions > 0);
    taken
        .map(|(id, stat)| LockResult {
            lock: machine.lock_name(id),
            acquisitions: stat.acquisitions,
            waits: stat.contended,
            wait_ns: stat.wait_ns,
            wait_max_ns: stat.wait_max_ns,
            held_ns: stat.held_ns,
        })
        .collect()
}

fn callback_names() -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).collect()
}

fn exit_record(exit: &kernel::ext::Exit) -> ExitRecord {
    // The backtrace starts with the place in the source and ends with the callback.
    let callback = exit.backtrace.last().filter(|_| exit.backtrace.len() > 1).cloned();
    ExitRecord {
        kind: exit.kind.name().to_owned(),
        reason: exit.reason.to_owned(),
        message: exit.message.clone(),
        callback,
        source: exit.backtrace.first().cloned(),
        dump: exit.dump.clone(),
    }
}
