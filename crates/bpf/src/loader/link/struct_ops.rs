// SPDX-License-Identifier: GPL-2.0-only
//! Links struct_ops variables: finds the function that implements each callback, and copies the
//! constant members.
//!
//! Members are matched by name. The object was compiled with headers whose struct may differ in
//! size and order from the struct of the target kernel.
//!
//! A name without flavour is a name without a suffix such as `___old`, which distinguishes versions
//! of a type.

use std::collections::BTreeMap;

use super::code::Linker;
use super::target::Target;
use crate::btf::{Btf, TypeKind, essential_name};
use crate::error::Error;
use crate::object::elf::{R_BPF_64_ABS64, SymbolKind};
use crate::object::{Object, SectionKind, section_vars};
use input::to_usize;

/// A struct_ops variable of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StructOps {
    /// Name of the variable.
    pub map_name: String,
    /// Name of its type, without flavour.
    pub type_name: String,
    /// For each member that the object implements, the index of the function.
    pub programs: BTreeMap<String, usize>,
    /// The bytes of each member that is neither a function nor 0. A member has as many bytes as in
    /// the target's struct.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Members that the object sets but the target lacks.
    pub unknown: Vec<String>,
    /// Whether the target has this struct.
    pub attachable: bool,
    /// Whether the loader attaches this struct_ops even if the caller does not ask for it. A `?` at
    /// the start of the section's name turns this off.
    pub auto_attach: bool,
}

impl StructOps {
    /// Returns a numeric member, or 0 if it is not set.
    pub fn u64(&self, member: &str) -> u64 {
        let bytes = self.data.get(member).map_or(&[][..], Vec::as_slice);
        bytes
            .iter()
            .take(8)
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// Returns a text member, or an empty text if it is not set.
    pub fn text(&self, member: &str) -> String {
        let bytes = self.data.get(member).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
    }
}

pub(super) fn link(object: &Object, target: &Target, linker: &mut Linker) -> Result<Vec<StructOps>, Error> {
    let mut found = Vec::new();
    for (index, section) in object.elf.sections.iter().enumerate() {
        if object.section_kind(index) != SectionKind::StructOps {
            continue;
        }
        for (var, offset, _) in section_vars(&object.elf, &object.btf, &section.name)? {
            let mut ops = parse_variable(object, target, linker, index, var, offset)?;
            ops.auto_attach = !section.name.starts_with('?');
            found.push(ops);
        }
    }
    Ok(found)
}

fn parse_variable(
    object: &Object,
    target: &Target,
    linker: &mut Linker,
    index: usize,
    var: u32,
    offset: u64,
) -> Result<StructOps, Error> {
    let (btf, section) = (&object.btf, &object.elf.sections[index]);
    let fail = |message: &str| Error::at(&section.name, offset, format!("{}: {message}", btf.name(var)));
    let TypeKind::Var { ty, .. } = *btf.kind(var) else {
        return Err(fail("not a variable"));
    };
    let ty = btf.resolve(ty);
    let TypeKind::Struct(composite) = btf.kind(ty) else {
        return Err(fail("not a struct"));
    };
    let type_name = essential_name(btf.name(ty)).to_string();
    let there = target
        .btf()
        .find_struct(&type_name)
        .filter(|_| target.is_struct_ops(&type_name));
    let mut ops = StructOps {
        map_name: btf.name(var).to_string(),
        type_name: type_name.clone(),
        attachable: there.is_some(),
        ..StructOps::default()
    };
    if there.is_none() {
        linker.warn(format!(
            "{}: the simulator does not have struct {type_name}, so it will not be attached",
            ops.map_name
        ));
    }
    // If a member extends beyond the stored data of the section, the rest of the member is zero.
    // These zeros are left out here, because the object's BTF can claim any size for the member.
    let data = |start: u64, size: u64| -> Vec<u8> {
        let rest = section.data.get(to_usize(start)..).unwrap_or_default();
        rest[..rest.len().min(to_usize(size))].to_vec()
    };
    for member in &composite.members {
        let start = offset + u64::from(member.bit_offset / 8);
        let name = member.name.to_string();
        let relocation = section
            .relocation_at(start)
            .filter(|relocation| relocation.kind == R_BPF_64_ABS64);
        let is_function = |symbol: usize| {
            let symbol = &object.elf.symbols[symbol];
            matches!(symbol.kind, SymbolKind::Function | SymbolKind::Section)
                && symbol
                    .section
                    .is_some_and(|index| object.section_kind(index) == SectionKind::Code)
        };
        let function = match relocation.filter(|relocation| is_function(relocation.symbol)) {
            Some(relocation) => Some(linker.function_target(&section.name, relocation)?),
            None => None,
        };
        let bytes = data(start, u64::from(btf.size_of(member.ty).unwrap_or(0)));
        if function.is_none() && bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        let known = there.is_none_or(|there| member_type(target.btf(), there, &name).is_some());
        if !known {
            linker.warn(format!(
                "{}: {type_name} has no member {name} in this kernel; the member is ignored",
                ops.map_name
            ));
            ops.unknown.push(name);
            continue;
        }
        match function {
            Some(function) => drop(ops.programs.insert(name, function)),
            None => {
                let size = there.and_then(|there| target.btf().size_of(member_type(target.btf(), there, &name)?));
                let mut bytes = bytes;
                bytes.resize(size.map_or(bytes.len(), |size| size as usize), 0);
                ops.data.insert(name, bytes);
            }
        }
    }
    Ok(ops)
}

fn member_type(btf: &Btf, id: u32, name: &str) -> Option<u32> {
    Some(
        btf.composite(id)?
            .members
            .iter()
            .find(|member| *member.name == *name)?
            .ty,
    )
}
