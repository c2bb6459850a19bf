// SPDX-License-Identifier: GPL-2.0-only
//! Reads traces of simulated runs and recordings of real machines.

use crate::interrupt;
use input::error::Error;
use machine::MachineSpec;
use report::{Run, RunResult, Summary};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use trace::{CpuPosition, Event, Hash, Header, Reader, Record, Sink, Tee, recording};

/// Number of records that are passed to the sink, their consumer, at once.
const BATCH: usize = 4096;
/// Number of bytes at the beginning of a file by which its format is recognized.
const EXAMINED: u64 = 16;

/// An open trace or recording. It can be replayed any number of times.
pub struct Traced {
    pub path: PathBuf,
    pub header: Header,
    pub kind: TraceSource,
}

pub enum TraceSource {
    /// A trace file. Its records are read on each replay.
    File { bytes: u64 },
    /// A recording. All its records are in memory. `missing` is the number of context switches that
    /// the recording lacks, and `lost` the number of events of which the recording says that they
    /// were lost. `unwoken` is the number of sleeping tasks that ran again, if the recording
    /// contains no wake-up at all. `counts` has the number of events by name.
    Recording {
        records: Vec<Record>,
        missing: u32,
        lost: u64,
        unwoken: u32,
        counts: BTreeMap<String, u64>,
    },
}

/// Result of a replay.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Time of the last record, in ns.
    pub time: u64,
    /// Hash of all records ([`Hash::value`]).
    pub hash: u64,
    /// Result of the run, if the trace file contains it.
    pub result: Option<RunResult>,
    /// Whether a signal ended the replay early (see [`interrupt`]).
    pub interrupted: bool,
}

/// Returns the core, last-level cache and node of each CPU of a machine, in the form that a trace
/// header contains.
pub fn places(machine: &MachineSpec) -> Vec<CpuPosition> {
    let position = |cpu: &machine::Cpu| CpuPosition {
        core: cpu.core,
        llc: cpu.llc,
        node: cpu.node,
    };
    machine.topology.cpus.iter().map(position).collect()
}

impl Traced {
    /// Opens a trace file, or reads a recording. `machine` describes the topology of the machine on
    /// which a recording was made. Without it, every CPU counts as a core of its own, and all cores
    /// share one last-level cache.
    ///
    /// # Errors
    /// The file cannot be read, is neither a trace nor a recording, or uses more CPUs than
    /// `machine` has.
    pub fn open(path: &Path, machine: Option<&MachineSpec>) -> Result<Traced, Error> {
        Traced::open_watched(path, machine, &|_| {})
    }

    /// Opens a file like [`Traced::open`]. `progress` is called with the progress, from 0 to 1000,
    /// while a recording is read.
    ///
    /// # Errors
    /// As [`Traced::open`] does.
    pub fn open_watched(path: &Path, machine: Option<&MachineSpec>, progress: &dyn Fn(u64)) -> Result<Traced, Error> {
        let at = |error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", path.display()));
        if !path.is_dir() {
            let mut file = File::open(path).map_err(|error| at(&error))?;
            let bytes = file.metadata().map_err(|error| at(&error))?.len();
            let mut begin = Vec::new();
            let read = (&mut file).take(EXAMINED).read_to_end(&mut begin);
            read.map_err(|error| at(&error))?;
            if begin.starts_with(recording::TRACE_FILE) {
                file.seek(SeekFrom::Start(0)).map_err(|error| at(&error))?;
                let reader = Reader::new(BufReader::new(file)).map_err(|error| at(&error))?;
                return Ok(Traced {
                    path: path.to_owned(),
                    header: reader.header().clone(),
                    kind: TraceSource::File { bytes },
                });
            }
        }
        let recording::Recording {
            records,
            missing,
            lost,
            unwoken,
            counts,
            nr_cpus,
            ..
        } = recording::open_watched(path, progress).map_err(|error| match error.line {
            0 => at(&error.message).hint(error.hint),
            _ => at(&error),
        })?;
        let highest = records.iter().map(highest_cpu).max().map_or(0, |cpu| cpu as usize + 1);
        let nr_cpus = highest.max(nr_cpus as usize);
        let (name, cpus) = match machine {
            Some(machine) if machine.topology.cpus.len() < highest => {
                let has = machine.topology.cpus.len();
                return Err(at(&format!(
                    "the recording has CPU {}, but machine '{}' has only {has} CPUs",
                    highest - 1,
                    machine.name
                )));
            }
            Some(machine) => (machine.name.clone(), places(machine)),
            None => {
                let position = |core| CpuPosition { core, llc: 0, node: 0 };
                ("recorded".to_owned(), (0..).take(nr_cpus).map(position).collect())
            }
        };
        let workload = path.file_name().unwrap_or(path.as_os_str());
        let header = Header {
            machine: name,
            cpus,
            workload: workload.to_string_lossy().into_owned(),
            policy: recording::RECORDED.to_owned(),
            ..Header::default()
        };
        let kind = TraceSource::Recording {
            records,
            missing,
            lost,
            unwoken,
            counts,
        };
        Ok(Traced {
            path: path.to_owned(),
            header,
            kind,
        })
    }

