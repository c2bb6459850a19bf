// SPDX-License-Identifier: GPL-2.0-only
//! Loads a policy's object into the kernel with libbpf.
//!
//! The code of the simulator reads the object and changes its bytes, so `--set` and the profile (a
//! file that replaces the policy's user-space part) have the same effect as in a simulation. libbpf
//! receives the changed bytes and loads them. The kernel's verifier checks the programs, and then
//! the programs and callbacks are attached.

use crate::globals::Globals;
use crate::journal::{self, End, Journal};
use crate::{host_kernel, verifier};
use bpf::btf::{Btf, TypeKind};
use bpf::object::Object;
use input::error::Error;
use libbpf_rs::{Link, MapCore, MapHandle, MapType, ObjectBuilder, OpenObject, ProgramInput, ProgramType, libbpf_sys};
use machine::MachineSpec;
use profile::{Profile, Properties, Run, instances};
use runner::load;
use std::ffi::CString;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Member of the callback table with the cgroup of a sub-scheduler. A cgroup's id is the number of the
/// inode of its directory.
const SUB_CGROUP_ID: &str = "sub_cgroup_id";

/// A policy that is ready to be loaded.
pub struct Source {
    pub name: String,
    pub path: PathBuf,
    /// The object. The parameters and the profile have been applied as in `windtunnel run`.
    pub object: Object,
    /// The profile, a file that replaces the policy's user-space part. It lists the steps that the
    /// user-space part would take between opening and enabling the object.
    profile: Profile,
    machine: MachineSpec,
    /// Id of the cgroup to which the policy is attached as a sub-scheduler.
    sub_cgroup_id: Option<u64>,
}

/// A loaded policy. Dropping this value unloads the policy.
pub struct Loaded {
    /// Links in the order in which they are detached. The callbacks are detached before the tracing
    /// programs that provide data to them.
    links: Vec<Link>,
    pub globals: Globals,
    /// Parts that were left out because this kernel does not support them: programs that trace a
    /// function which the kernel does not have, and bits of ops.flags that it does not know. Each
    /// text contains the reason.
    pub left_out: Vec<String>,
    /// Number of instructions that the verifier processed for each program, largest first.
    pub verified: Vec<(String, u32)>,
    _object: libbpf_rs::Object,
}

/// Reason why a policy was not loaded.
pub enum Failure {
    /// The kernel rejected the policy. The text contains the kernel's messages.
    Policy(String),
    /// CPUs went online or offline while the policy was being enabled.
    Restart,
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl Source {
    /// Reads the object and applies the parameters, the profile and the kernel's constants.
    ///
    /// # Errors
    /// The object cannot be used, or a setting is wrong.
    pub fn new(name: String, path: PathBuf, settings: &[(String, String)]) -> Result<Source, Error> {
        let machine = machine::load("host", &[])?;
        let (mut object, profile) = load::prepare(
            &name,
            &path,
            settings,
            Properties::new(&machine, &kernel::release::Release::MODELLED),
        )?;
        set_enum_constants(&mut object)?;
        Ok(Source {
            name,
            path,
            object,
            profile,
            machine,
            sub_cgroup_id: None,
        })
    }

    /// Makes the policy a sub-scheduler of the cgroup with this directory.
    ///
    /// # Errors
    /// The directory does not exist, or the policy cannot be a sub-scheduler.
    pub fn attach_to(&mut self, cgroup: &Path) -> Result<(), Error> {
        if ops_member(self.object.btf(), SUB_CGROUP_ID).is_none() {
            let error = Error::new(format!("{}: the policy cannot be a sub-scheduler", self.name));
            return Err(error.hint("sub-schedulers are a struct sched_ext_ops_cid with the member sub_cgroup_id"));
        }
        let directory = std::fs::metadata(cgroup).map_err(|error| Error::io(cgroup, &error))?;
        self.sub_cgroup_id = Some(directory.ino());
        Ok(())
    }

    /// Returns whether the kernel schedules with this policy.
    pub fn is_enabled(&self) -> bool {
        host_kernel::state() == "enabled" && self.sub_cgroup_id.is_none_or(host_kernel::has_sub)
    }

    /// Loads the object into the kernel, attaches its programs and enables its callbacks.
    pub fn load(&self, journal: &mut Journal) -> Result<Loaded, Failure> {
        verifier::keep_messages();
        let failed = |what: &str, error: libbpf_rs::Error| {
            let messages = verifier::messages();
            let last = messages
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("libbpf: ")
                .to_owned();
            Failure::Refused(Error::new(format!("{}: {what}: {error} ({last})", self.path.display())))
        };
        let mut builder = ObjectBuilder::default();
        let mut open = builder
            .open_file(&self.path)
            .map_err(|error| failed("not a BPF object", error))?;
        self.fill(&mut open)?;
        let mut left_out = choose_programs(&mut open, &self.profile);
        left_out.extend(self.set_ops(&mut open)?);
        let object = open.load().map_err(|error| self.not_loaded(&error))?;

        let mut links = Vec::new();
        let mut programs = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !program.autoload() || matches!(program.prog_type(), ProgramType::StructOps | ProgramType::Syscall) {
                continue;
            }
            programs.push(
                program
                    .attach()
                    .map_err(|error| failed(&format!("program {name} cannot be attached"), error))?,
            );
        }
        self.run_programs(&object)?;
        let mut sections = Vec::new();
        let mut object = object;
        for mut map in object.maps_mut() {
            if map.map_type() == MapType::StructOps {
                match map.attach_struct_ops() {
                    Ok(link) => links.push(link),
                    Err(error) => {
                        return Err(self.not_enabled(&format!(": {error}"), journal));
                    }
                }
            }
        }
        if links.is_empty() {
            return Err(Error::new(format!("{}: the object has no sched_ext_ops map", self.path.display())).into());
        }
        // Attaching succeeds even if the policy's init callback fails. In this case the kernel
        // ejects the policy at once.
        if !self.is_enabled() {
            return Err(self.not_enabled("", journal));
        }
        for map in object.maps() {
            let section = section_name(&map.name().to_string_lossy());
            if section.starts_with(".data") || section.starts_with(".bss") {
                let handle =
                    MapHandle::try_from(&map).map_err(|error| failed("the globals cannot be opened", error))?;
                sections.push((section, handle));
            }
        }
        links.extend(programs);
        Ok(Loaded {
            links,
            globals: Globals::new(sections)?,
            left_out,
            verified: verifier::effort(&object),
            _object: object,
        })
    }

