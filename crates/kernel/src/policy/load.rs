// SPDX-License-Identifier: GPL-2.0-only
//! Loading of a policy's BPF object: linking, compiling, the steps of its user-space part, and
//! enabling the policy. A profile is a file that describes the user-space part.

use crate::layout::callbacks::Callback;
use crate::layout::enums::SCX_OPS_NAME_LEN;
use crate::layout::release::{RELEASES, Release, describe};
use crate::machine::Machine;
use crate::policy::sanitizer::rules;
use crate::policy::target::target;
use crate::policy::{allowed, kfuncs, nullable, user_space};
use crate::sched::ext;
use crate::sched::ext::state::core::MAX_TIMEOUT_NS;
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::ops_table::{OpsTable, PreparedPolicy};
use crate::sched::tracepoint;
use crate::sched::tracepoint::state as hook;
use bpf::cache::{Competitors, LINE};
use bpf::engine::{Engine, Vm};
use bpf::errno::{E2BIG, EINVAL};
use bpf::link::{Image, StructOps, link};
use bpf::map::Map;
use bpf::object::Object;
use bpf::rows::V6_12;
use bpf::sanitizer::Finding;
use profile::{OPS, Profile, Properties};

/// Reason why a policy could not be loaded. The machine is then unchanged, except for effects of
/// programs of the policy that have already run.
#[derive(Debug)]
#[must_use]
pub enum LoadError {
    /// A user error: the object is not a scheduler, or the profile does not fit the object.
    Input(String),
    /// A policy error: the kernel or libbpf would reject the policy, or the policy failed while it
    /// was being enabled.
    Refused(Box<Exit>),
}

impl LoadError {
    /// Returns the error for an object that the kernel or libbpf would reject before any of its
    /// code runs.
    fn refused(m: &Machine, image: &Image, message: impl std::fmt::Display) -> LoadError {
        LoadError::Refused(Exit::refusal(file_stem(&image.file), message.to_string(), m.now))
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Input(message) => f.write_str(message),
            LoadError::Refused(exit) => exit.fmt(f),
        }
    }
}

impl From<String> for LoadError {
    fn from(message: String) -> LoadError {
        LoadError::Input(message)
    }
}

/// Returns NAME for a path of the form `path/to/NAME.bpf.o`.
fn file_stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".bpf.o").or(name.strip_suffix(".o")).unwrap_or(name)
}

/// Loads the policy in an object, performs the steps of its profile and enables the policy. The
/// object's global variables must have been set before (see [`Profile::apply`]). The returned image
/// contains warnings about parts of the object that are not supported ([`Image::warnings`]), and
/// the addresses of its global variables.
///
/// # Errors
/// If the object cannot be loaded, or if the policy fails while it is being enabled.
pub fn load(m: &mut Machine, object: &Object, profile: &Profile, engine: Engine) -> Result<Image, LoadError> {
    let (mut image, policy) = open(m, object, profile, engine)?;
    if !profile.absent.is_empty() {
        image.warnings.push(format!("not modelled: {}", profile.absent));
    }
    attach(m, &image, policy, profile)?;
    Ok(image)
}

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
        // Only the interpreter counts instructions.
        engine: if m.options.hotspots {
            Engine::Interpreter
        } else {
            engine
        },
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

/// What an object is loaded for.
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
        Some(message) => Err(LoadError::refused(m, &image, message)),
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

/// Performs the steps of the profile and enables the policy.
///
/// # Errors
/// If the profile does not fit the object, or if the policy fails while it is being enabled.
pub fn attach(m: &mut Machine, image: &Image, policy: PreparedPolicy, profile: &Profile) -> Result<(), LoadError> {
    let cid = policy.cid;
    install_policy(m, image, policy, profile)?;
    let loaded = run_profile_and_enable(m, image, profile, cid);
    if loaded.is_err() {
        ext::enable::abandon(m);
    }
    loaded
}

/// Links and compiles an object, and installs its policy without enabling it. Afterwards its maps
/// exist, and its programs of type syscall can run. The caller does what else user space does before
/// it [enables](enable) the policy. Also returns whether the policy uses cids.
///
/// # Errors
/// If the object cannot be loaded, or if another policy is loaded.
pub fn install(
    m: &mut Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
) -> Result<(Image, bool), LoadError> {
    let (image, policy) = open(m, object, profile, engine)?;
    let cid = policy.cid;
    install_policy(m, &image, policy, profile)?;
    Ok((image, cid))
}

