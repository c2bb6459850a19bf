// SPDX-License-Identifier: GPL-2.0-only
//! A real program as the live side of a comparison, in place of the workload that stands for it.
//!
//! The figures count the program and all of its descendants, from its creation until its exit.

use super::live::{Counted, Live, count, event_ns};
use crate::record::{self, Recorded, Recorder};
use crate::stop;
use input::error::Error;
use report::{Run, RunResult};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use trace::{Event, Record};
use workload::Workload;

/// Interval between two checks whether the program has ended. The program runs undisturbed in
/// between.
const POLL: Duration = Duration::from_millis(20);

/// Executes the program twice: once undisturbed, which measures its duration and what it prints, and
/// once while recording, which measures all other figures. `workload` stands for the program in the
/// simulator. A program that has not ended after `limit` ns is killed.
///
/// # Errors
/// The command cannot be executed or recorded, it fails, or it exceeds the limit.
pub fn run(words: &[String], workload: &Workload, limit: u64, seed: u64) -> Result<Live, Error> {
    let begun = Instant::now();
    let (child, output) = spawn(words)?;
    finish(child, &output, words, limit, &mut || Ok(()))?;
    let printed = read_output(&output)?;
    let wall_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut recorder = Recorder::start(4 * windtunnel::live::BUFFER_KIB)?;
    let (child, output) = spawn(words)?;
    let pid = child.id();
    finish(child, &output, words, limit, &mut || recorder.drain())?;
    let Recorded { recording, lost } = recorder.stop()?;
    let (places, hz) = record::places()?;
    let tasks = Tasks::of(&recording.records, pid);
    let (Some(from), Some(to)) = (tasks.from, tasks.to) else {
        return Err(Error::new(format!(
            "the recording lacks the program {}",
            words.join(" ")
        )));
    };
    let counted = Counted {
        pids: &tasks.pids,
        from,
        length: to - from,
        hz,
        run: Run {
            policy: crate::host_kernel::scheduler(),
            machine: "live".into(),
            workload: workload.name.clone(),
            seed,
            wall_ns,
            unit: workload.unit.clone(),
            completed: true,
            ..Run::default()
        },
    };
    let (result, mut run) = count(recording.records, places, counted);
    let mut result = RunResult {
        simulated_ns: wall_ns,
        wall_ns,
        score: None,
        ..result
    };
    run.event_ns = event_ns(seed)?;
    run.scan(tasks.names).correct_latencies(&mut result);
    let mut notes = vec![format!("the live side is the program {}", words.join(" "))];
    if lost > 0 {
        notes.push(format!("{lost} events were lost: counts are too low"));
    }
    Ok(Live {
        result,
        recorded: Some(run),
        printed: Some(printed),
        notes,
    })
}

/// Starts the program. Returns it with the file that receives its output.
fn spawn(words: &[String]) -> Result<(Child, File), Error> {
    let [program, arguments @ ..] = words else {
        return Err(Error::new("--program: the command is empty"));
    };
    // The output goes into a file. A pipe would have to be emptied while the program runs. schbench
    // prints its results to standard error. The file has no name, so no other user can replace it.
    let output = tempfile::tempfile().map_err(output_error)?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(output_error)?)
        .stderr(output.try_clone().map_err(output_error)?)
        .spawn()
        .map_err(|error| Error::new(format!("--program: {program}: {error}")))?;
    Ok((child, output))
}

fn output_error(error: io::Error) -> Error {
    Error::new(format!("--program: the file for the program's output: {error}"))
}

