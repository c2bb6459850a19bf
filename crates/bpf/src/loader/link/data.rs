// SPDX-License-Identifier: GPL-2.0-only
//! Allocates the memory of an object: sections of globals, and the handle of each map (the memory
//! to which `&map` points). Also reads and sets globals while programs run.

use super::code::Linker;
use super::{DataSection, Image, TaggedArray};
use crate::btf::{Btf, TypeKind};
use crate::error::Error;
use crate::image::MapDef;
use crate::map::{BPF_ANY, Map};
use crate::memory::{ARENA_SIZE, PAGE, Region};
use crate::object::fields::variable_fields;
use crate::object::value::{self, Location};
use crate::object::{Object, SectionKind, Variable, param, section_vars};
use input::to_usize;

pub(super) const BPF_MAP_TYPE_PROG_ARRAY: u32 = 3;
const BPF_MAP_TYPE_PERF_EVENT_ARRAY: u32 = 4;
const BPF_MAP_TYPE_ARENA: u32 = 33;
/// Size of the memory to which `&map` points, in bytes.
const HANDLE_SIZE: u64 = 64;

fn exhausted(region: &Region, section: &str) -> Error {
    let message = match region.memory().take_refused() {
        true => region.memory().message(),
        false => "the simulated address space is full".to_string(),
    };
    Error::new(message).in_section(section)
}

/// Returns the definitions of the maps. Each definition has a handle, and that of an arena also has
/// an address.
pub(super) fn allocate_maps(object: &Object, region: &Region, nr_cpus: u32) -> Result<Vec<MapDef>, Error> {
    object
        .maps
        .iter()
        .map(|map| {
            let mut def = map.def.clone();
            def.handle = region.alloc(HANDLE_SIZE).ok_or_else(|| exhausted(region, ".maps"))?;
            if def.kind == BPF_MAP_TYPE_PERF_EVENT_ARRAY && def.max_entries == 0 {
                def.max_entries = nr_cpus;
            }
            if def.kind == BPF_MAP_TYPE_ARENA {
                def.arena = Some(region.arena().ok_or_else(|| exhausted(region, ".maps"))?);
            }
            Ok(def)
        })
        .collect()
}

/// Allocates the sections of globals and fills them with their initial values. Globals that belong
/// to an arena lie at the end of its pages.
pub(super) fn allocate_sections(
    object: &Object,
    region: &Region,
    maps: &mut [MapDef],
) -> Result<Vec<DataSection>, Error> {
    let mut sections = Vec::new();
    for (index, section) in object.elf.sections.iter().enumerate() {
        let kind = object.section_kind(index);
        let (addr, memory) = match kind {
            SectionKind::Rodata | SectionKind::Data => {
                let addr = region
                    .pages(section.size)
                    .ok_or_else(|| exhausted(region, &section.name))?;
                (addr, addr)
            }
            SectionKind::Arena if section.size > 0 => {
                allocate_in_arena(section.size, region, maps).map_err(|error| error.in_section(&section.name))?
            }
            _ => continue,
        };
        let write = |addr: u64, bytes: &[u8]| {
            let written = region.write(addr, bytes);
            written.map_err(|fault| Error::from(fault).in_section(&section.name))
        };
        // The region's pages contain zeros. Pages of zeros are not copied, because the host provides
        // memory for a page when it is first written.
        for (page, from) in (0..).zip(section.data.chunks(to_usize(PAGE))) {
            if from.iter().any(|&byte| byte != 0) {
                write(memory + page * PAGE, from)?;
            }
        }
        for (&at, page) in &section.pages {
            let from = at.max(section.data.len() as u64);
            let end = section.size.min(at + PAGE);
            write(memory + from, &page[to_usize(from - at)..to_usize(end - at)])?;
        }
        let (mut fields, mut tagged) = (Vec::new(), Vec::new());
        for (var, offset, _) in section_vars(&object.elf, &object.btf, &section.name)? {
            let TypeKind::Var { ty, .. } = *object.btf.kind(var) else {
                continue;
            };
            tagged.extend(tagged_array(&object.btf, var, ty, addr + offset));
            let found = variable_fields(&object.btf, var, ty, offset);
            fields.extend(found.map_err(|message| {
                Error::at(
                    &section.name,
                    offset,
                    format!("variable {}: {message}", object.btf.name(var)),
                )
            })?);
        }
        let (name, size, live) = (section.name.clone(), section.size, kind != SectionKind::Rodata);
        sections.push(DataSection {
            name,
            addr,
            size,
            live,
            fields,
            tagged,
            index,
        });
    }
    Ok(sections)
}

