// SPDX-License-Identifier: GPL-2.0-only
//! Performs the steps of the user-space part of a policy, as described by a file called profile:
//! setting map entries and running programs of type syscall. This takes no simulated time.

use crate::machine::Machine;
use crate::policy::iterator;
use crate::policy::user_space_error::{EntryError, UserSpaceError};
use crate::sched::ext::enable::{run_as_user, run_as_user_on};
use crate::sched::tracepoint;
use crate::simulation::id::CpuId;
use bpf::fault::Fault;
use bpf::link::Image;
use bpf::map::kind;
use bpf::object::{Program, ProgramKind};
use profile::{Profile, Properties, Run, fitting, instances};

/// Performs the steps of the profile that precede the enabling of the policy. `cid` says whether
/// the callbacks of the policy use cids (topological CPU numbers).
///
/// # Errors
/// If the profile does not fit the object, or if a program faults or returns a value other than 0.
pub(crate) fn before(m: &mut Machine, image: &Image, profile: &Profile, cid: bool) -> Result<(), UserSpaceError> {
    let debts: Vec<(u64, u64)> = m.rqs.iter().map(|rq| (rq.debt(), rq.carry_ps)).collect();
    let done = limit_latency(m, profile)
        .and_then(|()| set_entries(m, image, profile))
        .and_then(|()| run_programs(m, image, profile, false));
    tracepoint::bpf_scx_reg(m, cid);
    for (rq, (debt, carry_ps)) in m.rqs.iter_mut().zip(debts) {
        rq.set_debt(debt);
        rq.carry_ps = carry_ps;
        rq.charged = rq.charged.min(debt);
    }
    done
}

/// Performs the steps of the profile that follow the enabling of the policy.
///
/// # Errors
/// The same as those of [`before`].
pub(crate) fn after(m: &mut Machine, image: &Image, profile: &Profile) -> Result<(), UserSpaceError> {
    match profile.run.iter().any(|run| run.after) {
        true => run_as_user(m, |m| run_programs(m, image, profile, true)),
        false => Ok(()),
    }
}

/// Runs a program of type syscall like user space does while a policy is loaded. Returns the
/// program's result. For an iterator program, reads its file instead and logs each line of its
/// output as with bpf_printk().
///
/// # Errors
/// If no policy is loaded, if an argument has no value, or if the program faults.
pub fn run_program(m: &mut Machine, program: &Program, run: &Run) -> Result<i32, UserSpaceError> {
    let spec = m.spec.clone();
    let mut context = run.context(Properties::new(&spec, &m.options.release))?;
    if !m.ext.has_policy() {
        return Err(UserSpaceError::NoPolicy);
    }
    if program.kind == ProgramKind::Iter {
        let output = run_as_user(m, |m| iterator::read(m, program))?;
        let text = String::from_utf8_lossy(&output);
        for line in text.lines() {
            m.trace_text(m.this_cpu, trace::Event::Printk { text: line.to_owned() });
        }
        return Ok(0);
    }
    let result = run_as_user(m, |m| tracepoint::run_syscall_program(m, program, &mut context));
    Ok(result?)
}

/// Limits the exit latency of the idle states of all CPUs.
fn limit_latency(m: &mut Machine, profile: &Profile) -> Result<(), UserSpaceError> {
    if profile.resume_latency_us.is_empty() {
        return Ok(());
    }
    let us = Properties::new(&m.spec, &m.options.release).value(&profile.resume_latency_us)?;
    let limit = u64::try_from(us).map_err(|_| UserSpaceError::Latency(us))?;
    for cpu in m.cpus() {
        m.limit_latency(cpu, Some(limit.saturating_mul(1000)).filter(|&ns| ns > 0));
    }
    Ok(())
}

/// Sets the map entries that the profile lists.
fn set_entries(m: &Machine, image: &Image, profile: &Profile) -> Result<(), UserSpaceError> {
    let facts = Properties::new(&m.spec, &m.options.release).with_types(&image.btf);
    let names = profile.names(facts)?;
    let facts = facts.with_results(&names);
    for setting in &profile.map {
        setting.each(facts, &mut |path, value| {
            set_entry(m, image, path, value).map_err(|error| UserSpaceError::Entry {
                path: path.into(),
                value,
                error,
            })
        })?;
    }
    Ok(())
}