/// Reads the program's output without moving the position of the file, because a descendant of the
/// program may still write there.
fn read_output(output: &File) -> Result<String, Error> {
    let length = output.metadata().map_err(output_error)?.len();
    let mut printed = vec![0; length as usize];
    output.read_exact_at(&mut printed, 0).map_err(output_error)?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Waits until the program has ended, and calls `meanwhile` in intervals.
fn finish(
    mut child: Child,
    output: &File,
    words: &[String],
    limit: u64,
    meanwhile: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let begun = Instant::now();
    let end = |child: &mut Child, error: Error| {
        let _ = child.kill();
        let _ = child.wait();
        Err(error)
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return end(&mut child, Error::new(format!("{}: {error}", words.join(" ")))),
        }
        if stop::requested() {
            return end(&mut child, Error::new("interrupted"));
        }
        if begun.elapsed() > Duration::from_nanos(limit) {
            let message = format!("{} has not ended after {} ms", words.join(" "), limit / 1_000_000);
            return end(&mut child, Error::new(message).hint("give it more time with --for"));
        }
        if let Err(error) = meanwhile() {
            return end(&mut child, error);
        }
        thread::sleep(POLL);
    };
    match status.success() {
        true => Ok(()),
        false => {
            let printed = read_output(output)?;
            let last = printed.lines().last().unwrap_or("it printed nothing");
            let message = format!("{}: {status}: {}", words.join(" "), trace::escape::line(last));
            Err(Error::new(message))
        }
    }
}

/// A program and its descendants in a recording.
#[derive(Debug, Default)]
struct Tasks {
    pids: BTreeSet<u32>,
    /// Names of the tasks, without those that they inherit from windtunnel.
    names: BTreeSet<String>,
    /// Time at which the program was created.
    from: Option<u64>,
    /// Time at which the last task exited.
    to: Option<u64>,
}

impl Tasks {
    fn of(records: &[Record], program: u32) -> Tasks {
        let mut tasks = Tasks::default();
        let mut own = String::new();
        for record in records {
            match &record.event {
                Event::TaskNew { pid, parent, comm, .. } if *pid == program || tasks.pids.contains(parent) => {
                    if *pid == program {
                        tasks.from = Some(record.time);
                        own.clone_from(comm);
                    }
                    tasks.pids.insert(*pid);
                    tasks.names.insert(comm.clone());
                }
                Event::TaskRename { pid, comm } if tasks.pids.contains(pid) => {
                    tasks.names.insert(comm.clone());
                }
                Event::TaskExit { pid } if tasks.pids.contains(pid) => tasks.to = Some(record.time),
                _ => {}
            }
        }
        tasks.names.remove(&own);
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_consists_of_its_descendants() {
        let record = |time, event| Record {
            time,
            cpu: 0,
            after: 0,
            event,
        };
        let new = |pid, parent, comm: &str| Event::TaskNew {
            pid,
            tgid: pid,
            parent,
            prio: 120,
            comm: comm.into(),
        };
        let records = [
            record(5, new(2, 1, "sh")),
            record(10, new(7, 3, "windtunnel-live")),
            record(
                20,
                Event::TaskRename {
                    pid: 7,
                    comm: "hackbench".into(),
                },
            ),
            record(30, new(8, 7, "hackbench")),
            record(40, new(9, 2, "sh")),
            record(50, Event::TaskExit { pid: 8 }),
            record(60, Event::TaskExit { pid: 7 }),
            record(70, Event::TaskExit { pid: 2 }),
        ];
        let tasks = Tasks::of(&records, 7);
        assert_eq!(tasks.pids, BTreeSet::from([7, 8]));
        assert_eq!(tasks.names, BTreeSet::from(["hackbench".to_owned()]));
        assert_eq!((tasks.from, tasks.to), (Some(10), Some(60)));
    }

    #[test]
    fn commands_that_fail_or_take_too_long_are_errors() {
        let execute = |words: &[&str], limit| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let (child, output) = spawn(&words)?;
            finish(child, &output, &words, limit, &mut || Ok(()))?;
            read_output(&output)
        };
        assert_eq!(execute(&["echo", "7"], u64::MAX).expect("echo succeeds"), "7\n");
        let message = |words, limit| execute(words, limit).expect_err("the command fails").message;
        assert_eq!(
            message(&["false"], u64::MAX),
            "false: exit status: 1: it printed nothing"
        );
        assert_eq!(
            message(&["sh", "-c", "echo oops >&2; exit 2"], u64::MAX),
            "sh -c echo oops >&2; exit 2: exit status: 2: oops"
        );
        assert_eq!(message(&["sleep", "9"], 1), "sleep 9 has not ended after 0 ms");
        assert!(message(&["./none"], 1).starts_with("--program: ./none: "));
        assert_eq!(message(&[], 1), "--program: the command is empty");
    }
}