fn tagged_array(btf: &Btf, var: u32, ty: u32, addr: u64) -> Option<TaggedArray> {
    let tag = btf.decl_tags(var).next()?;
    let TypeKind::Array { ty: element, len, .. } = *btf.kind(btf.resolve(ty)) else {
        return None;
    };
    Some(TaggedArray {
        name: btf.name(var).to_owned(),
        tag: tag.to_owned(),
        addr,
        stride: btf.size_of(element)?.into(),
        count: len.into(),
    })
}

/// Allocates globals at the end of the arena. Returns the address that programs use and the address
/// in the region.
fn allocate_in_arena(size: u64, region: &Region, maps: &mut [MapDef]) -> Result<(u64, u64), Error> {
    let arena = maps.iter_mut().find(|map| map.kind == BPF_MAP_TYPE_ARENA);
    let arena = arena.ok_or("the object has arena globals, but no map of type ARENA")?;
    let Some(base) = arena.arena else {
        return Err("the arena has no address".into());
    };
    let (total, globals) = (u64::from(arena.max_entries) * PAGE, size.next_multiple_of(PAGE));
    if total > ARENA_SIZE || globals > total {
        let pages = arena.max_entries;
        return Err(Error::new(format!(
            "{size} bytes of globals do not fit into the {pages} pages of arena {}",
            arena.name
        )));
    }
    arena.arena_globals = globals;
    let user = base + (arena.extra & (ARENA_SIZE - 1));
    let addr = user.wrapping_add(total - globals);
    let low = addr & (ARENA_SIZE - 1);
    if !low.is_multiple_of(PAGE) || low + globals > ARENA_SIZE {
        return Err(Error::new(format!(
            "map_extra {:#x} of arena {} is not on a 4 GiB boundary",
            arena.extra, arena.name
        )));
    }
    let committed = region.commit_arena(base + low, globals);
    committed.map_err(|exhausted| format!("arena {}: {}", arena.name, exhausted.fault(region)))?;
    Ok((addr, base + low))
}

/// Returns the initial entries of each map. Only maps of maps and program arrays have any.
pub(super) fn map_values(object: &Object, linker: &mut Linker) -> Result<Vec<Vec<(u32, usize)>>, Error> {
    let mut values = vec![Vec::new(); object.maps.len()];
    let Some(section) = object.elf.section(".maps") else {
        return Ok(values);
    };
    for relocation in &section.relocations {
        let inside = |&(_, map): &(usize, &crate::object::DeclaredMap)| {
            map.values_offset
                .is_some_and(|values| relocation.offset >= map.offset + values && relocation.offset < map.end)
        };
        let Some((map, declared)) = object.maps.iter().enumerate().find(inside) else {
            continue;
        };
        let start = declared.offset + declared.values_offset.unwrap_or(0);
        let Ok(index) = u32::try_from((relocation.offset - start) / 8) else {
            let message = format!("the entry is beyond the {} that a map can have", u32::MAX);
            return Err(Error::at(&section.name, relocation.offset, message));
        };
        let value = match declared.def.kind {
            BPF_MAP_TYPE_PROG_ARRAY => linker.function_target(&section.name, relocation)?,
            _ => linker.map_target(&section.name, relocation)?,
        };
        values[map].push((index, value));
    }
    Ok(values)
}

/// Location in memory of a global variable, or of an element or member of such a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableLocation {
    /// Address.
    pub addr: u64,
    /// Size in bytes.
    pub size: u32,
    /// Type in C syntax.
    pub type_name: String,
    /// Whether the variable may change while programs run.
    pub live: bool,
    location: Location,
}

impl Image {
    /// Creates the missing inner maps of a map of maps: one for each entry that has none yet. The
    /// new maps have the form that the object declares for inner maps. User-space parts of
    /// schedulers often create such maps one by one.
    ///
    /// # Errors
    /// There is no such map of maps, or the simulated address space is full.
    pub fn create_inner_maps(&mut self, region: &Region, name: &str) -> Result<(), Error> {
        let fail = |message: &str| Error::new(format!("{name}: {message}")).in_file(&self.file);
        let outer = self.maps.iter().position(|map| map.name == name);
        let outer = outer.ok_or_else(|| fail("there is no such map"))?;
        let Some(inner) = self.maps[outer].inner.clone() else {
            return Err(fail(
                "this is not a map of maps, or the object does not declare its inner maps",
            ));
        };
        for index in 0..self.maps[outer].max_entries {
            if self.maps[outer].values.iter().any(|&(taken, _)| taken == index) {
                continue;
            }
            let handle = region
                .alloc(HANDLE_SIZE)
                .ok_or_else(|| fail("the simulated address space is full"))?;
            let number = self.maps.len();
            self.maps[outer].values.push((index, number));
            let name = format!("{name}[{index}]");
            self.maps.push(MapDef {
                name,
                handle,
                ..(*inner).clone()
            });
        }
        Ok(())
    }

