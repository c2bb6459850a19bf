// SPDX-License-Identifier: GPL-2.0-only
//! Opening of a policy's BPF object: linking it against a kernel release, compiling it, and reading its
//! table of callbacks. None of its code runs.

use crate::layout::callbacks::Callback;
use crate::layout::release::{RELEASES, Release};
use crate::machine::Machine;
use crate::policy::load_error::{InputError, LoadError, file_stem};
use crate::policy::refusal::{Refusal, check_absent, check_license, check_members};
use crate::policy::sanitizer::rules;
use crate::policy::target::target;
use crate::policy::{allowed, kfuncs, nullable};
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::ops_table::{OpsTable, PreparedPolicy};
use crate::sched::tracepoint::state as hook;
use bpf::engine::{Engine, Vm};
use bpf::link::{Image, StructOps, link};
use bpf::map::Map;
use bpf::object::Object;
use bpf::sanitizer::Finding;
use profile::{Profile, Properties};
use std::rc::Rc;

/// Links and compiles an object. Afterwards its global variables are in memory, but none of its
/// code has run.
///
/// # Errors
/// If the object cannot be loaded.
pub fn open(
    m: &Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
) -> Result<(Image, PreparedPolicy), LoadError> {
    open_changed(m, object, profile, engine, |_| {})
}

/// Links and compiles an object like [`open`], but calls `change` with the linked image before it
/// is compiled. Tests use this to insert code.
///
/// # Errors
/// The same as those of [`open`].
pub fn open_changed(
    m: &Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
    change: impl FnOnce(&mut Image),
) -> Result<(Image, PreparedPolicy), LoadError> {
    let target = LoadTarget {
        release: m.options.release,
        engine,
        sanitizer: m.options.sanitizer,
    };
    let (mut image, policy) = open_for(m, target, object, profile, change)
        .and_then(|(image, policy)| check_arguments(m, image, policy))
        .map_err(|error| suggest_release(m, object, profile, error))?;
    if let Some(why) = policy.vm.why_interpreted() {
        let warning = format!("the policy runs in the interpreter, with the same result but many times slower: {why}");
        image.warnings.push(warning);
    }
    Ok((image, policy))
}

/// Kernel release, engine and mode for which an object is loaded.
#[derive(Clone, Copy)]
struct LoadTarget {
    release: Release,
    engine: Engine,
    sanitizer: bool,
}

fn open_for(
    m: &Machine,
    target: LoadTarget,
    object: &Object,
    profile: &Profile,
    change: impl FnOnce(&mut Image),
) -> Result<(Image, PreparedPolicy), LoadError> {
    let mut image = link_object(m, target.release, object, profile)?;
    change(&mut image);
    let policy = build_policy(m, target, &image, profile)?;
    Ok((image, policy))
}

/// Checks that the callbacks test their arguments that may be NULL.
fn check_arguments(m: &Machine, image: Image, policy: PreparedPolicy) -> Result<(Image, PreparedPolicy), LoadError> {
    match nullable::check(&image.code, &policy.ops).into_iter().next() {
        Some(message) => Err(LoadError::refused(&image, message, m.now)),
        None => Ok((image, policy)),
    }
}

/// Adds to a refusal the newest release into which the object can be loaded, if there is one.
fn suggest_release(m: &Machine, object: &Object, profile: &Profile, error: LoadError) -> LoadError {
    let LoadError::Refused(mut exit) = error else {
        return error;
    };
    let mut others = RELEASES
        .into_iter()
        .rev()
        .filter(|&release| release != m.options.release);
    let accepts = |&release: &Release| {
        let target = LoadTarget {
            release,
            engine: Engine::Interpreter,
            sanitizer: false,
        };
        let opened = open_for(m, target, object, profile, |_| {});
        opened
            .and_then(|(image, policy)| check_arguments(m, image, policy))
            .is_ok()
    };
    if let Some(release) = others.find(accepts) {
        exit.message += &format!("; the policy loads with --kernel {release}");
    }
    LoadError::Refused(exit)
}

/// Result of [`check`].
#[derive(Debug)]
pub struct Checked {
    /// Parts of the object that are not supported.
    pub warnings: Vec<String>,
    /// Errors in the code of the object, with their source lines. The kernel's verifier rejects them.
    pub findings: Vec<String>,
}

/// Links and compiles an object without enabling its policy. Analyses the code of all its programs.
///
/// # Errors
/// If the object cannot be loaded.
pub fn check(m: &Machine, object: &Object, profile: &Profile, engine: Engine) -> Result<Checked, LoadError> {
    let target = |engine, sanitizer| LoadTarget {
        release: m.options.release,
        engine,
        sanitizer,
    };
    let opened = open_for(m, target(engine, false), object, profile, |_| {});
    let (image, policy) = opened.map_err(|error| suggest_release(m, object, profile, error))?;
    let mut findings = nullable::check(&image.code, &policy.ops);
    findings.extend(allowed::check(&image, &policy.ops));
    drop(policy);
    let (sanitized, policy) = open_for(m, target(Engine::Interpreter, true), object, profile, |_| {})?;
    findings.extend(
        policy
            .vm
            .findings()
            .iter()
            .map(|finding| describe_finding(&sanitized, finding)),
    );
    Ok(Checked {
        warnings: image.warnings,
        findings,
    })
}

