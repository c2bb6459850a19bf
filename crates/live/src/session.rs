// SPDX-License-Identifier: GPL-2.0-only
//! The session file. `live load` writes it while it keeps a policy loaded. It contains the pid of
//! the `live load` process and the ids of the BPF maps with the policy's globals. With these
//! numbers, other commands find the policy.

use crate::globals::Globals;
use crate::host_kernel;
use crate::load::setting;
use crate::policy::Source;
use crate::statistics::Sample;
use bpf::object::Object;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::load;
use runner::outln;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use windtunnel::live::Set;

const FOLDER: &str = "/run/windtunnel";
const FILE: &str = "/run/windtunnel/live.json";
/// A copy of the loaded object. It is needed because the file of the object may have been compiled
/// again since.
const OBJECT: &str = "/run/windtunnel/live.bpf.o";

#[derive(Serialize, Deserialize)]
struct Record {
    pid: i32,
    policy: String,
    /// Name of the loaded scheduler, as the kernel reports it.
    ops: String,
    /// Ids of the BPF maps, by section name.
    sections: BTreeMap<String, u32>,
}

/// The session file. Dropping this value removes the file.
pub struct Session;

impl Session {
    /// Writes the session file for a policy that this process has loaded.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(source: &Source, globals: &Globals) -> Result<Session, Error> {
        let record = Record {
            pid: std::process::id() as i32,
            policy: source.name.clone(),
            ops: host_kernel::ops(),
            sections: globals.ids()?,
        };
        let text = serde_json::to_string(&record).map_err(|error| Error::new(error.to_string()))?;
        let written = fs::create_dir_all(FOLDER)
            .and_then(|()| fs::copy(&source.path, OBJECT))
            .and_then(|_| fs::write(FILE, text));
        written.map_err(|error| Error::new(format!("{FILE}: {error}")))?;
        Ok(Session)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A file that cannot be removed does no harm, because readers check whether the process is
        // alive.
        let _ = fs::remove_file(FILE);
        let _ = fs::remove_file(OBJECT);
    }
}

/// Returns the current session and its object. A session is current if its process is alive and its
/// scheduler is loaded.
fn current() -> Result<Option<(Record, Object)>, Error> {
    let Ok(text) = fs::read_to_string(FILE) else {
        return Ok(None);
    };
    let record: Record = serde_json::from_str(&text).map_err(|error| Error::new(format!("{FILE}: {error}")))?;
    if !Path::new(&format!("/proc/{}", record.pid)).exists() || host_kernel::ops() != record.ops {
        return Ok(None);
    }
    let bytes = fs::read(OBJECT).map_err(|error| Error::new(format!("{OBJECT}: {error}")))?;
    let object = Object::parse(&bytes, &record.policy).map_err(|error| Error::new(error.to_string()))?;
    Ok(Some((record, object)))
}

/// Returns the current session.
///
/// # Errors
/// No `live load` has a policy loaded. The message names the scheduler that is loaded, if there is
/// one.
fn held() -> Result<(Record, Object), Error> {
    host_kernel::has_sched_ext()?;
    if let Some(session) = current()? {
        return Ok(session);
    }
    Err(match host_kernel::ops() {
        ops if host_kernel::state() == "disabled" || ops.is_empty() => {
            Error::new("no policy is loaded").hint("`windtunnel live load POLICY` loads one")
        }
        ops => Error::new(format!("'{ops}' was not loaded by windtunnel"))
            .hint("end the process that loaded it, or `echo S > /proc/sysrq-trigger`"),
    })
}

/// Executes `live status`.
pub fn status() -> Result<ExitStatus, Error> {
    outln!("kernel {}", host_kernel::release());
    if host_kernel::state().is_empty() {
        outln!("sched_ext: none; the kernel's default scheduler is in use");
        return Ok(ExitStatus::SUCCESS);
    }
    outln!("sched_ext: {}", host_kernel::state());
    if !host_kernel::ops().is_empty() {
        outln!("scheduler: {}", host_kernel::ops());
    }
    for (name, count) in host_kernel::events() {
        outln!("  {name} {count}");
    }
    if let Some((record, object)) = current()? {
        outln!("held by process {}", record.pid);
        let globals = Globals::from_ids(&record.sections)?;
        for variable in object
            .variables()
            .iter()
            .filter(|variable| !variable.tags.is_empty() && variable.live)
        {
            outln!("  {} = {}", variable.name, globals.get(&object, &variable.name)?);
        }
        for (name, value) in Sample::now(&object, &globals).counters {
            outln!("  {name} {value}");
        }
    }
    Ok(ExitStatus::SUCCESS)
}

/// Executes `live set`.
pub fn set(args: &Set) -> Result<ExitStatus, Error> {
    let (record, mut object) = held()?;
    let globals = Globals::from_ids(&record.sections)?;
    for text in &args.settings {
        let (name, value) = setting(text)?;
        // The object checks the value first, because the object contains the type and the range
        // of the variable.
        object.set(&name, &value).map_err(|error| {
            Error::new(error.to_string()).hint(format!(
                "`windtunnel policy show {}` lists the parameters",
                record.policy
            ))
        })?;
        load::check_ranges(&object, &[(name.clone(), value.clone())])?;
        let before = globals.get(&object, &name)?;
        globals.set(&object, &name, &value)?;
        outln!("{}: {name} {before} -> {}", record.policy, globals.get(&object, &name)?);
    }
    Ok(ExitStatus::SUCCESS)
}

/// Executes `live unload`. Sends SIGTERM to the process that has loaded the policy, and waits until
/// the kernel has no scheduler loaded.
pub fn unload() -> Result<ExitStatus, Error> {
    let (record, _) = held()?;
    // SAFETY: sends a signal to the process that wrote the session file and is alive.
    if unsafe { libc::kill(record.pid, libc::SIGTERM) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::new(format!(
            "the process {} that holds {} cannot be stopped: {error}",
            record.pid, record.policy
        ))
        .hint("run this as the user that loaded the policy"));
    }
    for _ in 0..100 {
        if host_kernel::state() == "disabled" {
            outln!("{}: unloaded", record.policy);
            return Ok(ExitStatus::SUCCESS);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(Error::new(format!(
        "{} is still loaded after 10 s (state: {})",
        record.policy,
        host_kernel::state()
    ))
    .hint(format!("process {} holds it", record.pid)))
}
