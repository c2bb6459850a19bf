// SPDX-License-Identifier: GPL-2.0-only
//! Saves the live side of a comparison in files. The live side is the result of executing a
//! workload on this machine. It can be compared with a simulation later, or on another machine.
//!
//! The directory of a live side contains `live.json` (the result, and facts about the recording).
//! If the execution was recorded, the directory also has `live.trace`, and if a program took the
//! place of the workload, `printed.txt` with the program's output.

use super::live::{Live, RecordedRun};
use crate::host_kernel::NO_POLICY;
use input::error::Error;
use report::RunResult;
use runner::destination::{self, Destination};
use runner::policy::EEVDF;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::Path;
use trace::{Reader, Sink, Writer};

const RESULT: &str = "live.json";
const TRACE: &str = "live.trace";
const PRINTED: &str = "printed.txt";

#[derive(Serialize, Deserialize)]
struct Saved {
    result: RunResult,
    /// Length of the recorded workload, and the time that it takes to record one event, both in ns.
    recorded: Option<(u64, u64)>,
    notes: Vec<String>,
}

/// Writes the live side into a directory, which is created if it is missing.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, live: &Live) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, &error))?;
    if let Some(run) = &live.recorded {
        let path = folder.join(TRACE);
        let mut writer = Writer::new(BufWriter::new(Destination::open(&path)?), &run.header);
        writer.take(&run.records);
        let written = writer.finish_into().and_then(|(_, file)| Ok(file.into_inner()?));
        written.map_err(|error| Error::io(&path, &error))?.commit()?;
    }
    if let Some(printed) = &live.printed {
        destination::write(&folder.join(PRINTED), printed.as_bytes())?;
    }
    let saved = Saved {
        result: live.result.clone(),
        recorded: live.recorded.as_ref().map(|run| (run.length_ns, run.event_ns)),
        notes: live.notes.clone(),
    };
    let json = serde_json::to_string_pretty(&saved).map_err(|error| Error::new(error.to_string()))?;
    destination::write(&folder.join(RESULT), json.as_bytes())
}

/// Checks that a saved live side is an execution of this workload. Also checks that a policy is
/// loaded on both sides, or that both sides use the kernel's default scheduler. Names of policies
/// are not compared, because the same policy may be in files of different names.
///
/// # Errors
/// The live side is an execution of another workload, or a policy is loaded on only one of the two
/// sides.
pub fn check(folder: &Path, live: &Live, policy: &str, workload: &str) -> Result<(), Error> {
    let executed = [&live.result.policy, &live.result.workload];
    let same_kind = (live.result.policy == NO_POLICY) == (policy == EEVDF);
    if same_kind && live.result.workload == workload {
        return Ok(());
    }
    let [other, load] = executed.map(|name| trace::escape::line(name));
    let message = format!("the live side is {other} under {load}, not {policy} under {workload}");
    Err(Error::at(folder.display().to_string(), message).hint("give the policy and the workload of the live side"))
}

/// Reads a live side that [`write`] has written. The recording is read only if `recorded` is set.
///
/// # Errors
/// A file is missing or damaged.
pub fn read(folder: &Path, recorded: bool) -> Result<Live, Error> {
    let path = folder.join(RESULT);
    let text = fs::read_to_string(&path).map_err(|error| {
        Error::io(&path, &error).hint("give a directory that `windtunnel live compare --save` has written")
    })?;
    let at = |path: &Path, error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", path.display()));
    let saved: Saved = serde_json::from_str(&text).map_err(|error| at(&path, &error))?;
    let recorded = match saved.recorded.filter(|_| recorded) {
        Some((length_ns, event_ns)) => {
            let path = folder.join(TRACE);
            let file = File::open(&path).map_err(|error| Error::io(&path, &error))?;
            let mut reader = Reader::new(BufReader::new(file)).map_err(|error| at(&path, &error))?;
            let header = reader.header().clone();
            let records = reader.by_ref().collect::<Result<_, _>>();
            let records = records.map_err(|error| at(&path, &error))?;
            Some(RecordedRun {
                header,
                records,
                length_ns,
                event_ns,
            })
        }
        None => None,
    };
    Ok(Live {
        result: saved.result,
        recorded,
        printed: fs::read_to_string(folder.join(PRINTED)).ok(),
        notes: saved.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_side_of_another_workload_is_refused() {
        let folder = tempfile::tempdir().expect("the directory can be created");
        let live = Live {
            result: RunResult {
                policy: NO_POLICY.into(),
                workload: "closed:n=2".into(),
                ..RunResult::default()
            },
            recorded: None,
            printed: Some("Time: 0.1\n".into()),
            notes: vec!["a note".into()],
        };
        write(folder.path(), &live).expect("the files can be written");
        let live = read(folder.path(), false).expect("the files can be read");
        assert_eq!(live.notes, ["a note"]);
        assert_eq!(live.printed.as_deref(), Some("Time: 0.1\n"));
        check(folder.path(), &live, "eevdf", "closed:n=2").expect("the policy and the workload match");
        for (policy, workload) in [("eevdf", "closed:n=3"), ("fifo", "closed:n=2")] {
            let error = check(folder.path(), &live, policy, workload).expect_err("a mismatch is refused");
            assert!(
                error.message.contains("the live side is default under closed:n=2"),
                "{error}"
            );
        }
    }
}