fn install_policy(m: &mut Machine, image: &Image, policy: PreparedPolicy, profile: &Profile) -> Result<(), LoadError> {
    let hooks = hook::resolve(&image.programs, profile).0;
    ext::enable::install(m, policy, hooks).map_err(LoadError::Refused)?;
    m.ext.shows_dsqs = image
        .accessed
        .iter()
        .any(|field| field.ends_with(".scx.dsq") || field.ends_with("sched_ext_entity.dsq"));
    Ok(())
}

/// Enables a policy that [`install`] has installed. `change` gets the table of callbacks, and sets
/// what user space has changed in it.
///
/// # Errors
/// The exit record if the kernel would reject the policy, or if the policy failed while it was being
/// enabled. It has then been removed.
pub fn enable(m: &mut Machine, image: &Image, cid: bool, change: impl FnOnce(&mut OpsTable)) -> Result<(), LoadError> {
    let release = m.options.release;
    let Some(policy) = m.ext.policy.as_mut() else {
        return Err(LoadError::Input("no policy is installed".into()));
    };
    change(&mut policy.ops);
    let checked = check_members(&policy.ops, release);
    let enabled = checked
        .map_err(|message| LoadError::refused(m, image, message))
        .and_then(|()| {
            tracepoint::bpf_scx_reg(m, cid);
            register_competitors(m, image)?;
            ext::enable::enable(m, cid).map_err(LoadError::Refused)
        });
    if enabled.is_err() {
        ext::enable::abandon(m);
    }
    enabled
}

/// Performs the steps of the profile for a policy that has been installed in the machine, and
/// enables the policy.
fn run_profile_and_enable(m: &mut Machine, image: &Image, profile: &Profile, cid: bool) -> Result<(), LoadError> {
    user_space::before(m, image, profile, cid)?;
    register_competitors(m, image)?;
    ext::enable::enable(m, cid).map_err(LoadError::Refused)?;
    Ok(user_space::after(m, image, profile)?)
}

/// Declaration tag with which a policy marks a global array that stands for fields of task_struct.
/// The array has one element for each task. Its cache lines compete for space in the caches like
/// those of task_structs.
const TASK_STRUCT: &str = "task_struct";

/// Registers the arrays with the tag TASK_STRUCT, so that their cache lines compete for space in
/// the simulated caches.
fn register_competitors(m: &Machine, image: &Image) -> Result<(), String> {
    let tagged = image.sections.iter().flat_map(|section| &section.tagged);
    for array in tagged.filter(|array| array.tag == TASK_STRUCT) {
        if array.stride == 0 || !array.stride.is_multiple_of(LINE) || !array.addr.is_multiple_of(LINE) {
            return Err(format!(
                "global array {} has the declaration tag {TASK_STRUCT}, but its elements are not whole cache lines: \
                 align the element type to {LINE} bytes",
                array.name
            ));
        }
        m.region.lines().add_competitors(Competitors {
            base: array.addr,
            stride: array.stride,
            count: array.count,
            lines: array.stride / LINE,
        });
    }
    Ok(())
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
    let refused = |message: String| LoadError::refused(m, image, message);
    let wanted = |ops: &&StructOps| ops.attachable && (named.is_empty() || ops.map_name == named);
    let schedulers = image.struct_ops.iter().filter(wanted);
    // Tables that are attached automatically are preferred.
    let Some(table) = schedulers.min_by_key(|ops| !ops.auto_attach) else {
        return Err(no_scheduler(m, release, image, named));
    };
    check_license(image).map_err(refused)?;
    refuse_absent(image, table, release).map_err(refused)?;
    let cid = table.type_name == "sched_ext_ops_cid";
    let mut ops = OpsTable::default();
    for (member, &function) in &table.programs {
        let op = if cid {
            Callback::by_cid_name(member)
        } else {
            Callback::by_name(member)
        };
        let op = op.ok_or_else(|| refused(format!("Linux {release} has no ops.{member}")))?;
        ops.set(op, function);
    }
    if cid && let Some(kfunc) = kfuncs::by_cpu(&image.code.kfuncs) {
        return Err(refused(format!(
            "calling kernel function {kfunc} is not allowed: a policy with struct sched_ext_ops_cid cannot use CPU numbers"
        )));
    }
    ops.sub_cgroup_id = table.u64("sub_cgroup_id");
    ops.flags = table.u64("flags");
    ops.timeout_ms = table.u64("timeout_ms") as u32;
    ops.exit_dump_len = table.u64("exit_dump_len") as u32;
    ops.hotplug_seq = table.u64("hotplug_seq");
    ops.dispatch_max_batch = table.u64("dispatch_max_batch") as u32;
    ops.set_name(&table.text("name"));
    set_members(m, release, image, profile, cid, &mut ops)?;
    check_members(&ops, release).map_err(refused)?;
    let maps = image.maps.iter().map(|def| Map::create(def, &m.region, m.nr_cpus()));
    let maps: Vec<Map> = maps.collect::<Result<_, String>>().map_err(refused)?;
    let funcs = kfuncs::table(&m.spec.costs);
    let (code, types, region) = (image.code.clone(), image.types.clone(), m.region.clone());
    let vm = match sanitizer {
        true => Vm::with_sanitizer(code, maps, types, &funcs, region, engine, rules(m, image)),
        false => Vm::new(code, maps, types, &funcs, region, engine),
    }
    .map_err(|error| refused(error.to_string()))?;
    if m.options.hotspots && !sanitizer {
        vm.count_instructions().map_err(refused)?;
    }
    Ok(PreparedPolicy { vm, ops, cid })
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
) -> Result<(), String> {
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
            _ => {
                return Err(format!(
                    "a profile cannot set ops.{member} = {text}; it can set {}",
                    OPS.join(", ")
                ));
            }
        }
    }
    for name in &profile.without {
        let op = if cid {
            Callback::by_cid_name(name)
        } else {
            Callback::by_name(name)
        };
        let op = op.ok_or_else(|| format!("a profile cannot leave out ops.{name}: Linux 7.2 has no such callback"))?;
        ops.remove(op);
    }
    Ok(())
}