    /// Passes all records to `sink`. `progress` is called with the progress, from 0 to 1000.
    ///
    /// # Errors
    /// The trace file is damaged or incomplete. The records before the damage have been passed to
    /// `sink`.
    pub fn replay(&self, sink: &mut dyn Sink, progress: &mut dyn FnMut(u64)) -> Result<End, Error> {
        let mut end = End::default();
        let mut hash = Hash::default();
        match &self.kind {
            TraceSource::Recording { records, .. } => {
                for (done, batch) in records.chunks(BATCH).enumerate() {
                    end.interrupted = interrupt::signal().is_some();
                    if end.interrupted {
                        break;
                    }
                    end.time = batch.last().map_or(end.time, |record| record.time);
                    hash.take(batch);
                    sink.take(batch);
                    progress((done * BATCH * 1000 / records.len()) as u64);
                }
            }
            TraceSource::File { bytes } => {
                let at = |error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", self.path.display()));
                let file = File::open(&self.path).map_err(|error| at(&error))?;
                let mut reader = Reader::new(BufReader::new(file)).map_err(|error| at(&error))?;
                let mut batch = Vec::with_capacity(BATCH);
                while !end.interrupted {
                    end.interrupted = interrupt::signal().is_some();
                    batch.clear();
                    let mut failed = None;
                    for record in reader.by_ref().take(BATCH) {
                        match record {
                            Ok(record) => batch.push(record),
                            Err(error) => failed = Some(at(&error)),
                        }
                    }
                    hash.take(&batch);
                    sink.take(&batch);
                    if let Some(error) = failed {
                        return Err(error);
                    }
                    let Some(last) = batch.last() else { break };
                    end.time = last.time;
                    progress(reader.offset().saturating_mul(1000) / (*bytes).max(1));
                }
                let result = reader.result().map(serde_json::from_str).transpose();
                end.result = result.map_err(|error| at(&format!("result record: {error}")))?;
            }
        }
        end.hash = hash.value();
        Ok(end)
    }

    /// Replays the trace and returns the result of the run. The trace file of a complete run
    /// contains it. Otherwise it is computed from the records, and lacks the unit of operations,
    /// the reason why the policy failed, and the time that CPUs idled while tasks waited.
    ///
    /// # Errors
    /// The errors of [`Traced::replay`].
    pub fn summarise(&self, sink: &mut dyn Sink, progress: &mut dyn FnMut(u64)) -> Result<RunResult, Error> {
        let mut summary = Summary::new(&self.header.cpus);
        let end = self.replay(&mut Tee::new().with(&mut summary).with(sink), progress)?;
        Ok(match end.result {
            Some(result) => result,
            None => summary.result(Run {
                policy: self.header.policy.clone(),
                machine: self.header.machine.clone(),
                workload: self.header.workload.clone(),
                seed: self.header.seed,
                simulated_ns: end.time,
                trace_hash: end.hash,
                unit: "operations".to_owned(),
                ops: self.header.ops.clone(),
                locks: self.header.locks.clone(),
                ..Run::default()
            }),
        })
        .map(|result| RunResult {
            interrupted: end.interrupted,
            ..result
        })
    }
}

fn highest_cpu(record: &Record) -> u32 {
    match record.event {
        Event::Wakeup { target, .. } => record.cpu.max(target),
        Event::Migrate { from, to, .. } => record.cpu.max(from).max(to),
        _ => record.cpu,
    }
}
