// SPDX-License-Identifier: GPL-2.0-only
//! A policy's object comes into a machine: linked, compiled, its user-space half's part done, enabled.

use crate::ext::{self, Exit, OpsTable, kfuncs, ops};
use crate::machine::Machine;
use crate::profile::{Facts, Profile};
use crate::target::target;
use crate::tracepoint;
use bpf::link::{Image, StructOps, link};
use bpf::map::Map;
use bpf::object::Object;
use bpf::vm::{Engine, Vm};

/// Why a policy is not there.
#[derive(Debug)]
pub enum LoadError {
    /// The object, the profile or the machine does not allow it.
    Refused(String),
    /// The policy failed while it was enabled: a result of the policy.
    Exit(Box<Exit>),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Refused(message) => f.write_str(message),
            LoadError::Exit(exit) => exit.fmt(f),
        }
    }
}

impl From<String> for LoadError {
    fn from(message: String) -> LoadError {
        LoadError::Refused(message)
    }
}

/// Loads the policy in an object whose globals are set (see [`Profile::apply`]), and does the rest of its profile.
/// The image tells what the object asks for and does not get ([`Image::warnings`]), and where its globals are.
///
/// # Errors
/// If the object cannot be loaded here, or the policy fails while it is enabled.
pub fn load(m: &mut Machine, object: &Object, profile: &Profile, engine: Engine) -> Result<Image, LoadError> {
    let mut object = object.clone();
    crate::profile::set_enum_constants(&mut object)?;
    let refused = |error: bpf::object::error::Error| LoadError::Refused(error.to_string());
    let target = target(&m.spec, &m.layout);
    let mut image = link(&object, &target, &m.region, m.nr_cpus()).map_err(refused)?;
    let maps = image
        .maps
        .iter()
        .map(|def| Map::create(def, &m.region, m.nr_cpus()))
        .collect::<Result<Vec<_>, _>>()?;
    let (table, cid) = callbacks(&image, profile, m)?;
    let vm = Vm::new(
        image.code.clone(),
        maps,
        image.types.clone(),
        &kfuncs::table(&m.spec.costs),
        m.region.clone(),
        engine,
    )?;
    m.ext.put_vm(vm);
    let warnings = tracepoint::attach(m, &image.programs, &profile.attach);
    image.warnings.extend(warnings);
    let ran = user_space(m, &image, profile, cid);
    let vm = m.ext.take_vm().expect("it was put there");
    if let Err(message) = ran {
        tracepoint::detach_all(m);
        return Err(LoadError::Refused(message));
    }
    ext::load(m, ops::Policy { vm, ops: table, cid }).map_err(|exit| LoadError::Exit(Box::new(exit)))?;
    Ok(image)
}

/// The object's callback table with the profile's constants, and whether it schedules by cid.
fn callbacks(image: &Image, profile: &Profile, m: &Machine) -> Result<(OpsTable, bool), String> {
    let found: Vec<&StructOps> = image.struct_ops.iter().filter(|ops| ops.attachable).collect();
    let Some(table) = found.iter().find(|ops| ops.auto_attach).or(found.first()) else {
        return Err(format!(
            "{}: the object has no struct sched_ext_ops: it is no scheduler",
            image.file
        ));
    };
    let mut ops = OpsTable::default();
    for (member, &function) in &table.programs {
        if let Some(op) = ext::Op::by_name(member) {
            ops.set(op, function);
        }
    }
    let constant = |member: &str| -> Result<u64, String> {
        match profile.ops.iter().find(|(name, _)| name == member) {
            Some((_, text)) => Facts::new(&m.spec).value(text).map(|value| value as u64),
            None => Ok(table.u64(member)),
        }
    };
    ops.flags = constant("flags")?;
    ops.timeout_ms = constant("timeout_ms")? as u32;
    ops.exit_dump_len = constant("exit_dump_len")? as u32;
    ops.hotplug_seq = constant("hotplug_seq")?;
    ops.dispatch_max_batch = constant("dispatch_max_batch")? as u32;
    ops.set_name(&table.text("name"));
    Ok((ops, table.type_name == "sched_ext_ops_cid"))
}

/// Runs the profile's programs; none of it costs the machine time.
fn user_space(m: &mut Machine, image: &Image, profile: &Profile, cid: bool) -> Result<(), String> {
    let debts: Vec<(u64, u64)> = m.rqs.iter().map(|rq| (rq.debt, rq.carry_ps)).collect();
    let result = run_programs(m, image, profile);
    tracepoint::bpf_scx_reg(m, cid);
    for (rq, (debt, carry_ps)) in m.rqs.iter_mut().zip(debts) {
        (rq.debt, rq.carry_ps) = (debt, carry_ps);
    }
    result
}

fn run_programs(m: &mut Machine, image: &Image, profile: &Profile) -> Result<(), String> {
    for run in &profile.run {
        let program = image.programs.iter().find(|program| program.name == run.program);
        let program = program.ok_or_else(|| format!("{}: there is no program {}", image.file, run.program))?;
        let cpus = if run.each_cpu { m.nr_cpus() } else { 1 };
        for cpu in 0..cpus {
            let spec = m.spec.clone();
            let facts = Facts::new(&spec);
            let facts = if run.each_cpu { facts.of_cpu(cpu) } else { facts };
            if !run.when.is_empty() && facts.value(&run.when)? == 0 {
                continue;
            }
            let mut context = run.context(facts)?;
            let value = tracepoint::run_syscall_program(m, program, &mut context)?;
            if value != 0 {
                return Err(format!("program {} returned {value} for {:?}", run.program, run.args));
            }
        }
    }
    Ok(())
}