    /// Copies the initial values of the globals to libbpf's maps.
    fn fill(&self, open: &mut OpenObject) -> Result<(), Error> {
        for mut map in open.maps_mut() {
            let section = section_name(&map.name().to_string_lossy());
            let Some(from) = self.object.section(&section) else {
                continue;
            };
            // The section may be larger than in the file, because the profile may have enlarged an
            // array in it.
            let size = self.object.section_size(&section).unwrap_or(0);
            let given = map.initial_value_mut().map(|to| to.len() as u64);
            if given.is_some_and(|given| given < size) {
                let size =
                    u32::try_from(size).map_err(|_| Error::new(format!("{section}: {size} bytes are too many")))?;
                map.set_value_size(size)
                    .map_err(|error| Error::new(format!("{section}: {error}")))?;
            }
            let Some(to) = map.initial_value_mut() else {
                continue;
            };
            let length = from.len().min(to.len());
            to[..length].copy_from_slice(&from[..length]);
        }
        Ok(())
    }

    /// Applies the profile's map sizes and the fields that it sets in the callback table (`struct
    /// sched_ext_ops`). If this kernel does not know some bits of ops.flags, leaves them out and
    /// returns a text that names them.
    fn set_ops(&self, open: &mut OpenObject) -> Result<Option<String>, Error> {
        let types = Properties::new(&self.machine, &kernel::release::Release::MODELLED).with_types(self.object.btf());
        let given = self.profile.names(types).map_err(|error| self.profile_error(error))?;
        let facts = types.with_results(&given);
        for (name, text) in &self.profile.max_entries {
            let map = open.maps_mut().find(|map| map.name().to_string_lossy() == *name);
            let mut map = map.ok_or_else(|| self.profile_error(format!("there is no map {name}")))?;
            let entries = facts.value(text).map_err(|error| self.profile_error(error))?;
            let entries = u32::try_from(entries)
                .map_err(|_| self.profile_error(format!("{name}: {entries} entries are not possible")))?;
            map.set_max_entries(entries)
                .map_err(|error| self.profile_error(format!("{name}: {error}")))?;
        }
        if let Some(id) = self.sub_cgroup_id {
            self.set_member(open, SUB_CGROUP_ID, id)?;
        }
        let mut unknown = 0;
        for (member, text) in &self.profile.ops {
            let field = ops_member(self.object.btf(), member);
            let (at, size) =
                field.ok_or_else(|| self.profile_error(format!("the object's sched_ext_ops has no field {member}")))?;
            let tables = open.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
            let own = tables.filter_map(|mut table| {
                let bytes = table.initial_value_mut()?.get(at..at + size)?;
                Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | i64::from(byte)))
            });
            let mut names = given.clone();
            names.push((member.clone(), own.max().unwrap_or(0)));
            let mut value = facts
                .with_results(&names)
                .value(text)
                .map_err(|error| self.profile_error(error))?;
            if let Some(known) = (member == "flags").then(known_flags).flatten() {
                unknown = value & !known;
                value &= known;
            }
            self.set_member(open, member, value as u64)?;
        }
        Ok((unknown != 0).then(|| format!("bits {unknown:#x} of ops.flags, which this kernel does not know")))
    }

    /// Sets a number in the callback tables.
    fn set_member(&self, open: &mut OpenObject, member: &str, value: u64) -> Result<(), Error> {
        let missing = || self.profile_error(format!("ops.{member} is not in the callback table"));
        let (at, size) = ops_member(self.object.btf(), member).ok_or_else(missing)?;
        let tables = open.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
        for mut table in tables {
            // The initial value has the layout that the object's types declare.
            let to = table.initial_value_mut().and_then(|bytes| bytes.get_mut(at..at + size));
            to.ok_or_else(missing)?.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(())
    }

    /// Runs programs of type syscall. The policy's user-space part would run these programs before
    /// it enables the policy.
    fn run_programs(&self, object: &libbpf_rs::Object) -> Result<(), Error> {
        let simulated = |run: &Run| run.after || !run.on.is_empty() || !run.memory.is_empty() || !run.then.is_empty();
        if !self.profile.map.is_empty()
            || !self.profile.without.is_empty()
            || !self.profile.detach.is_empty()
            || self.profile.run.iter().any(simulated)
        {
            let error = self.profile_error(
                "map, without, detach, and the keys after, on, memory and then of [[run]] work only in the simulator",
            );
            return Err(error.hint("load the policy with its own user-space part instead"));
        }
        let types = Properties::new(&self.machine, &kernel::release::Release::MODELLED).with_types(self.object.btf());
        let names = self.profile.names(types).map_err(|error| self.profile_error(error))?;
        for run in &self.profile.run {
            let program = object
                .progs_mut()
                .find(|program| program.name().to_string_lossy() == run.program);
            let program = program.ok_or_else(|| self.profile_error(format!("there is no program {}", run.program)))?;
            for at in instances(&self.machine.topology, run.each) {
                let facts = types.with_results(&names).at(at);
                if !facts.holds(&run.when).map_err(|error| self.profile_error(error))? {
                    continue;
                }
                let mut context = run.context(facts).map_err(|error| self.profile_error(error))?;
                let input = ProgramInput {
                    context_in: Some(&mut context),
                    ..ProgramInput::default()
                };
                let output = program
                    .test_run(input)
                    .map_err(|error| self.profile_error(format!("program {} cannot be run: {error}", run.program)))?;
                if output.return_value != 0 {
                    let value = output.return_value as i32;
                    return Err(self.profile_error(format!("program {} returned {value}", run.program)));
                }
            }
        }
        Ok(())
    }

    /// Returns the error for a profile that does not fit the object.
    fn profile_error(&self, error: impl Display) -> Error {
        Error::new(format!("profile of {}: {error}", self.name))
    }

    fn not_enabled(&self, error: &str, journal: &mut Journal) -> Failure {
        let words = journal.settled();
        match journal::end(&words) {
            End::Restart => Failure::Restart,
            _ => Failure::Policy(format!("{} was not enabled{error}\n{}", self.name, words.join("\n"))),
        }
    }

    fn not_loaded(&self, error: &libbpf_rs::Error) -> Failure {
        let messages = verifier::messages();
        let where_log = match verifier::write_log(&self.name, &messages) {
            Ok(log) => format!("the full log: {}", log.display()),
            Err(error) => format!("the full log could not be written: {error}"),
        };
        match verifier::rejection(&messages) {
            Some(found) => {
                let source = found
                    .source
                    .unwrap_or_else(|| "(the object has no line information: compile with -g)".into());
                Failure::Policy(format!(
                    "{source}\n{} is rejected by the verifier: {}\nin program {}; {where_log}",
                    self.name, found.reason, found.program
                ))
            }
            None => {
                let last = messages
                    .lines()
                    .rev()
                    .find(|line| !line.contains("failed to load object"));
                let last = last.unwrap_or_default().trim_start_matches("libbpf: ");
                let hint = match messages.contains("system Kconfig") {
                    true => format!(
                        "\nthe object reads CONFIG_ values, but there is no configuration of this kernel in /proc/config.gz or /boot/config-{}",
                        host_kernel::release()
                    ),
                    false => String::new(),
                };
                Failure::Policy(format!(
                    "{} does not load: {error}: {last}{hint}\n{where_log}",
                    self.name
                ))
            }
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for link in self.links.drain(..) {
            drop(link);
        }
    }
}

/// Returns the name of the data section that a map of libbpf contains. For example, the map
/// `steal.data` holds `.data`, and `.data.hot` holds `.data.hot`.
fn section_name(map: &str) -> String {
    map.find('.').map_or_else(String::new, |dot| map[dot..].to_owned())
}

/// Selects the tracing programs to load, and returns descriptions of those that are left out.
///
/// A program in a section whose name begins with `?` is optional. It is loaded if this kernel has
/// the function that the program traces, or if the profile names the program.
fn choose_programs(open: &mut OpenObject, profile: &Profile) -> Vec<String> {
    let mut left_out = Vec::new();
    for mut program in open.progs_mut() {
        if profile
            .attach
            .iter()
            .any(|name| program.name().to_string_lossy() == *name)
        {
            program.set_autoload(true);
        }
        let section = program.section().to_string_lossy().into_owned();
        let Some(optional) = section.strip_prefix('?') else {
            continue;
        };
        let Some((kind @ ("fentry" | "fexit"), function)) = optional.split_once('/') else {
            continue;
        };
        if in_vmlinux(kind, function) {
            program.set_autoload(true);
        } else {
            left_out.push(format!(
                "{} ({optional}: the function is in a module or not in this kernel)",
                program.name().to_string_lossy()
            ));
        }
    }
    left_out
}

fn in_vmlinux(kind: &str, function: &str) -> bool {
    let attach_type = match kind {
        "fentry" => libbpf_sys::BPF_TRACE_FENTRY,
        _ => libbpf_sys::BPF_TRACE_FEXIT,
    };
    let Ok(function) = CString::new(function) else {
        return false;
    };
    // SAFETY: the string ends with NUL and lives until the call returns.
    unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(function.as_ptr(), attach_type) > 0 }
}

