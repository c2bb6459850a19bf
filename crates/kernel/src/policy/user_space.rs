// SPDX-License-Identifier: GPL-2.0-only
//! What a policy's user-space half does with an object that is in the kernel: entries of its maps, programs of type syscall. None of
//! it costs the machine time.

use crate::machine::Machine;
use crate::policy::{iterator, tracepoint};
use crate::sched::ext::enable::{as_the_user, as_the_user_on};
use crate::simulation::id::CpuId;
use bpf::link::Image;
use bpf::map::kind;
use bpf::object::{Program, ProgramKind};
use profile::{Facts, Profile, Run, fitting, instances};

/// Before the policy, by cid or not, is enabled.
///
/// # Errors
/// If the profile does not fit the object, or a program faults or returns something else than 0.
pub(crate) fn before(m: &mut Machine, image: &Image, profile: &Profile, cid: bool) -> Result<(), String> {
    let debts: Vec<(u64, u64)> = m.rqs.iter().map(|rq| (rq.debt, rq.carry_ps)).collect();
    let done = set_entries(m, image, profile).and_then(|()| run_programs(m, image, profile, false));
    tracepoint::bpf_scx_reg(m, cid);
    for (rq, (debt, carry_ps)) in m.rqs.iter_mut().zip(debts) {
        (rq.debt, rq.carry_ps) = (debt, carry_ps);
    }
    done.map_err(of_profile)
}

fn of_profile(message: String) -> String {
    format!("the profile does not fit: {message}")
}

/// When the policy is enabled.
///
/// # Errors
/// As [`before`].
pub(crate) fn after(m: &mut Machine, image: &Image, profile: &Profile) -> Result<(), String> {
    match profile.run.iter().any(|run| run.after) {
        true => as_the_user(m, |m| run_programs(m, image, profile, true)).map_err(of_profile),
        false => Ok(()),
    }
}

/// Runs a program of type syscall once, as user space does while a policy is loaded. What it returned. Or reads an iterator
/// program's file; what that gives is logged line by line, as by bpf_printk().
///
/// # Errors
/// If an argument is no value, or the program faults.
pub fn run_program(m: &mut Machine, program: &Program, run: &Run) -> Result<i32, String> {
    let spec = m.spec.clone();
    let mut context = run.context(Facts::new(&spec, &m.release))?;
    if !m.ext.has_policy() {
        return Err("no policy is loaded".into());
    }
    if program.kind == ProgramKind::Iter {
        let text = as_the_user(m, |m| iterator::read(m, program))?;
        for line in text.lines() {
            m.trace_text(m.this_cpu, trace::Event::Printk { text: line.to_owned() });
        }
        return Ok(0);
    }
    as_the_user(m, |m| tracepoint::run_syscall_program(m, program, &mut context))
}

fn set_entries(m: &Machine, image: &Image, profile: &Profile) -> Result<(), String> {
    let facts = Facts::new(&m.spec, &m.release).with_types(&image.btf);
    let names = profile.names(facts)?;
    let facts = facts.with_results(&names);
    for setting in &profile.map {
        setting.each(facts, &mut |path, value| {
            set_entry(m, image, path, value).map_err(|error| format!("{path} = {value}: {error}"))
        })?;
    }
    Ok(())
}

