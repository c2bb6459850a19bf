// SPDX-License-Identifier: GPL-2.0-only
//! `live load`: loads a policy and keeps it loaded until Ctrl-C, until `live unload`, or until the
//! kernel ends the policy.

use crate::journal::{self, End, Journal};
use crate::policy::{Failure, Loaded, Source};
use crate::session::Session;
use crate::statistics::Sample;
use crate::{host_kernel, stop};
use input::error::Error;
use runner::exit::ExitStatus;
use runner::policy::Policy;
use runner::{errln, outln};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};
use windtunnel::live::Load as Args;

/// Interval between two checks of the kernel's state.
const POLL: Duration = Duration::from_millis(50);
/// Maximum number of times that a policy is loaded again. When CPUs go online or offline, the
/// kernel may end a policy, which is then loaded again.
const RESTARTS: u32 = 100;

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    match args.cgroup {
        Some(_) => host_kernel::can_attach()?,
        None => host_kernel::can_load()?,
    }
    let Policy::Object { name, path } = Policy::find(&args.policy)? else {
        return Err(
            Error::new("'eevdf' is the kernel's default scheduler, not a policy that can be loaded")
                .hint("unload the current policy to use it: `windtunnel live unload`"),
        );
    };
    let settings: Vec<(String, String)> = args.set.iter().map(|text| setting(text)).collect::<Result<_, _>>()?;
    let mut source = Source::new(name, path, &settings)?;
    if let Some(cgroup) = &args.cgroup {
        source.attach_to(cgroup)?;
    }
    stop::install_handlers();
    let mut begun = None;
    let mut restarts = 0;
    loop {
        match hold(args, &source, &mut begun)? {
            Held::Done(code) => return Ok(code),
            Held::Restart(seconds) if restarts < RESTARTS && !over(args, begun) => {
                restarts += 1;
                outln!(
                    "{}: CPUs went online or offline after {seconds:.1} s: loading it again",
                    source.name
                );
            }
            Held::Restart(_) => return Ok(ExitStatus::SUCCESS),
        }
    }
}

/// Returns whether a signal has arrived, or the time of `--for` has passed. The time starts
/// with the first load, at `begun`.
fn over(args: &Args, begun: Option<Instant>) -> bool {
    let past = |ns| begun.is_some_and(|begun| begun.elapsed() >= Duration::from_nanos(ns));
    stop::requested() || args.for_ns.is_some_and(past)
}

/// Loads the policy once and waits until it ends.
fn hold(args: &Args, source: &Source, begun: &mut Option<Instant>) -> Result<Held, Error> {
    let mut journal = Journal::from_now();
    let started = Instant::now();
    let loaded = match source.load(&mut journal) {
        Ok(loaded) => loaded,
        Err(Failure::Policy(words)) => {
            errln!("{words}");
            return Ok(Held::Done(ExitStatus::from(1)));
        }
        Err(Failure::Restart) => return Ok(Held::Restart(0.0)),
        Err(Failure::Refused(error)) => return Err(error),
    };
    outln!(
        "{}: loaded in {:.2} s, kernel {}{}",
        source.name,
        started.elapsed().as_secs_f64(),
        host_kernel::release(),
        verified(&loaded.verified)
    );
    for program in &loaded.left_out {
        outln!("  left out: {program}");
    }
    let session = match args.cgroup {
        // The session is that of the loaded policy.
        Some(_) => None,
        None => Some(Session::record(source, &loaded.globals)?),
    };
    let ops = host_kernel::ops();
    let attached = Instant::now();
    begun.get_or_insert(attached);
    let first = Sample::now(&source.object, &loaded.globals);
    let mut last = (attached, first);
    while !over(args, *begun) && source.is_enabled() && host_kernel::ops() == ops {
        thread::sleep(POLL);
        let since = last.0.elapsed();
        if since >= Duration::from_secs(1) {
            let now = Sample::now(&source.object, &loaded.globals);
            if !args.quiet {
                let line = now.since(&last.1, since.as_secs_f64());
                outln!(
                    "{:4.0} s  {}  {line}",
                    attached.elapsed().as_secs_f64(),
                    host_kernel::state()
                );
            }
            last = (Instant::now(), now);
        }
    }
    let ejected = !source.is_enabled() || host_kernel::ops() != ops;
    let events = host_kernel::events();
    outln!("{}", totals(source, &loaded, &events));
    drop(session);
    let seconds = attached.elapsed().as_secs_f64();
    drop(loaded);
    if !ejected {
        outln!("{}: unloaded after {seconds:.1} s", source.name);
        return Ok(Held::Done(ExitStatus::SUCCESS));
    }
    let words = journal.settled();
    let how = journal::end(&words);
    if how == End::Restart {
        return Ok(Held::Restart(seconds));
    }
    let code = if how == End::Ejected { 1 } else { 0 };
    errln!("{}: ended by the kernel after {seconds:.1} s", source.name);
    for line in words {
        errln!("  {line}");
    }
    Ok(Held::Done(ExitStatus::from(code)))
}

enum Held {
    Done(ExitStatus),
    /// The kernel has ended the policy and asks to load it again. The value is the time in seconds
    /// for which the policy was loaded.
    Restart(f64),
}

/// Formats how many instructions the verifier processed, for the line that reports the load.
fn verified(programs: &[(String, u32)]) -> String {
    let all: u64 = programs.iter().map(|&(_, instructions)| u64::from(instructions)).sum();
    match programs.first() {
        Some((name, most)) if all > 0 => format!(", {all} instructions verified, {most} of them for {name}"),
        _ => String::new(),
    }
}

/// Formats the kernel's event counters and the policy's own counters. Counters that are 0 are left
/// out.
fn totals(source: &Source, loaded: &Loaded, events: &[(String, u64)]) -> String {
    let mut text = format!("{}: counted:", source.name);
    for (name, value) in Sample::now(&source.object, &loaded.globals).counters {
        let _ = write!(text, " {name}={value}");
    }
    for (name, value) in events {
        let _ = write!(text, " {name}={value}");
    }
    text
}

/// Splits NAME=VALUE.
pub fn setting(text: &str) -> Result<(String, String), Error> {
    text.split_once('=')
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .ok_or_else(|| Error::new(format!("'{text}': NAME=VALUE expected")).hint("for example: slice_ns=5000000"))
}