/// Returns the error for an object without a scheduler. The object may call kfuncs of sched_ext
/// from programs of other subsystems. In this case, returns the kernel's error for these calls
/// (scx_kfunc_context_filter()), because the kernel checks the calls first.
fn no_scheduler(m: &Machine, release: Release, image: &Image, named: &str) -> LoadError {
    let absent = |ops: &&StructOps| !release.has_type(&ops.type_name) && (named.is_empty() || ops.map_name == named);
    if let Some(ops) = image.struct_ops.iter().find(absent) {
        return LoadError::refused(
            m,
            image,
            format_args!(
                "struct_ops init_kern {}: struct {} is not found in kernel BTF of Linux {release}",
                ops.map_name, ops.type_name
            ),
        );
    }
    let message = match named {
        "" => "the object has no struct sched_ext_ops, so it is not a scheduler".to_owned(),
        named => format!("the object has no struct sched_ext_ops {named}"),
    };
    match image.code.kfuncs.iter().find(|kfunc| kfunc.contains("scx_bpf_")) {
        Some(kfunc) => LoadError::refused(
            m,
            image,
            format_args!("calling kernel function {kfunc} is not allowed: the object has no struct sched_ext_ops"),
        ),
        None => LoadError::Input(format!("{}: {message}", image.file)),
    }
}

/// Licenses that are compatible with the GPL (license_is_gpl_compatible()). Only programs with such
/// a license may use symbols that are exported for GPL code.
const GPL_COMPATIBLE: [&str; 6] = [
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
];

/// Checks the license like the verifier does for struct_ops programs (check_struct_ops_btf_id()).
fn check_license(image: &Image) -> Result<(), String> {
    if GPL_COMPATIBLE.contains(&image.license.as_str()) {
        return Ok(());
    }
    let found = match image.license.as_str() {
        "" => "the object has no section \"license\"".to_owned(),
        license => format!("its license is \"{license}\""),
    };
    Err(format!(
        "struct ops programs must have a GPL compatible license (-22): {found}; expected for example \"GPL\""
    ))
}

