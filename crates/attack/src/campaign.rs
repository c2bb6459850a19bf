// SPDX-License-Identifier: GPL-2.0-only
//! A campaign runs many inputs in child processes, and finds the inputs that end a child. Each
//! input is made from the seed of the campaign and the index of the input.

use crate::child::EXIT_MEMORY;
use crate::kind::InputKind;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// An input that ended its child process: by a panic, by a signal, or because it exceeded a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: InputKind,
    pub seed: u64,
    pub index: u64,
    /// Message and location of the panic, or the signal, or the limit that was exceeded.
    pub cause: String,
}

/// Result of running a range of inputs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of inputs that were run, including the failures.
    pub inputs: u64,
    pub failures: Vec<Failure>,
}

/// Runs the inputs with the indices in `range`, in child processes of the executable `attack`.
/// For each input that did no harm, calls `end` with the input's index and result. After
/// `deadline`, no further input is started.
///
/// # Errors
/// The child process cannot be started.
pub fn run(
    attack: &Path,
    kind: InputKind,
    seed: u64,
    range: Range<u64>,
    deadline: Option<Instant>,
    end: &mut dyn FnMut(u64, &str),
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut next = range.start;
    while next < range.end && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let mut stderr = tempfile()?;
        let mut child = Command::new(attack)
            .args([
                "child",
                kind.name(),
                &seed.to_string(),
                &next.to_string(),
                &range.end.to_string(),
            ])
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().map_err(|error| error.to_string())?)
            .spawn()
            .map_err(|error| format!("{}: {error}", attack.display()))?;
        let lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
        let mut stopped = false;
        for line in lines.map_while(Result::ok) {
            let Some((index, text)) = line.split_once('\t') else {
                continue;
            };
            if let Ok(index) = index.parse::<u64>() {
                end(index, text);
                tally.inputs += 1;
                next = index + 1;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                stopped = true;
                let _ = child.kill();
                break;
            }
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if stopped || status.success() {
            break;
        }
        let mut text = String::new();
        let read = stderr
            .seek(SeekFrom::Start(0))
            .and_then(|_| stderr.read_to_string(&mut text));
        let text = if read.is_ok() { text } else { String::new() };
        // A child checks its memory after it has reported an input. If it exits because it used too
        // much memory, the input that it reported last is the harmful one.
        let memory = status.code() == Some(EXIT_MEMORY);
        let index = if memory { next.saturating_sub(1) } else { next };
        tally.inputs += u64::from(!memory);
        tally.failures.push(Failure {
            kind,
            seed,
            index,
            cause: reason(status, &text),
        });
        next = index + 1;
    }
    Ok(tally)
}

/// Describes why a child process ended.
fn reason(status: ExitStatus, stderr: &str) -> String {
    let panic: Vec<&str> = stderr
        .lines()
        .skip_while(|line| !line.contains("panicked at"))
        .take(3)
        .filter(|line| !line.starts_with("note:"))
        .collect();
    let first: Vec<&str> = stderr.lines().filter(|line| !line.is_empty()).take(1).collect();
    let cause = match (status.code(), status.signal()) {
        (Some(EXIT_MEMORY), _) => "more memory than the limit".to_owned(),
        (_, Some(libc::SIGPROF)) => "time-out".to_owned(),
        (Some(101), _) => return panic.join(" "),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    };
    let text = if panic.is_empty() { first } else { panic };
    format!("{cause} {}", text.join(" ")).trim().to_owned()
}

fn tempfile() -> Result<std::fs::File, String> {
    let path = std::env::temp_dir().join(format!(
        "attack-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let open = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    let file = open.map_err(|error| format!("{}: {error}", path.display()))?;
    // The file is removed from its directory at once. Its contents exist as long as it is open.
    let _ = std::fs::remove_file(&path);
    Ok(file)
}

/// Writes the input of a failure to target/attack. Returns the command that repeats the failure.
///
/// # Errors
/// The file cannot be written.
pub fn keep(failure: &Failure) -> Result<String, String> {
    let folder = crate::output();
    let name = format!("{}-{}-{}", failure.kind.name(), failure.seed, failure.index);
    let path: PathBuf = folder.join(name);
    let input = failure.kind.make(failure.seed, failure.index);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, input))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!(
        "cargo run -q -p attack -- repeat {} target/attack/{}",
        failure.kind.name(),
        path.file_name().unwrap_or_default().display()
    ))
}

/// Runs inputs of each kind in turn, and gives each kind an equal share of the time. Calls `report`
/// for each new failure as soon as it is found.
///
/// # Errors
/// A child process cannot be started.
pub fn for_seconds(
    attack: &Path,
    kinds: &[InputKind],
    seed: u64,
    seconds: u64,
    report: &mut dyn FnMut(&Failure),
) -> Result<Vec<(InputKind, Tally)>, String> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tallies: Vec<(InputKind, Tally)> = kinds.iter().map(|&kind| (kind, Tally::default())).collect();
    let mut next = vec![0u64; kinds.len()];
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        let slice = (left / kinds.len() as u32)
            .min(Duration::from_secs(60))
            .max(Duration::from_millis(500));
        for (index, &kind) in kinds.iter().enumerate() {
            let deadline = (Instant::now() + slice).min(end);
            let from = next[index];
            let tally = run(attack, kind, seed, from..u64::MAX, Some(deadline), &mut |_, _| {})?;
            next[index] += tally.inputs;
            tally.failures.iter().for_each(&mut *report);
            let sum = &mut tallies[index].1;
            sum.inputs += tally.inputs;
            sum.failures.extend(tally.failures);
        }
    }
    Ok(tallies)
}