    /// Returns the global variables that are visible to user space.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the variables that may change while programs run, also the static ones, with their
    /// addresses.
    pub(crate) fn live_variables(&self) -> impl Iterator<Item = (&Variable, u64)> {
        let all = self.variables.iter().chain(&self.statics);
        all.filter(|variable| variable.live).filter_map(|variable| {
            let section = self.sections.iter().find(|section| section.index == variable.index)?;
            Some((variable, section.addr + variable.offset))
        })
    }

    /// Returns the location of a global variable (`name`), or of one of its elements (`name[3]`) or
    /// members (`name.member`).
    pub fn variable(&self, path: &str) -> Result<VariableLocation, Error> {
        let (variable, end) = param::find(&self.variables, path).map_err(|error| error.in_file(&self.file))?;
        let location = Location::whole(&self.btf, variable.ty).follow(&self.btf, path[end..].trim_end());
        let location = location.map_err(|message| Error::new(format!("{path}: {message}")).in_file(&self.file))?;
        let section = self.sections.iter().find(|section| section.index == variable.index);
        let section = section.ok_or_else(|| Error::new(format!("{path} has no memory")).in_file(&self.file))?;
        Ok(VariableLocation {
            addr: section.addr + variable.offset + location.offset,
            size: location.size,
            type_name: self.btf.c_name(location.ty),
            live: variable.live,
            location,
        })
    }

    /// Returns the current value of a global as text.
    pub fn get(&self, region: &Region, path: &str) -> Result<String, Error> {
        let found = self.variable(path)?;
        let bytes = region.bytes(found.addr, u64::from(found.size));
        let bytes = bytes.map_err(|fault| Error::new(format!("{path}: {fault}")).in_file(&self.file))?;
        Ok(value::format(&self.btf, found.location, &bytes))
    }

    /// Changes a global variable while programs run. Makes the checks of [`Object::set`] first.
    /// Fails if the variable is constant after loading.
    pub fn set(&self, region: &Region, path: &str, text: &str) -> Result<(), Error> {
        let found = self.variable(path)?;
        let fail = |error: Error| Error::new(format!("{path} = {text}: {error}")).in_file(&self.file);
        if !found.live {
            return Err(fail("the variable is constant after the policy is loaded".into()));
        }
        self.set_value(region, found.addr, found.location, text).map_err(fail)
    }

    /// Sets an entry of a map, or a member of the entry (`.member[3]`), as user space does. If the
    /// entry does not exist, creates it, with zeros in all other members. In a per-CPU map, sets
    /// the value of `cpu`.
    pub fn set_entry(
        &self,
        region: &Region,
        map: &Map,
        key: &[u8],
        cpu: u32,
        path: &str,
        text: &str,
    ) -> Result<(), Error> {
        let def = map.def();
        let fail = |error: Error| Error::new(format!("map {}: {error}", def.name)).in_file(&self.file);
        if key.len() != def.key_size as usize {
            let (size, given) = (def.key_size, key.len());
            return Err(fail(
                format!("a key has {size} bytes, but {given} bytes were given").into(),
            ));
        }
        let ty = def
            .value_type
            .ok_or_else(|| fail("the object declares no type for the map's values".into()))?;
        let location = Location::whole(&self.btf, ty).follow(&self.btf, path).map_err(fail)?;
        let lookup = || map.lookup(region, key, cpu).map_err(|fault| fail(fault.into()));
        let mut addr = lookup()?;
        if addr == 0 {
            let zeros = vec![0; def.value_size as usize];
            let made = map.update(region, key, &zeros, BPF_ANY, cpu);
            match made.map_err(|fault| fail(fault.into()))? {
                0 => addr = lookup()?,
                error => return Err(fail(format!("an entry cannot be created ({error})").into())),
            }
        }
        self.set_value(region, addr + location.offset, location, text)
            .map_err(|error| fail(format!("{path} = {text}: {error}").into()))
    }

    /// Changes the value at an address.
    fn set_value(&self, region: &Region, addr: u64, location: Location, text: &str) -> Result<(), Error> {
        let mut bytes = region.bytes(addr, u64::from(location.size))?.to_vec();
        value::set(&self.btf, location, &mut bytes, text)?;
        Ok(region.write(addr, &bytes)?)
    }
}