fn describe_finding(image: &Image, finding: &Finding) -> String {
    let Finding {
        check,
        pc,
        message,
        call,
    } = finding;
    let place = |pc: usize| image.code.describe(pc);
    let cause = call.map_or(String::new(), |call| format!("; it was returned in {}", place(call)));
    format!("{check}: {message} in {}{cause}", place(*pc))
}

/// Compiles the object and returns its policy. Uses the table of callbacks that the profile names,
/// by default the first table that is attached automatically.
fn build_policy(
    m: &Machine,
    target: LoadTarget,
    image: &Image,
    profile: &Profile,
) -> Result<PreparedPolicy, LoadError> {
    let LoadTarget {
        release,
        engine,
        sanitizer,
    } = target;
    let named = profile.struct_ops.as_str();
    let rejected = |refusal: Refusal| LoadError::refused(image, refusal, m.now);
    let refused = |error: bpf::error::Error| LoadError::refused(image, error, m.now);
    let wanted = |ops: &&StructOps| ops.attachable && (named.is_empty() || ops.map_name == named);
    let schedulers = image.struct_ops.iter().filter(wanted);
    // Tables that are attached automatically are preferred.
    let Some(table) = schedulers.min_by_key(|ops| !ops.auto_attach) else {
        return Err(no_scheduler(m, release, image, named));
    };
    check_license(image).map_err(rejected)?;
    check_absent(image, table, release).map_err(rejected)?;
    let cid = table.type_name == "sched_ext_ops_cid";
    let mut ops = OpsTable::default();
    for (member, &function) in &table.programs {
        let op = callback(cid, member);
        let unknown = || Refusal::UnknownCallback {
            name: member.clone(),
            release,
        };
        let op = op.ok_or_else(|| rejected(unknown()))?;
        ops.set(op, function);
    }
    if cid && let Some(kfunc) = kfuncs::by_cpu(&image.code.kfuncs) {
        return Err(rejected(Refusal::CpuNumbers(kfunc.into())));
    }
    ops.sub_cgroup_id = table.u64("sub_cgroup_id");
    ops.flags = table.u64("flags");
    ops.timeout_ms = table.u64("timeout_ms") as u32;
    ops.exit_dump_len = table.u64("exit_dump_len") as u32;
    ops.hotplug_seq = table.u64("hotplug_seq");
    ops.dispatch_max_batch = table.u64("dispatch_max_batch") as u32;
    ops.cid_shard_size = table.u64("cid_shard_size") as u32;
    ops.rescue_bandwidth_ppt = table.u64("rescue_bandwidth_ppt") as u32;
    ops.rescue_quantum_us = table.u64("rescue_quantum_us") as u32;
    ops.set_name(&table.text("name"));
    set_members(m, release, image, profile, cid, &mut ops)?;
    check_members(&ops, release).map_err(rejected)?;
    let maps = image.maps.iter().map(|def| Map::create(def, &m.region, m.nr_cpus()));
    let maps: Vec<Map> = maps.collect::<Result<_, _>>().map_err(refused)?;
    let funcs = kfuncs::table_of(&m.spec.costs, release);
    let (code, types) = (image.code.clone(), image.types.clone());
    let region = Rc::clone(&m.region);
    let mut vm = match sanitizer {
        true => Vm::with_sanitizer(code, maps, types, &funcs, region, engine, rules(m, image)),
        false => Vm::new(code, maps, types, &funcs, region, engine),
    }
    .map_err(refused)?;
    if m.options.hotspots && !sanitizer {
        vm.count_instructions().map_err(refused)?;
    }
    Ok(PreparedPolicy {
        vm,
        region: Rc::clone(&m.region),
        ops,
        cid,
    })
}

/// Returns the callback with this name in struct sched_ext_ops, or in sched_ext_ops_cid if `cid` is set.
fn callback(cid: bool, name: &str) -> Option<Callback> {
    match cid {
        true => Callback::by_cid_name(name),
        false => Callback::by_name(name),
    }
}