/// Rejects objects that libbpf would reject: if a symbol is missing that is not weak (-ESRCH), or
/// if a member of struct_ops is set that the kernel does not have (-ENOTSUP).
///
/// Two cases cause only a warning:
///
/// - Loaders that use SCX_OPS_OPEN clear some members that the kernel does not have. These members
///   have already been removed here.
/// - A kfunc exists in Linux but is not modelled. A call of this kfunc ends the policy.
fn refuse_absent(image: &Image, table: &StructOps, release: Release) -> Result<(), String> {
    let kfuncs = kfuncs::all();
    for symbol in image.missing.iter().filter(|symbol| symbol.function) {
        let name = &symbol.name;
        match kfuncs.iter().find(|kfunc| kfunc.name == name.as_str()) {
            Some(kfunc) if !release.is_among(kfunc.releases) => {
                let range = describe(kfunc.releases);
                return Err(format!(
                    "extern (func ksym) '{name}': not found in kernel BTF of Linux {release}; it exists {range}"
                ));
            }
            None if !Release::has_more_kfuncs(name) => {
                return Err(format!(
                    "extern (func ksym) '{name}': not found in kernel or module BTFs; declare it __weak if the policy \
                     can do without it"
                ));
            }
            _ => {}
        }
    }
    match table.unknown.iter().find(|member| !is_cleared(member)) {
        Some(member) => Err(format!(
            "struct_ops init_kern {}: Cannot find member {member} in kernel BTF of Linux {release}",
            table.map_name
        )),
        None => Ok(()),
    }
}

/// Returns whether SCX_OPS_OPEN clears this member if the kernel does not have it. These are the
/// members that do not exist in Linux 6.12.
fn is_cleared(member: &str) -> bool {
    member == "sub_cgroup_id" || Callback::by_name(member).is_some_and(|op| op.since() > V6_12)
}

/// Checks the fields of struct sched_ext_ops before any program of the policy runs
/// (bpf_scx_init_member).
///
/// # Errors
/// A message with the reason why the kernel would reject the policy.
fn check_members(ops: &OpsTable, release: Release) -> Result<(), String> {
    let unknown = ops.flags & !release.ops_flags();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    Err(if ops.sub_cgroup_id != 0 {
        format!(
            "ops.sub_cgroup_id {}: sub-schedulers are not modelled",
            ops.sub_cgroup_id
        )
    } else if unknown != 0 {
        format!(
            "ops.flags has bits 0x{unknown:x} that Linux {release} does not know ({})",
            -EINVAL
        )
    } else if ops.name().is_empty() {
        format!("ops.name is empty ({})", -EINVAL)
    } else if ops.name().len() >= SCX_OPS_NAME_LEN as usize {
        format!("ops.name is longer than {} bytes ({})", SCX_OPS_NAME_LEN - 1, -EINVAL)
    } else if !ops.name().chars().all(allowed) {
        let name = ops.name();
        format!(
            "ops.name {name:?} has characters other than letters, digits, '_' and '.' ({})",
            -EINVAL
        )
    } else if u64::from(ops.timeout_ms) * 1_000_000 > MAX_TIMEOUT_NS {
        format!("ops.timeout_ms {} is more than 30000 ({})", ops.timeout_ms, -E2BIG)
    } else if ops.dispatch_max_batch > i32::MAX as u32 {
        format!(
            "ops.dispatch_max_batch {} is too large ({})",
            ops.dispatch_max_batch, -E2BIG
        )
    } else {
        return Ok(());
    })
}

/// Sets the variables `__SCX_*` and `__COMPAT_SCX_*` of the scx headers to the values of the
/// kernel's enumerators. Variables for enumerators that the release does not have remain 0.
fn set_enum_constants(object: &mut Object, release: Release) -> Result<(), String> {
    let names: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for name in names {
        let stripped = name.strip_prefix("__COMPAT_").or(name.strip_prefix("__"));
        let enumerator = |name: &str| release.enumerator(name);
        if let Some(value) = stripped.filter(|name| name.starts_with("SCX_")).and_then(enumerator) {
            object
                .set(&name, &value.to_string())
                .map_err(|error| error.to_string())?;
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
    let refused = |error: bpf::object::error::Error| {
        LoadError::Refused(Exit::refusal(file_stem(&object.file), error.to_string(), m.now))
    };
    let mut image = link(&object, &target, &m.region, m.nr_cpus()).map_err(refused)?;
    hook::check_names(&image.programs, profile).map_err(|message| format!("{}: {message}", image.file))?;
    for name in &profile.inner_maps {
        image
            .create_inner_maps(&m.region, name)
            .map_err(|error| error.to_string())?;
    }
    image.warnings.extend(hook::resolve(&image.programs, profile).1);
    Ok(image)
}
