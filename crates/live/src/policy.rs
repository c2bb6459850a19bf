// SPDX-License-Identifier: GPL-2.0-only
//! An object comes into the kernel: its constants are filled as `--set`, its profile and the kernel's types say, the verifier
//! judges it, its programs and its callbacks are attached.

use crate::globals::Globals;
use crate::journal::{self, End, Journal};
use crate::{kernel, verifier};
use bpf::btf::{Btf, Kind};
use bpf::object::Object;
use libbpf_rs::{Link, MapCore, MapHandle, MapType, ObjectBuilder, OpenObject, ProgramType, libbpf_sys};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use windtunnel::error::Error;
use windtunnel::load;

/// A policy to be loaded.
pub struct Source {
    pub name: String,
    pub path: PathBuf,
    /// As `windtunnel run` reads it, parameters and profile applied.
    pub object: Object,
}

/// A policy that is loaded; dropping it unloads it.
pub struct Loaded {
    /// Detached in this order: the callbacks before the programs that feed them.
    links: Vec<Link>,
    pub globals: Globals,
    /// Programs that this kernel has no place for, and why.
    pub left_out: Vec<String>,
    _object: libbpf_rs::Object,
}

/// Why it was not loaded.
pub enum Failure {
    /// The policy's fault, in the kernel's words.
    Policy(String),
    /// CPUs came or went while it was enabled.
    Restart,
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl Source {
    /// Reads the object and makes the settings.
    ///
    /// # Errors
    /// If the object or a setting cannot work.
    pub fn new(name: String, path: PathBuf, settings: &[(String, String)]) -> Result<Source, Error> {
        let spec = machine::load("host", &[])?;
        let (mut object, profile) = load::prepared(&name, &path, settings, &spec)?;
        if !profile.run.is_empty()
            || !profile.ops.is_empty()
            || !profile.resize.is_empty()
            || !profile.max_entries.is_empty()
        {
            return Err(Error::new(format!(
                "{name} needs its own loader: programs to run or callback flags to set first"
            ))
            .hint("run the scheduler's own command; `windtunnel live status` and `live run` work beside it"));
        }
        set_enum_constants(&mut object)?;
        Ok(Source { name, path, object })
    }

    /// Loads and attaches it.
    pub fn load(&self, journal: &mut Journal) -> Result<Loaded, Failure> {
        verifier::keep_messages();
        let failed = |what: &str, error: libbpf_rs::Error| {
            let said = verifier::messages();
            let last = said
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
            .map_err(|error| failed("no BPF object", error))?;
        self.fill(&mut open)?;
        let left_out = choose_programs(&mut open);
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
                    .map_err(|error| failed(&format!("{name} does not attach"), error))?,
            );
        }
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
            return Err(Error::new(format!("{}: there is no sched_ext_ops in it", self.path.display())).into());
        }
        // A policy whose init fails is ejected at once, and attaching it still succeeds.
        if kernel::state() != "enabled" {
            return Err(self.not_enabled("", journal));
        }
        for map in object.maps() {
            let section = section_of(&map.name().to_string_lossy());
            if section.starts_with(".data") || section.starts_with(".bss") {
                let handle = MapHandle::try_from(&map).map_err(|error| failed("its globals", error))?;
                sections.push((section, handle));
            }
        }
        links.extend(programs);
        Ok(Loaded {
            links,
            globals: Globals::new(sections)?,
            left_out,
            _object: object,
        })
    }

    /// Copies what the globals start with into libbpf's maps.
    fn fill(&self, open: &mut OpenObject) -> Result<(), Error> {
        for mut map in open.maps_mut() {
            let section = section_of(&map.name().to_string_lossy());
            let (Some(from), Some(to)) = (self.object.section(&section), map.initial_value_mut()) else {
                continue;
            };
            let length = from.len().min(to.len());
            to[..length].copy_from_slice(&from[..length]);
        }
        Ok(())
    }

    fn not_enabled(&self, error: &str, journal: &mut Journal) -> Failure {
        let words = journal.settled();
        match journal::end(&words) {
            End::Restart => Failure::Restart,
            _ => Failure::Policy(format!("{} was not enabled{error}\n{}", self.name, words.join("\n"))),
        }
    }

    fn not_loaded(&self, error: &libbpf_rs::Error) -> Failure {
        let said = verifier::messages();
        let log = std::env::temp_dir().join(format!("windtunnel-live-{}.log", self.name));
        let where_log = match std::fs::write(&log, &said) {
            Ok(()) => format!("the full log: {}", log.display()),
            Err(error) => format!("the full log could not be written to {}: {error}", log.display()),
        };
        match verifier::rejection(&said) {
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
                let last = said.lines().rev().find(|line| !line.contains("failed to load object"));
                let last = last.unwrap_or_default().trim_start_matches("libbpf: ");
                Failure::Policy(format!("{} does not load: {error}: {last}\n{where_log}", self.name))
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

/// libbpf's map `steal.data` is the section `.data`; sections with names of their own are called by them.
fn section_of(map: &str) -> String {
    map.find('.').map_or_else(String::new, |dot| map[dot..].to_owned())
}

/// A section that starts with `?` is optional: it is loaded if this kernel has the function that it traces.
fn choose_programs(open: &mut OpenObject) -> Vec<String> {
    let mut left_out = Vec::new();
    for mut program in open.progs_mut() {
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
    // SAFETY: a NUL-terminated string that outlives the call.
    unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(function.as_ptr(), attach_type) > 0 }
}

/// Gives the `__SCX_*` constants of scx headers this kernel's values.
fn set_enum_constants(object: &mut Object) -> Result<(), Error> {
    let wanted: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .filter(|name| name.starts_with("__SCX_") || name.starts_with("__COMPAT_SCX_"))
        .collect();
    if wanted.is_empty() || !Path::new(kernel::BTF).exists() {
        return Ok(());
    }
    let unreadable = |error: String| Error::new(format!("{}: {error}", kernel::BTF));
    let bytes = std::fs::read(kernel::BTF).map_err(|error| unreadable(error.to_string()))?;
    let btf = Btf::parse(&bytes).map_err(|error| unreadable(error.to_string()))?;
    for (_, ty) in btf.iter() {
        let Kind::Enum { values, .. } = &ty.kind else {
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
    fn maps_are_sections() {
        assert_eq!(section_of("steal.rodata"), ".rodata");
        assert_eq!(section_of("a.data"), ".data");
        assert_eq!(section_of(".data.hot"), ".data.hot");
        assert_eq!(section_of("cpus"), "");
    }
}