/// Applies the changes to struct sched_ext_ops that the profile contains: sets members and removes
/// callbacks.
fn set_members(
    m: &Machine,
    release: Release,
    image: &Image,
    profile: &Profile,
    cid: bool,
    ops: &mut OpsTable,
) -> Result<(), InputError> {
    let facts = Properties::new(&m.spec, &release).with_types(&image.btf);
    let mut names = profile.names(facts)?;
    // Values in the object's table of callbacks. Expressions in the profile can use them by these
    // names.
    let own = [
        ("flags", ops.flags),
        ("timeout_ms", ops.timeout_ms.into()),
        ("exit_dump_len", ops.exit_dump_len.into()),
        ("dispatch_max_batch", ops.dispatch_max_batch.into()),
        ("hotplug_seq", ops.hotplug_seq),
        ("cid_shard_size", ops.cid_shard_size.into()),
        ("rescue_bandwidth_ppt", ops.rescue_bandwidth_ppt.into()),
        ("rescue_quantum_us", ops.rescue_quantum_us.into()),
    ];
    names.extend(own.map(|(member, value)| (member.to_owned(), value as i64)));
    for (member, text) in &profile.ops {
        let value = facts.with_results(&names).value(text)?;
        match member.as_str() {
            "flags" => ops.flags = value as u64,
            "timeout_ms" => ops.timeout_ms = value as u32,
            "exit_dump_len" => ops.exit_dump_len = value as u32,
            "dispatch_max_batch" => ops.dispatch_max_batch = value as u32,
            "hotplug_seq" => ops.hotplug_seq = value as u64,
            "cid_shard_size" => ops.cid_shard_size = value as u32,
            "rescue_bandwidth_ppt" => ops.rescue_bandwidth_ppt = value as u32,
            "rescue_quantum_us" => ops.rescue_quantum_us = value as u32,
            _ => {
                return Err(InputError::Member {
                    member: member.clone(),
                    value: text.clone(),
                });
            }
        }
    }
    for name in &profile.without {
        let op = callback(cid, name).ok_or_else(|| InputError::UnknownCallback(name.clone()))?;
        ops.remove(op);
    }
    Ok(())
}

/// Returns the error for an object without a scheduler. The object may call kfuncs of sched_ext
/// from programs of other subsystems. In this case, returns the kernel's error for these calls
/// (scx_kfunc_context_filter()), because the kernel checks the calls first.
fn no_scheduler(m: &Machine, release: Release, image: &Image, named: &str) -> LoadError {
    let rejected = |refusal: Refusal| LoadError::refused(image, refusal, m.now);
    let absent = |ops: &&StructOps| !release.has_type(&ops.type_name) && (named.is_empty() || ops.map_name == named);
    if let Some(ops) = image.struct_ops.iter().find(absent) {
        return rejected(Refusal::UnknownStruct {
            map: ops.map_name.clone(),
            name: ops.type_name.clone(),
            release,
        });
    }
    match image.code.kfuncs.iter().find(|kfunc| kfunc.contains("scx_bpf_")) {
        Some(kfunc) => rejected(Refusal::NoScheduler(kfunc.clone())),
        None => LoadError::Input(InputError::NoScheduler {
            file: image.file.clone(),
            name: named.into(),
        }),
    }
}

/// Sets the variables `__SCX_*` and `__COMPAT_SCX_*` of the scx headers to the values of the
/// kernel's enumerators. Variables for enumerators that the release does not have remain 0.
fn set_enum_constants(object: &mut Object, release: Release) -> Result<(), InputError> {
    let names: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for name in names {
        let stripped = name.strip_prefix("__COMPAT_").or(name.strip_prefix("__"));
        let enumerator = |name: &str| release.enumerator(name);
        if let Some(value) = stripped.filter(|name| name.starts_with("SCX_")).and_then(enumerator) {
            object.set(&name, &value.to_string())?;
        }
    }
    Ok(())
}

/// Links an object against a kernel release. Also finds the tracing programs and
/// the inner maps that the profile names.
fn link_object(m: &Machine, release: Release, object: &Object, profile: &Profile) -> Result<Image, LoadError> {
    let mut object = object.clone();
    set_enum_constants(&mut object, release)?;
    let mut target = target(&m.spec, &m.layout, release);
    let facts = Properties::new(&m.spec, &release).with_types(object.btf());
    let names = profile.names(facts)?;
    for (name, text) in &profile.fields {
        target.set_field(name, facts.with_results(&names).value(text)?);
    }
    let refused =
        |error: bpf::error::Error| LoadError::Refused(Exit::refusal(file_stem(&object.file), error.to_string(), m.now));
    let mut image = link(&object, &target, &m.region, m.nr_cpus()).map_err(refused)?;
    check_program_names(&image, profile)?;
    for name in &profile.inner_maps {
        image.create_inner_maps(&m.region, name)?;
    }
    image.warnings.extend(hook::resolve(&image.programs, profile).1);
    Ok(image)
}

/// Checks that the object has the programs that the profile attaches or detaches.
fn check_program_names(image: &Image, profile: &Profile) -> Result<(), InputError> {
    let attach = profile.attach.iter().map(|name| ("attach", name));
    let detach = profile.detach.iter().map(|name| ("detach", name));
    let mut named = attach.chain(detach);
    match named.find(|(_, name)| image.programs.iter().all(|program| program.name != **name)) {
        Some((key, name)) => {
            let tracing = image.programs.iter().filter(|program| !program.attach_to.is_empty());
            Err(InputError::NoProgram {
                file: image.file.clone(),
                key,
                name: name.clone(),
                known: tracing.map(|program| program.name.clone()).collect(),
            })
        }
        None => Ok(()),
    }
}