/// Returns the offset and the size in bytes of a member of the callback table, if it is a number.
fn ops_member(btf: &Btf, member: &str) -> Option<(usize, usize)> {
    let ops = btf.iter().find_map(|(_, ty)| match ty.kind {
        TypeKind::Var { ty, .. } => {
            let is_table = ["sched_ext_ops", "sched_ext_ops_cid"].contains(&&*btf.get(ty).name);
            btf.composite(ty).filter(|_| is_table)
        }
        _ => None,
    })?;
    let member = ops.members.iter().find(|known| *known.name == *member)?;
    let size = btf.size_of(member.ty).filter(|&size| size <= 8)?;
    Some(((member.bit_offset / 8) as usize, size as usize))
}

/// Returns all flags of `struct sched_ext_ops` that this kernel knows. Returns `None` if the
/// kernel's BTF does not list them.
fn known_flags() -> Option<i64> {
    let bytes = std::fs::read(host_kernel::BTF).ok()?;
    let btf = Btf::parse(&bytes).ok()?;
    btf.iter().find_map(|(_, ty)| match &ty.kind {
        TypeKind::Enum { values, .. } if &*ty.name == "scx_ops_flags" => {
            let flags = values.iter().filter(|(name, _)| name.starts_with("SCX_OPS_"));
            Some(flags.fold(0, |all, (_, value)| all | *value))
        }
        _ => None,
    })
}

