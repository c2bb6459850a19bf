// SPDX-License-Identifier: GPL-2.0-only
//! A policy's global variables, which are its parameters. `const volatile` variables can be set
//! only before the policy is loaded. All other variables can also be set while the policy runs.

use std::collections::BTreeMap;

use super::elf::Elf;
use super::value::{self, Location};
use super::{Object, SectionKind, section_kind, section_vars};
use crate::btf::{Btf, STATIC, Type, TypeKind};
use crate::error::Error;
use input::to_usize;

/// Maximum size of a section in bytes.
const MAX_SECTION: u64 = 1 << 32;
/// Maximum number of bytes to which a variable's stored bytes are extended with zeros before its
/// value is formatted. The extension is necessary if the variable lies beyond the stored data of
/// its section.
const MAX_ZEROS: usize = 1 << 20;
/// Number of bytes at the start of a section in which values can be set. The limit bounds the memory
/// for these values.
const MAX_SET: usize = 256 << 20;

/// A global variable that is visible to user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// C name.
    pub name: String,
    /// ELF section.
    pub section: String,
    /// Whether the variable may change while the policy runs. `const volatile` variables may not.
    pub live: bool,
    /// Offset from the start of the section in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u32,
    /// Id of the type in the object's BTF.
    pub ty: u32,
    /// Type in C syntax.
    pub type_name: String,
    /// Texts of the variable's declaration tags.
    pub tags: Vec<String>,
    /// Index of the section in the ELF file.
    pub(crate) index: usize,
}

/// Returns the global variables that are visible to user space, and the static variables.
pub(super) fn variables(elf: &Elf, btf: &Btf) -> Result<(Vec<Variable>, Vec<Variable>), Error> {
    let mut tags: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (_, ty) in btf.iter() {
        if let TypeKind::DeclTag { ty: on, component: -1 } = ty.kind {
            tags.entry(on).or_default().push(ty.name.to_string());
        }
    }
    let (mut variables, mut statics) = (Vec::new(), Vec::new());
    for (index, section) in elf.sections.iter().enumerate() {
        let kind = section_kind(section);
        if !matches!(kind, SectionKind::Rodata | SectionKind::Data | SectionKind::Arena) {
            continue;
        }
        for (var, offset, size) in section_vars(elf, btf, &section.name)? {
            let TypeKind::Var { ty, linkage } = *btf.kind(var) else {
                continue;
            };
            let to = if linkage == STATIC {
                &mut statics
            } else {
                &mut variables
            };
            to.push(Variable {
                name: btf.name(var).to_string(),
                section: section.name.clone(),
                live: kind != SectionKind::Rodata,
                offset,
                size,
                ty,
                type_name: btf.c_name(ty),
                tags: tags.get(&var).cloned().unwrap_or_default(),
                index,
            });
        }
    }
    Ok((variables, statics))
}

/// Finds the variable at the start of a path such as `name[3].member`. Returns the variable and the
/// length of its name.
pub(crate) fn find<'v>(variables: &'v [Variable], path: &str) -> Result<(&'v Variable, usize), Error> {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let name = path[..end].trim_end();
    match variables.iter().find(|variable| variable.name == name) {
        Some(variable) => Ok((variable, end)),
        None => {
            let error = Error::new(format!("no variable is called {name}"));
            let names = variables.iter().map(|variable| variable.name.as_str());
            Err(match input::suggest::nearest(name, names) {
                Some(nearest) => error.hint(format!("did you mean {nearest}?")),
                None => error,
            })
        }
    }
}

