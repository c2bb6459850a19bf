// SPDX-License-Identifier: GPL-2.0-only
//! Reads map definitions. A map is a variable in the .maps section. The type of the variable
//! encodes the attributes of the map:
//!
//! - `__uint(max_entries, 4)` is a pointer to an array of 4 elements.
//! - `__type(value, struct v)` is a pointer to the type.
//! - `__ulong(map_extra, x)` is an enumeration with the value x.
//! - `__array(values, struct inner)` is an array of pointers to inner definitions.

use super::elf::Elf;
use super::fields::special_fields;
use super::{DeclaredMap, section_vars};
use crate::btf::{Btf, Composite, TypeKind};
use crate::error::Error;
use crate::image::MapDef;

const SECTION: &str = ".maps";
/// Number of the map type ARENA, which has no keys and values.
const BPF_MAP_TYPE_ARENA: u32 = 33;

pub(super) fn declared(elf: &Elf, btf: &Btf) -> Result<Vec<DeclaredMap>, Error> {
    let vars = section_vars(elf, btf, SECTION)?;
    if vars.is_empty() && elf.section(SECTION).is_some_and(|section| section.size > 0) {
        let error = Error::at(SECTION, 0, "maps are declared, but there is no BTF to describe them");
        return Err(error.hint("compile with -g"));
    }
    let section_end = elf.section(SECTION).map_or(0, |section| section.size);
    let ends = vars.iter().skip(1).map(|next| next.1).chain([section_end]);
    vars.iter()
        .zip(ends)
        .map(|(&(var, offset, _), end)| {
            let name = btf.name(var);
            let fail = |error: Error| Error::at(SECTION, offset, format!("map {name}: {error}"));
            let TypeKind::Var { ty, .. } = *btf.kind(var) else {
                return Err(fail("not a variable".into()));
            };
            let Some(composite) = btf.composite(ty) else {
                return Err(fail("not a struct".into()));
            };
            let mut values_offset = None;
            let def = definition(btf, name, composite, Some(&mut values_offset)).map_err(fail)?;
            let values_offset = values_offset.map(u64::from);
            Ok(DeclaredMap {
                def,
                offset,
                values_offset,
                end,
            })
        })
        .collect()
}

/// Parses one map definition. `values_offset` receives the offset of the initial values. It is
/// `None` for the definition of an inner map, because inner maps cannot contain maps.
fn definition(
    btf: &Btf,
    name: &str,
    composite: &Composite,
    mut values_offset: Option<&mut Option<u32>>,
) -> Result<MapDef, Error> {
    let mut def = MapDef {
        name: name.to_string(),
        ..MapDef::default()
    };
    for member in &composite.members {
        let number = || number(btf, member.ty).ok_or_else(|| format!("{} is not a number", member.name));
        let size = |value: u64| u32::try_from(value).map_err(|_| format!("{} is out of range", member.name));
        // Returns the type to which the member points.
        let pointee = || match *btf.kind(btf.resolve(member.ty)) {
            TypeKind::Ptr(to) => Ok(to),
            _ => Err(format!("{} is not a pointer to a type", member.name)),
        };
        match &*member.name {
            "type" => def.kind = size(number()?)?,
            "max_entries" => def.max_entries = size(number()?)?,
            "map_flags" => def.flags = size(number()?)?,
            "map_extra" => def.extra = number()?,
            "key_size" => def.key_size = size(number()?)?,
            "value_size" => def.value_size = size(number()?)?,
            "key" => def.key_size = btf.size_of(pointee()?).ok_or("the key type has no size")?,
            "value" => {
                let ty = pointee()?;
                def.value_size = btf.size_of(ty).ok_or("the value type has no size")?;
                def.value_type = Some(ty);
                def.fields = special_fields(btf, ty)?;
            }
            // These attributes have no effect in the simulation.
            "numa_node" | "pinning" => (),
            "values" => {
                let Some(values_offset) = values_offset.as_deref_mut() else {
                    return Err("an inner map cannot contain maps".into());
                };
                *values_offset = Some(member.bit_offset / 8);
                let TypeKind::Array { ty, .. } = *btf.kind(btf.resolve(member.ty)) else {
                    return Err("values is not an array".into());
                };
                let TypeKind::Ptr(to) = *btf.kind(btf.resolve(ty)) else {
                    return Err("values is not an array of pointers".into());
                };
                def.key_size = 4;
                def.value_size = 4;
                if let Some(inner) = btf.composite(to) {
                    let name = format!("{name}.inner");
                    def.inner = Some(Box::new(definition(btf, &name, inner, None)?));
                }
            }
            other => return Err(Error::new(format!("unknown attribute {other}"))),
        }
    }
    if def.kind == 0 {
        return Err("the map has no type".into());
    }
    if def.kind == BPF_MAP_TYPE_ARENA {
        (def.key_size, def.value_size) = (0, 0);
    }
    Ok(def)
}

fn number(btf: &Btf, id: u32) -> Option<u64> {
    match btf.kind(btf.resolve(id)) {
        TypeKind::Enum { values, .. } => Some(values.first()?.1.cast_unsigned()),
        TypeKind::Ptr(to) => match btf.kind(btf.resolve(*to)) {
            TypeKind::Array { len, .. } => Some(u64::from(*len)),
            _ => None,
        },
        _ => None,
    }
}
