// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes the globals of a loaded policy through memory mappings of its data sections.
//!
//! To change a variable, only the bytes that differ are written, and never a whole section, because
//! the policy may write other variables at the same time.

use bpf::object::Object;
use input::error::Error;
use libbpf_rs::{MapCore, MapHandle, libbpf_sys};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

/// The mapped data sections, by name: `.data`, `.bss` and so on.
pub struct Globals {
    sections: BTreeMap<String, Section>,
}

struct Section {
    memory: *mut u8,
    length: usize,
    /// Handle of the section's BPF map. It keeps the map alive.
    map: MapHandle,
}

impl Globals {
    /// Maps the BPF maps that contain the sections into memory.
    ///
    /// # Errors
    /// The kernel refuses a mapping.
    pub fn new(maps: impl IntoIterator<Item = (String, MapHandle)>) -> Result<Globals, Error> {
        let mut sections = BTreeMap::new();
        for (name, map) in maps {
            // libbpf does not allow a section without exported variables to be mapped. Such a
            // section contains no variable that a user can read or set.
            if !mappable(&map)? {
                continue;
            }
            let length = map.value_size() as usize;
            // SAFETY: this creates a new mapping of `length` bytes. The map handle in the section
            // keeps the map alive.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    map.as_fd().as_raw_fd(),
                    0,
                )
            };
            if memory == libc::MAP_FAILED {
                let error = std::io::Error::last_os_error();
                return Err(Error::new(format!(
                    "the policy's section {name} cannot be mapped: {error}"
                )));
            }
            let memory = memory.cast();
            sections.insert(name, Section { memory, length, map });
        }
        Ok(Globals { sections })
    }

    /// Returns the ids of the BPF maps by section name. Another process can open the maps with
    /// these ids.
    pub fn ids(&self) -> Result<BTreeMap<String, u32>, Error> {
        let id = |section: &Section| section.map.info().map(|info| info.info.id);
        let ids = self
            .sections
            .iter()
            .map(|(name, section)| Ok((name.clone(), id(section)?)));
        ids.collect::<Result<_, libbpf_rs::Error>>()
            .map_err(|error| Error::new(format!("the ids of the policy's maps cannot be read: {error}")))
    }

    /// Opens the maps of a policy that another process has loaded.
    ///
    /// # Errors
    /// The maps no longer exist, or this process lacks the privilege.
    pub fn from_ids(ids: &BTreeMap<String, u32>) -> Result<Globals, Error> {
        let mut maps = Vec::new();
        for (name, &id) in ids {
            let map = MapHandle::from_map_id(id).map_err(|error| {
                Error::new(format!(
                    "the policy's section {name} (map {id}) cannot be opened: {error}"
                ))
            })?;
            maps.push((name.clone(), map));
        }
        Globals::new(maps)
    }

    fn copy(&self, section: &str) -> Option<Vec<u8>> {
        let section = self.sections.get(section)?;
        let mut bytes = vec![0; section.length];
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the address is inside the mapping. The read is volatile because the policy
            // may write the byte at the same time.
            *byte = unsafe { section.memory.add(i).read_volatile() };
        }
        Some(bytes)
    }

    /// Returns the current value of a variable, of an array element, or of a struct member.
    ///
    /// # Errors
    /// The object has no such variable, or the variable is not in a mapped section.
    pub fn get(&self, object: &Object, path: &str) -> Result<String, Error> {
        let section = self.find_section(object, path)?;
        let bytes = self.copy(&section).unwrap_or_default();
        object
            .get_in(path, &bytes)
            .map_err(|error| Error::new(error.to_string()))
    }

    /// Sets a variable, an array element or a struct member.
    ///
    /// # Errors
    /// The object has no such variable, the variable is fixed when the policy is loaded, or the
    /// value does not fit.
    pub fn set(&self, object: &Object, path: &str, text: &str) -> Result<(), Error> {
        let name = self.find_section(object, path)?;
        let old = self.copy(&name).unwrap_or_default();
        let mut new = old.clone();
        object
            .set_in(path, text, &mut new)
            .map_err(|error| Error::new(error.to_string()))?;
        let memory = self.sections[&name].memory;
        for (i, (old, new)) in old.iter().zip(&new).enumerate().filter(|(_, (old, new))| old != new) {
            debug_assert_ne!(old, new);
            // SAFETY: the address is inside the mapping. Unchanged bytes are not written.
            unsafe { memory.add(i).write_volatile(*new) };
        }
        Ok(())
    }

    fn find_section(&self, object: &Object, path: &str) -> Result<String, Error> {
        let name = path.split(['.', '[']).next().unwrap_or(path).trim();
        let Some(variable) = object.variables().iter().find(|variable| variable.name == name) else {
            let error = object
                .get(path)
                .err()
                .map_or_else(String::new, |error| error.to_string());
            return Err(Error::new(error));
        };
        if self.sections.contains_key(&variable.section) {
            Ok(variable.section.clone())
        } else {
            Err(Error::new(format!("{name} is fixed when the policy is loaded"))
                .hint(format!("unload it and load it again with --set {name}=...")))
        }
    }
}

fn mappable(map: &MapHandle) -> Result<bool, Error> {
    let info = map
        .info()
        .map_err(|error| Error::new(format!("the flags of one of the policy's maps cannot be read: {error}")))?;
    Ok(info.info.map_flags & libbpf_sys::BPF_F_MMAPABLE != 0)
}

impl Drop for Globals {
    fn drop(&mut self) {
        for section in self.sections.values() {
            // SAFETY: `new` mapped the section with this address and length.
            unsafe { libc::munmap(section.memory.cast(), section.length) };
        }
    }
}