/// `path` is `map[key].member`, of a per-CPU map `map[key][cpu].member`; a key of several parts has them all of one size.
fn set_entry(m: &Machine, image: &Image, path: &str, value: i64) -> Result<(), String> {
    let cut = |text: &str| -> Result<(String, String, String), String> {
        let (before, rest) = text.split_once('[').ok_or("expected MAP[KEY]")?;
        let (index, after) = rest.split_once(']').ok_or("']' is missing")?;
        Ok((before.to_owned(), index.to_owned(), after.to_owned()))
    };
    let (name, key, mut member) = cut(path)?;
    let map = m.ext.vm().map_by_name(&name);
    let map = map.ok_or_else(|| format!("{}: there is no map {name}", image.file))?;
    let parts: Vec<&str> = key.split(',').collect();
    let size = map.def().key_size as usize / parts.len();
    let mut bytes = Vec::new();
    for part in parts {
        let number: i64 = part.parse().map_err(|_| format!("'{part}' is no key"))?;
        let number = number.to_le_bytes();
        bytes.extend_from_slice(number.get(..size).ok_or("a part of a key has at most 8 bytes")?);
    }
    let mut cpu = 0;
    if matches!(
        map.def().kind,
        kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH
    ) {
        let (before, number, after) = cut(&member).map_err(|_| "a per-CPU map: expected MAP[KEY][cpu]")?;
        cpu = number.parse().map_err(|_| format!("'{number}' is no CPU"))?;
        if !before.is_empty() || cpu >= m.nr_cpus() {
            return Err("a per-CPU map: expected MAP[KEY][cpu]".into());
        }
        member = after;
    }
    fitting(value, |text| {
        let set = image.set_entry(&m.region, map, &bytes, cpu, &member, text);
        set.map_err(|error| error.to_string())
    })
}

fn run_programs(m: &mut Machine, image: &Image, profile: &Profile, after: bool) -> Result<(), String> {
    let spec = m.spec.clone();
    let release = m.release;
    let facts = Facts::new(&spec, &release).with_types(&image.btf);
    let names = profile.names(facts)?;
    for run in profile.run.iter().filter(|run| run.after == after) {
        for at in instances(&spec.topology, run.each) {
            run_one(m, image, run, facts.at(at), &mut names.clone())?;
        }
    }
    Ok(())
}

/// Runs a program, sets the memory it gave, and goes on with what comes `then`.
fn run_one(
    m: &mut Machine,
    image: &Image,
    run: &Run,
    facts: Facts,
    results: &mut Vec<(String, i64)>,
) -> Result<(), String> {
    let known = results.clone();
    let facts = facts.with_results(&known);
    if !facts.holds(&run.when)? {
        return Ok(());
    }
    let program = image.programs.iter().find(|program| program.name == run.program);
    let program = program.ok_or_else(|| format!("{}: there is no program {}", image.file, run.program))?;
    let mut context = run.context(facts)?;
    let value = match run.on.as_str() {
        "" => tracepoint::run_syscall_program(m, program, &mut context)?,
        on => {
            let cpu = cpu(m, facts.value(on)?)?;
            as_the_user_on(m, cpu, |m| tracepoint::run_syscall_program(m, program, &mut context))?
        }
    };
    if value != 0 {
        return Err(returned(run, value));
    }
    results.extend(run.results(&context));
    let known = results.clone();
    let facts = facts.with_results(&known);
    for setting in &run.memory {
        // An address as the only index of a path without a name, so that words are worked out alike.
        let at = profile::Setting {
            path: format!("[{}]", setting.path),
            ..setting.clone()
        };
        at.each(facts, &mut |path, value| {
            let address = path.trim_matches(['[', ']']).parse().unwrap_or(0);
            store(m, address, value).map_err(|error| format!("{} = {value}: {error}", setting.path))
        })?;
    }
    for next in &run.then {
        run_one(m, image, next, facts, results)?;
    }
    Ok(())
}

/// What to say of a program that refused.
fn returned(run: &Run, value: i32) -> String {
    let args: Vec<&str> = run.args.iter().map(|arg| arg.value.as_str()).collect();
    format!("program {} returned {value} for {args:?}", run.program)
}

fn cpu(m: &Machine, number: i64) -> Result<CpuId, String> {
    let cpu = m.cpu_id(number);
    cpu.ok_or_else(|| format!("there is no CPU {number}"))
}

/// An address that a program gave lies in the arena, if there is one.
fn store(m: &Machine, address: i64, value: i64) -> Result<(), String> {
    let address = address as u64;
    let arena = m.ext.vm().maps().iter().find_map(|map| map.arena_addr(address));
    let address = arena.unwrap_or(address);
    m.region.store(address, value).map_err(|fault| fault.to_string())
}