/// Sets an entry of a map. `path` has the form `map[key].member`, or `map[key][cpu].member` for a
/// per-CPU map. If a key consists of several parts, all parts have the same size.
fn set_entry(m: &Machine, image: &Image, path: &str, value: i64) -> Result<(), EntryError> {
    let cut = |text: &str| -> Result<(String, String, String), EntryError> {
        let (before, rest) = text.split_once('[').ok_or(EntryError::NoKey)?;
        let (index, after) = rest.split_once(']').ok_or(EntryError::MissingBracket)?;
        Ok((before.to_owned(), index.to_owned(), after.to_owned()))
    };
    let (name, key, mut member) = cut(path)?;
    let map = m.ext.vm().map_by_name(&name);
    let map = map.ok_or_else(|| EntryError::UnknownMap {
        file: image.file.clone(),
        name,
    })?;
    let parts: Vec<&str> = key.split(',').collect();
    let size = map.def().key_size as usize / parts.len();
    let mut bytes = Vec::new();
    for part in parts {
        let number: i64 = part.parse().map_err(|_| EntryError::KeyNotNumber(part.into()))?;
        let number = number.to_le_bytes();
        bytes.extend_from_slice(number.get(..size).ok_or(EntryError::KeyTooLong)?);
    }
    let mut cpu = 0;
    if matches!(
        map.def().kind,
        kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH
    ) {
        let (before, number, after) = cut(&member).map_err(|_| EntryError::NoCpuIndex)?;
        cpu = number.parse().map_err(|_| EntryError::CpuNotNumber(number))?;
        if !before.is_empty() || cpu >= m.nr_cpus() {
            return Err(EntryError::NoCpuIndex);
        }
        member = after;
    }
    fitting(value, |text| {
        Ok(image.set_entry(&m.region, map, &bytes, cpu, &member, text)?)
    })
}

/// Runs the programs that the profile lists for the time before or after the enabling of the
/// policy.
fn run_programs(m: &mut Machine, image: &Image, profile: &Profile, after: bool) -> Result<(), UserSpaceError> {
    let spec = m.spec.clone();
    let release = m.options.release;
    let facts = Properties::new(&spec, &release).with_types(&image.btf);
    let names = profile.names(facts)?;
    for run in profile.run.iter().filter(|run| run.after == after) {
        for at in instances(&spec.topology, run.each) {
            run_one(m, image, run, facts.at(at), &mut names.clone())?;
        }
    }
    Ok(())
}

/// Runs a program, stores values at addresses that the program has returned, and runs the programs
/// that the profile lists under `then`.
fn run_one(
    m: &mut Machine,
    image: &Image,
    run: &Run,
    facts: Properties,
    results: &mut Vec<(String, i64)>,
) -> Result<(), UserSpaceError> {
    let known = results.clone();
    let facts = facts.with_results(&known);
    if !facts.holds(&run.when)? {
        return Ok(());
    }
    let program = image.programs.iter().find(|program| program.name == run.program);
    let program = program.ok_or_else(|| UserSpaceError::UnknownProgram {
        file: image.file.clone(),
        name: run.program.clone(),
    })?;
    let mut context = run.context(facts)?;
    let value = match run.on.as_str() {
        "" => tracepoint::run_syscall_program(m, program, &mut context)?,
        on => {
            let cpu = cpu(m, facts.value(on)?)?;
            run_as_user_on(m, cpu, |m| tracepoint::run_syscall_program(m, program, &mut context))?
        }
    };
    if value != 0 {
        return Err(UserSpaceError::Returned {
            program: run.program.clone(),
            value,
            args: run.args.iter().map(|arg| arg.value.clone()).collect(),
        });
    }
    results.extend(run.results(&context));
    let known = results.clone();
    let facts = facts.with_results(&known);
    for setting in &run.memory {
        // The indexes of a path are evaluated like expressions. The address is therefore passed as
        // the only index of a path without a name.
        let at = profile::Setting {
            path: format!("[{}]", setting.path),
            ..setting.clone()
        };
        at.each(facts, &mut |path, value| {
            let address = path.trim_matches(['[', ']']).parse().unwrap_or(0);
            store(m, address, value).map_err(|fault| UserSpaceError::Memory {
                path: setting.path.clone(),
                value,
                fault,
            })
        })?;
    }
    for next in &run.then {
        run_one(m, image, next, facts, results)?;
    }
    Ok(())
}

fn cpu(m: &Machine, number: i64) -> Result<CpuId, UserSpaceError> {
    m.cpu_id(number).ok_or(UserSpaceError::NoCpu(number))
}

/// Stores a value at an address that a program has returned. If the policy has an arena, the
/// address may be in the arena.
fn store(m: &Machine, address: i64, value: i64) -> Result<(), Fault> {
    let address = address as u64;
    let arena = m.ext.vm().maps().iter().find_map(|map| map.arena_addr(address));
    let address = arena.unwrap_or(address);
    m.region.store(address, value)
}
