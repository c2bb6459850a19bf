// SPDX-License-Identifier: GPL-2.0-only
//! `live record`: what this machine's scheduler does, as a trace file: what reports, drawings and replays of simulated runs take.
//! With a workload, what its tasks did (operations, response times, phases) is in it, too.

mod tracefs;

pub use tracefs::{Recorded, Recorder};

use crate::{kernel, run, stop};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};
use trace::{CpuPosition, Event, Header, Record, Sink, Writer};
use windtunnel::destination::{self, Destination};
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::search;
use windtunnel::{errln, outln};

/// How often buffers are looked at.
const POLL: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub struct Args {
    /// Where the trace goes
    #[arg(long, short, value_name = "FILE", default_value = "recording.trace")]
    output: PathBuf,
    /// Record for this time [default: until the workload or command ends, or Ctrl-C]
    #[arg(long = "for", value_parser = duration::parse_some)]
    for_ns: Option<u64>,
    /// Buffer of each CPU, KiB
    #[arg(long, value_name = "KIB", default_value_t = BUFFER_KIB, value_parser = clap::value_parser!(u64).range(64..=1 << 20))]
    buffer: u64,
    /// Where chance starts from, for a workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Record while this runs: a workload as of `live run`, or a command with its arguments
    #[arg(last = true, value_name = "WORKLOAD|COMMAND")]
    what: Vec<String>,
}

/// Tens of thousands of events.
pub const BUFFER_KIB: u64 = 4096;

/// What runs meanwhile.
enum Meanwhile {
    Nothing,
    Workload(Box<workload::Workload>),
    Command(Vec<String>),
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let what = meanwhile(&self.what)?;
        // First what can be refused.
        destination::check([self.output.as_path()])?;
        let (places, hz) = places()?;
        let policy = kernel::scheduler();
        stop::remember();
        let mut recorder = Recorder::start(self.buffer)?;
        let mut own = Vec::new();
        let mut code = ExitCode::SUCCESS;
        let mut name = "recorded".to_owned();
        match what {
            Meanwhile::Nothing => self.wait(&mut recorder, None)?,
            Meanwhile::Command(words) => {
                name = words.join(" ");
                let mut child = Command::new(&words[0]).args(&words[1..]).spawn().map_err(|error| {
                    Error::new(format!("{}: {error}", words[0])).hint("after -- comes a workload or a command")
                })?;
                self.wait(&mut recorder, Some(&mut child))?;
                if let Ok(Some(status)) = child.try_wait()
                    && !status.success()
                {
                    errln!("windtunnel live: {name}: {status}");
                    code = ExitCode::from(1);
                }
            }
            Meanwhile::Workload(workload) => {
                name.clone_from(&workload.name);
                let mut failed = Ok(());
                let executed = run::execute_while(*workload, self.for_ns, self.seed, &mut || {
                    if failed.is_ok() {
                        failed = recorder.drain();
                    }
                })?;
                failed?;
                for note in &executed.notes {
                    errln!("windtunnel live: {note}");
                }
                own = executed.log;
                own.iter_mut().for_each(|record| record.time += executed.begun);
            }
        }
        let Recorded { recording, lost } = recorder.stop()?;
        let header = Header {
            machine: format!("live, kernel {}", kernel::release()),
            cpus: places,
            workload: name,
            policy,
            hz,
            ..Header::default()
        };
        let tasks = recording
            .records
            .iter()
            .filter(|record| matches!(record.event, Event::TaskNew { .. }));
        let tasks = tasks.count();
        let records = merged(recording.records, recording.start, own);
        let seconds = records.last().map_or(0.0, |record| record.time as f64 / 1e9);
        let file = BufWriter::new(Destination::open(&self.output)?);
        let mut writer = Writer::new(file, &header);
        writer.take(&records);
        let written = writer.finish_into().and_then(|(_, file)| Ok(file.into_inner()?));
        written.map_err(|error| Error::io(&self.output, &error))?.commit()?;
        let output = self.output.display();
        outln!(
            "{output}: {} records, {} switches of {tasks} tasks on {} CPUs in {seconds:.3} s under {}",
            records.len(),
            recording.switches,
            header.cpus.len(),
            header.policy
        );
        if lost > 0 || recording.missing > 0 {
            outln!(
                "  {lost} events were lost, {} switches are missing: larger buffers with --buffer {}",
                recording.missing,
                self.buffer * 4
            );
        }
        outln!("  look at it: windtunnel report {output}; replay it: windtunnel run eevdf --workload {output}");
        Ok(code)
    }

    /// Until Ctrl-C, the time, or the child's end.
    fn wait(&self, recorder: &mut Recorder, mut child: Option<&mut Child>) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let over = self
                .for_ns
                .is_some_and(|ns| begun.elapsed() >= Duration::from_nanos(ns));
            let ended = match &mut child {
                Some(child) => child.try_wait().is_ok_and(|status| status.is_some()),
                None => false,
            };
            if ended {
                return Ok(());
            }
            if over || stop::asked() {
                if let Some(child) = &mut child {
                    // SAFETY: a child of ours that has not been waited for.
                    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                    let _ = child.wait();
                }
                return Ok(());
            }
            recorder.drain()?;
            thread::sleep(POLL);
        }
    }
}

