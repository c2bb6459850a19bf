// SPDX-License-Identifier: GPL-2.0-only
//! The policy that a `live load` holds, as other commands find it: a file that says who holds it and where its globals are.

use crate::globals::Globals;
use crate::kernel;
use crate::load::setting;
use crate::policy::Source;
use crate::statistics::Look;
use bpf::object::Object;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use windtunnel::error::Error;
use windtunnel::load;
use windtunnel::outln;

const FOLDER: &str = "/run/windtunnel";
const FILE: &str = "/run/windtunnel/live.json";
/// The bytes that were loaded: the file they came from may have been compiled again since.
const OBJECT: &str = "/run/windtunnel/live.bpf.o";

#[derive(Serialize, Deserialize)]
struct Record {
    pid: i32,
    policy: String,
    /// As the kernel calls it.
    ops: String,
    /// Map ids by section.
    sections: BTreeMap<String, u32>,
}

/// The file, removed when dropped.
pub struct Session;

impl Session {
    /// Writes down who holds which policy.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(source: &Source, globals: &Globals) -> Result<Session, Error> {
        let record = Record {
            pid: std::process::id() as i32,
            policy: source.name.clone(),
            ops: kernel::ops(),
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
        // Nothing is lost if one of them stays: readers check that the process lives.
        let _ = fs::remove_file(FILE);
        let _ = fs::remove_file(OBJECT);
    }
}

/// The session that is alive, with its object.
fn current() -> Result<Option<(Record, Object)>, Error> {
    let Ok(text) = fs::read_to_string(FILE) else {
        return Ok(None);
    };
    let record: Record = serde_json::from_str(&text).map_err(|error| Error::new(format!("{FILE}: {error}")))?;
    if !Path::new(&format!("/proc/{}", record.pid)).exists() || kernel::ops() != record.ops {
        return Ok(None);
    }
    let bytes = fs::read(OBJECT).map_err(|error| Error::new(format!("{OBJECT}: {error}")))?;
    let object = Object::parse(&bytes, &record.policy).map_err(|error| Error::new(error.to_string()))?;
    Ok(Some((record, object)))
}

/// # Errors
/// If no `live load` holds a policy: who schedules then.
fn held() -> Result<(Record, Object), Error> {
    kernel::has_sched_ext()?;
    if let Some(session) = current()? {
        return Ok(session);
    }
    Err(match kernel::ops() {
        ops if kernel::state() == "disabled" || ops.is_empty() => {
            Error::new("no policy is loaded").hint("`windtunnel live load POLICY` loads one")
        }
        ops => Error::new(format!("'{ops}' was not loaded by windtunnel"))
            .hint("end the process that loaded it, or `echo S > /proc/sysrq-trigger`"),
    })
}

/// `live status`.
pub fn status() -> Result<ExitCode, Error> {
    outln!("kernel {}", kernel::release());
    if kernel::state().is_empty() {
        outln!("sched_ext: none; the default scheduler schedules");
        return Ok(ExitCode::SUCCESS);
    }
    outln!("sched_ext: {}", kernel::state());
    if !kernel::ops().is_empty() {
        outln!("scheduler: {}", kernel::ops());
    }
    for (name, count) in kernel::events() {
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
        for (name, value) in Look::now(&object, &globals).counters {
            outln!("  {name} {value}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(clap::Args)]
pub struct SetArgs {
    /// NAME=VALUE; elements and members too: NAME[3].MEMBER=VALUE
    #[arg(required = true)]
    settings: Vec<String>,
}

impl SetArgs {
    /// `live set`.
    pub fn run(self) -> Result<ExitCode, Error> {
        let (record, mut object) = held()?;
        let globals = Globals::from_ids(&record.sections)?;
        for text in &self.settings {
            let (name, value) = setting(text)?;
            // The object is asked first: it knows the type and the range.
            object.set(&name, &value).map_err(|error| {
                Error::new(error.to_string()).hint(format!(
                    "`windtunnel policy show {}` tells of its parameters",
                    record.policy
                ))
            })?;
            load::check_ranges(&object, &[(name.clone(), value.clone())])?;
            let before = globals.get(&object, &name)?;
            globals.set(&object, &name, &value)?;
            outln!("{}: {name} {before} -> {}", record.policy, globals.get(&object, &name)?);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `live unload`: tells the holder to let go, and waits until the kernel has.
pub fn unload() -> Result<ExitCode, Error> {
    let (record, _) = held()?;
    // SAFETY: a signal to the process that wrote the record and is alive.
    if unsafe { libc::kill(record.pid, libc::SIGTERM) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(
            Error::new(format!("process {} holds {}: {error}", record.pid, record.policy))
                .hint("unload it as the user who loaded it"),
        );
    }
    for _ in 0..100 {
        if kernel::state() == "disabled" {
            outln!("{}: unloaded", record.policy);
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(Error::new(format!(
        "{} is still loaded after 10 s (state: {})",
        record.policy,
        kernel::state()
    ))
    .hint(format!("process {} holds it", record.pid)))
}
