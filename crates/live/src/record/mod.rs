// SPDX-License-Identifier: GPL-2.0-only
//! `live record`: records this machine's scheduler events into a trace file.
//!
//! The commands that read the trace of a simulated run can also read this file, for example
//! reports, drawings and replays. If a workload runs during the recording, the file also contains
//! its operations, response times and phases.

mod snapshot;
mod tracefs;

pub use tracefs::{Recorded, Recorder};

use crate::run::Meanwhile;
use crate::{host_kernel, run, stop};
use input::error::Error;
use runner::destination::{self, Destination};
use runner::exit::ExitStatus;
use runner::search;
use runner::{errln, outln};
use snapshot::Attributes;
use std::collections::HashMap;
use std::io::BufWriter;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};
use trace::{CpuPosition, Event, Header, Record, Sink, Writer};
use windtunnel::live::Record as Args;

/// Interval between two readings of the kernel's buffers.
const POLL: Duration = Duration::from_millis(20);

/// The program that is executed during the recording.
enum Program {
    Nothing,
    Workload(Box<workload::Workload>),
    Command(Vec<String>),
}

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let program = parse_program(&args.program)?;
    // Everything that can be refused is checked before the recording starts.
    destination::check([args.output.as_path()])?;
    let (places, hz) = places()?;
    let policy = host_kernel::scheduler();
    stop::install_handlers();
    let mut attributes = Attributes::default();
    attributes.collect();
    let mut recorder = Recorder::start(args.buffer)?;
    let mut own = Vec::new();
    let mut code = ExitStatus::SUCCESS;
    let mut name = "recorded".to_owned();
    match program {
        Program::Nothing => wait(args, &mut recorder, None)?,
        Program::Command(words) => {
            name = words.join(" ");
            let mut child = Command::new(&words[0]).args(&words[1..]).spawn().map_err(|error| {
                Error::new(format!("{}: {error}", words[0])).hint("give a workload or a command after --")
            })?;
            wait(args, &mut recorder, Some(&mut child))?;
            if let Ok(Some(status)) = child.try_wait()
                && !status.success()
            {
                errln!("windtunnel live: {name}: {status}");
                code = ExitStatus::from(1);
            }
        }
        Program::Workload(workload) => {
            name.clone_from(&workload.name);
            let mut failed = Ok(());
            let files = recorder.files();
            let work = &mut || {
                if failed.is_ok() {
                    failed = recorder.drain();
                }
            };
            let executed = run::execute_while(*workload, args.for_ns, args.seed, Meanwhile { files, work })?;
            failed?;
            for note in &executed.notes {
                errln!("windtunnel live: {note}");
            }
            own = executed.log;
            own.iter_mut().for_each(|record| record.time += executed.begun);
        }
    }
    // Adds the tasks that began during the recording.
    attributes.collect();
    let Recorded { recording, lost } = recorder.stop()?;
    let header = Header {
        machine: format!("live, kernel {}", host_kernel::release()),
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
    let file = BufWriter::new(Destination::open(&args.output)?);
    let mut writer = Writer::new(file, &header);
    writer.snapshot(&attributes.finish());
    writer.take(&records);
    let written = writer.finish_into().and_then(|(_, file)| Ok(file.into_inner()?));
    written.map_err(|error| Error::io(&args.output, &error))?.commit()?;
    let output = args.output.display();
    outln!(
        "{output}: {} records, {} switches of {tasks} tasks on {} CPUs in {seconds:.3} s under {}",
        records.len(),
        recording.switches,
        header.cpus.len(),
        header.policy
    );
    if lost > 0 || recording.missing > 0 {
        outln!(
            "  {lost} events were lost, {} switches are missing: enlarge the buffers with --buffer {}",
            recording.missing,
            args.buffer * 4
        );
    }
    outln!("  to see it: windtunnel report {output}; to replay it: windtunnel run eevdf --workload {output}");
    Ok(code)
}

/// Records until Ctrl-C, until the time of `--for` has passed, or until the child has ended.
fn wait(args: &Args, recorder: &mut Recorder, mut child: Option<&mut Child>) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let over = args
            .for_ns
            .is_some_and(|ns| begun.elapsed() >= Duration::from_nanos(ns));
        let ended = match &mut child {
            Some(child) => child.try_wait().is_ok_and(|status| status.is_some()),
            None => false,
        };
        if ended {
            return Ok(());
        }
        if over || stop::requested() {
            if let Some(child) = &mut child {
                // SAFETY: the signal is sent to a child that has not been waited for.
                unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                let _ = child.wait();
            }
            return Ok(());
        }
        recorder.drain()?;
        thread::sleep(POLL);
    }
}