/// One word may be a workload; what is none is a command.
fn meanwhile(words: &[String]) -> Result<Meanwhile, Error> {
    let [word, rest @ ..] = words else {
        return Ok(Meanwhile::Nothing);
    };
    if rest.is_empty() {
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        match workload::load(word, &folders) {
            Ok(workload) => return Ok(Meanwhile::Workload(Box::new(workload))),
            // What has parameters is meant to be one.
            Err(error) if word.contains([':', '{']) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Meanwhile::Command(words.to_vec()))
}

/// Where this machine's CPUs sit, by their numbers, and its ticks a second.
///
/// # Errors
/// If /sys does not describe this machine.
pub fn places() -> Result<(Vec<CpuPosition>, u32), Error> {
    let host = machine::load("host", &[])?;
    let place = |cpu: &machine::Cpu| CpuPosition {
        core: cpu.core,
        llc: cpu.llc,
        node: cpu.node,
    };
    Ok((host.topology.cpus.iter().map(place).collect(), host.hz))
}

/// The kernel's records and those of a workload (on the clock that `start` is of), in order of time from 0. Of births and deaths
/// the kernel's count; what the workload calls its tasks is a new name.
pub fn merged(mut records: Vec<Record>, start: u64, own: Vec<Record>) -> Vec<Record> {
    let own = own.into_iter().filter_map(|record| {
        let event = match record.event {
            Event::TaskNew { pid, comm, .. } => Event::TaskRename { pid, comm },
            Event::TaskExit { .. } => return None,
            event => event,
        };
        let time = record.time.saturating_sub(start);
        Some(Record { time, event, ..record })
    });
    records.extend(own);
    // Stable: the kernel's come first.
    records.sort_by_key(|record| record.time);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_workload_if_there_is_such_a_one() {
        let of = |words: &[&str]| meanwhile(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert!(matches!(of(&[]), Ok(Meanwhile::Nothing)));
        assert!(matches!(of(&["hackbench:groups=1"]), Ok(Meanwhile::Workload(_))));
        assert!(matches!(of(&["true"]), Ok(Meanwhile::Command(_))));
        assert!(matches!(of(&["sleep", "1"]), Ok(Meanwhile::Command(_))));
        assert!(of(&["hackbench:grops=1"]).is_err());
    }

    #[test]
    fn what_a_workload_logged_is_put_where_it_belongs() {
        let record = |time, pid| Record {
            time,
            cpu: 0,
            event: Event::TaskExit { pid },
        };
        let done = |time| Record {
            time,
            cpu: 0,
            event: Event::Done {
                pid: 1,
                count: 1,
                response_ns: 5,
            },
        };
        let merged = merged(vec![record(0, 1), record(50, 2)], 1000, vec![done(990), done(1020)]);
        let times: Vec<_> = merged.iter().map(|record| record.time).collect();
        assert_eq!(times, [0, 0, 20, 50]);
        assert!(matches!(merged[0].event, Event::TaskExit { .. }));
        assert!(matches!(merged[2].event, Event::Done { .. }));
    }
}