impl Object {
    /// Returns the global variables that are visible to user space, ordered by section and offset.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    fn locate(&self, path: &str) -> Result<(usize, Location), Error> {
        let (variable, end) = find(&self.variables, path).map_err(|error| error.in_file(&self.file))?;
        let location = Location::whole(&self.btf, variable.ty).follow(&self.btf, path[end..].trim_end());
        let location = location.map_err(|message| Error::new(format!("{path}: {message}")).in_file(&self.file))?;
        Ok((
            variable.index,
            Location {
                offset: variable.offset + location.offset,
                ..location
            },
        ))
    }

    /// Returns the initial value of a global variable, or of an element or member of it (`name[3]`,
    /// `name.member`).
    pub fn get(&self, path: &str) -> Result<String, Error> {
        let (index, location) = self.locate(path)?;
        let section = &self.elf.sections[index];
        // `location.size` comes from the object and may be 4 GiB. A limited number of zeros
        // suffices, because only the first elements are formatted.
        let stored = to_usize(section.stored().saturating_sub(location.offset));
        let mut bytes = vec![0; (location.size as usize).min(stored.max(MAX_ZEROS))];
        section.read(location.offset, &mut bytes);
        Ok(value::format(&self.btf, location, &bytes))
    }

    /// Sets the initial value of a global variable, or of an element or member of it. The text must
    /// match the type: a number (decimal or 0x), true or false, the name of an enumerator, text for
    /// a char array, or `1,2,3` for another array.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), Error> {
        let (index, location) = self.locate(path)?;
        let section = &mut self.elf.sections[index];
        let end = to_usize(location.offset) + location.size as usize;
        if end > section.data.len().max(MAX_SET) {
            let message = format!(
                "{path}: a value can be set in the first {} MiB of a section, this one ends at {end} bytes",
                MAX_SET >> 20
            );
            return Err(Error::new(message).in_file(&self.file));
        }
        let mut bytes = vec![0; location.size as usize];
        section.read(location.offset, &mut bytes);
        value::set(&self.btf, location, &mut bytes, text)
            .map_err(|message| Error::new(format!("{path} = {text}: {message}")).in_file(&self.file))?;
        section.write(location.offset, &bytes);
        Ok(())
    }

    /// Returns the initial contents of a section of globals, including values that the caller has
    /// set.
    pub fn section(&self, name: &str) -> Option<Vec<u8>> {
        let section = self.elf.sections.iter().find(|section| section.name == name)?;
        let mut bytes = vec![0; to_usize(section.stored())];
        section.read(0, &mut bytes);
        Some(bytes)
    }

    /// Returns the size of a section of globals in bytes. It may be larger than the stored initial
    /// contents; the further bytes are zeros.
    pub fn section_size(&self, name: &str) -> Option<u64> {
        let section = self.elf.sections.iter().find(|section| section.name == name)?;
        Some(section.size)
    }

    /// Like [`Object::get`], but reads the value from `section`, which contains the current bytes
    /// of the variable's section.
    pub fn get_in(&self, path: &str, section: &[u8]) -> Result<String, Error> {
        let (_, location) = self.locate(path)?;
        let bytes = section
            .get(to_usize(location.offset)..to_usize(location.offset) + location.size as usize)
            .ok_or_else(|| Error::new(format!("{path}: its section is too short")).in_file(&self.file))?;
        Ok(value::format(&self.btf, location, bytes))
    }

    /// Like [`Object::set`], but changes the value in `section`, which contains the current bytes
    /// of the variable's section.
    pub fn set_in(&self, path: &str, text: &str, section: &mut [u8]) -> Result<(), Error> {
        let (_, location) = self.locate(path)?;
        let bytes = section
            .get_mut(to_usize(location.offset)..to_usize(location.offset) + location.size as usize)
            .ok_or_else(|| Error::new(format!("{path}: its section is too short")).in_file(&self.file))?;
        value::set(&self.btf, location, bytes, text)
            .map_err(|message| Error::new(format!("{path} = {text}: {message}")).in_file(&self.file))
    }

    /// Sets the number of elements of an array variable. The array must be the last variable of its
    /// section, because the variables after it cannot move. An array is certainly the last variable
    /// if it has a section of its own, such as `SEC(".data.name")`.
    pub fn resize(&mut self, name: &str, count: u32) -> Result<(), Error> {
        let file = self.file.clone();
        let fail = |message: String| Error::new(format!("{name}: {message}")).in_file(&file);
        let (found, end) = find(&self.variables, name).map_err(|error| error.in_file(&file))?;
        let (variable, index) = (found.clone(), found.index);
        let TypeKind::Array {
            ty, index: index_type, ..
        } = *self.btf.kind(self.btf.resolve(variable.ty))
        else {
            return Err(fail(format!("{} is not an array", variable.type_name)));
        };
        if end < name.len()
            || self
                .variables
                .iter()
                .any(|v| v.index == index && v.offset > variable.offset)
        {
            return Err(fail("only the last variable of a section can be resized".to_string()));
        }
        let element = self.btf.size_of(ty).unwrap_or(0);
        let size = element
            .checked_mul(count)
            .filter(|&size| variable.offset + u64::from(size) <= MAX_SECTION)
            .ok_or_else(|| fail(format!("{count} elements of {element} bytes are too many")))?;
        let array = Type {
            name: "".into(),
            kind: TypeKind::Array {
                ty,
                index: index_type,
                len: count,
            },
        };
        let array = self.btf.push(array);
        let type_name = self.btf.c_name(array);
        let section = &mut self.elf.sections[index];
        section.resize(variable.offset + u64::from(size));
        if let Some(found) = self.variables.iter_mut().find(|v| v.name == variable.name) {
            *found = Variable {
                size,
                ty: array,
                type_name,
                ..variable
            };
        }
        Ok(())
    }
}