/// Interprets the words after `--`. If there is only one word and it names a workload, the program
/// is this workload. Otherwise the words are a command.
fn parse_program(words: &[String]) -> Result<Program, Error> {
    let [word, rest @ ..] = words else {
        return Ok(Program::Nothing);
    };
    if rest.is_empty() {
        match search::workload(word) {
            Ok(workload) => return Ok(Program::Workload(Box::new(workload))),
            // A word with parameters is probably meant as a workload. The error in the workload is
            // therefore reported.
            Err(error) if word.contains([':', '{']) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Program::Command(words.to_vec()))
}

/// Returns the position of each CPU in this machine (its core, cache and node), and the number of
/// ticks per second.
///
/// # Errors
/// /sys does not describe this machine.
pub fn places() -> Result<(Vec<CpuPosition>, u32), Error> {
    let host = machine::load("host", &[])?;
    let place = |cpu: &machine::Cpu| CpuPosition {
        core: cpu.core,
        llc: cpu.llc,
        node: cpu.node,
    };
    Ok((host.topology.cpus.iter().map(place).collect(), host.hz))
}

/// Merges the kernel's records with those of a workload, in order of time. The resulting times
/// start at 0.
///
/// `start` is the time at which the recording started, on the clock of the workload's records.
///
/// The creation and the exit of each task are in the kernel's records. The workload's record of a
/// new task therefore becomes a rename, and its record of an exit is dropped. The parent reads the
/// time of the workload's record before the fork, so this time may be earlier than the kernel's
/// record of the fork. The kernel's record contains the parent's name, so the rename must come
/// after it. An earlier rename therefore gets the time of the kernel's record.
pub fn merged(mut records: Vec<Record>, start: u64, own: Vec<Record>) -> Vec<Record> {
    let forks: HashMap<u32, u64> = records
        .iter()
        .filter_map(|record| match record.event {
            Event::TaskNew { pid, .. } => Some((pid, record.time)),
            _ => None,
        })
        .collect();
    let own = own.into_iter().filter_map(|record| {
        let time = record.time.saturating_sub(start);
        let (time, event) = match record.event {
            Event::TaskNew { pid, comm, .. } => {
                let fork = forks.get(&pid).copied().unwrap_or(0);
                (time.max(fork), Event::TaskRename { pid, comm })
            }
            Event::TaskExit { .. } => return None,
            event => (time, event),
        };
        Some(Record { time, event, ..record })
    });
    records.extend(own);
    // The sort is stable, so at equal times the kernel's records come first.
    records.sort_by_key(|record| record.time);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_word_is_a_workload_if_that_workload_exists() {
        let parse = |words: &[&str]| parse_program(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert!(matches!(parse(&[]), Ok(Program::Nothing)));
        assert!(matches!(parse(&["hackbench:groups=1"]), Ok(Program::Workload(_))));
        assert!(matches!(parse(&["true"]), Ok(Program::Command(_))));
        assert!(matches!(parse(&["sleep", "1"]), Ok(Program::Command(_))));
        assert!(parse(&["hackbench:grops=1"]).is_err());
    }

    #[test]
    fn a_workloads_records_are_merged_by_time() {
        let record = |time, pid| Record {
            time,
            cpu: 0,
            after: 0,
            event: Event::TaskExit { pid },
        };
        let done = |time| Record {
            time,
            cpu: 0,
            after: 0,
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

    /// The parent reads the clock before the fork, so the workload's record of the new task (20 ns)
    /// precedes the kernel's record of the fork (30 ns). The task must nevertheless have the name
    /// `child` in the end.
    #[test]
    fn a_forked_task_keeps_the_name_that_the_workload_gave_it() {
        let new = |time, comm: &str| Record {
            time,
            cpu: 0,
            after: 0,
            event: Event::TaskNew {
                pid: 7,
                tgid: 7,
                parent: 1,
                prio: 120,
                comm: comm.into(),
            },
        };
        let merged = merged(vec![new(30, "parent")], 1000, vec![new(1020, "child")]);
        assert!(matches!(&merged[0].event, Event::TaskNew { comm, .. } if comm == "parent"));
        assert!(matches!(&merged[1].event, Event::TaskRename { pid: 7, comm } if comm == "child"));
        assert_eq!(merged[1].time, 30);
    }
}