/// Sets the `__SCX_*` constants, which scx's headers declare, to the values of this kernel's
/// enumerators.
fn set_enum_constants(object: &mut Object) -> Result<(), Error> {
    let wanted: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .filter(|name| name.starts_with("__SCX_") || name.starts_with("__COMPAT_SCX_"))
        .collect();
    if wanted.is_empty() || !Path::new(host_kernel::BTF).exists() {
        return Ok(());
    }
    let unreadable = |error: String| Error::new(format!("{}: {error}", host_kernel::BTF));
    let bytes = std::fs::read(host_kernel::BTF).map_err(|error| unreadable(error.to_string()))?;
    let btf = Btf::parse(&bytes).map_err(|error| unreadable(error.to_string()))?;
    for (_, ty) in btf.iter() {
        let TypeKind::Enum { values, .. } = &ty.kind else {
            continue;
        };
        for (name, value) in values {
            for constant in [format!("__{name}"), format!("__COMPAT_{name}")] {
                if wanted.contains(&constant) {
                    object
                        .set(&constant, &(*value as u64).to_string())
                        .map_err(|error| Error::new(error.to_string()))?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_name_gives_its_section() {
        assert_eq!(section_name("steal.rodata"), ".rodata");
        assert_eq!(section_name("a.data"), ".data");
        assert_eq!(section_name(".data.hot"), ".data.hot");
        assert_eq!(section_name("cpus"), "");
    }
}
