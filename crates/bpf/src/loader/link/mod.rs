// SPDX-License-Identifier: GPL-2.0-only
//! The linker, which adapts an object to a kernel. It allocates globals, fills in constants and
//! calls, and finds the implementation of each struct_ops callback.
//!
//! A feature that the kernel lacks is not an error here. The linker emits a warning, and replaces
//! each reference to the feature by a trap: an instruction that faults when it is executed. Only
//! objects that every kernel would reject cause errors.

mod code;
mod data;
mod externs;
mod struct_ops;
mod target;

use crate::btf::Btf;
use crate::error::Error;
use crate::image::{Code, Field, LocalTypes, MapDef};
use crate::memory::Region;
use crate::object::{Object, Program, ProgramKind, Variable};
use std::collections::BTreeSet;

pub use data::VariableLocation;
pub use externs::MissingSymbol;
pub use struct_ops::StructOps;
pub use target::Target;

/// An object after linking: its code and data refer to addresses in one region.
#[derive(Clone, Debug)]
pub struct Image {
    /// File name of the object.
    pub file: String,
    /// License of the object.
    pub license: String,
    /// All reachable code.
    pub code: Code,
    /// Definitions of the maps to create, in the object's order.
    pub maps: Vec<MapDef>,
    /// struct_ops variables.
    pub struct_ops: Vec<StructOps>,
    /// Programs in the object's order, including callbacks.
    pub programs: Vec<Program>,
    /// Sections of globals.
    pub sections: Vec<DataSection>,
    /// Warnings about features that the object uses and the target lacks.
    pub warnings: Vec<String>,
    /// Symbols that the target lacks and that are not declared weak.
    pub missing: Vec<MissingSymbol>,
    /// Fields of the target's types that the code accesses, for example `struct task_struct.pid`.
    pub accessed: BTreeSet<String>,
    /// The object's types.
    pub btf: Btf,
    /// Types of the objects that the code allocates, by id.
    pub types: LocalTypes,
    variables: Vec<Variable>,
    statics: Vec<Variable>,
}

/// A section of globals in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSection {
    /// ELF name.
    pub name: String,
    /// Address of the first byte.
    pub addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the section's variables may change while programs run.
    pub live: bool,
    /// Special fields by ascending offset: locks, lists, trees.
    pub fields: Vec<Field>,
    /// Arrays with a declaration tag (an annotation in the source).
    pub tagged: Vec<TaggedArray>,
    pub(crate) index: usize,
}

/// An array with a declaration tag. It is a global variable and may be static.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedArray {
    /// C name.
    pub name: String,
    /// Text of the array's first tag.
    pub tag: String,
    /// Address of the first byte.
    pub addr: u64,
    /// Size of an element in bytes.
    pub stride: u64,
    /// Number of elements.
    pub count: u64,
}

/// Links an object. Allocates its globals in the region and copies their values from the object.
/// (The caller may have changed these values after the object was parsed.) `nr_cpus` determines the
/// size of per-CPU maps if the object does not set it.
pub fn link(object: &Object, target: &Target, region: &Region, nr_cpus: u32) -> Result<Image, Error> {
    link_object(object, target, region, nr_cpus).map_err(|error| error.in_file(&object.file))
}

fn link_object(object: &Object, target: &Target, region: &Region, nr_cpus: u32) -> Result<Image, Error> {
    let mut maps = data::allocate_maps(object, region, nr_cpus)?;
    let sections = data::allocate_sections(object, region, &mut maps)?;
    let mut linker = code::Linker::new(object, target, region, &maps, &sections)?;
    let programs = linker.programs();
    let struct_ops = struct_ops::link(object, target, &mut linker)?;
    let values = data::map_values(object, &mut linker)?;
    let code::Linked {
        mut code,
        types,
        warnings,
        missing,
        accessed,
    } = linker.finish()?;
    let callbacks = programs.iter().filter(|program| program.kind == ProgramKind::StructOps);
    code.mark_callbacks(callbacks.map(|program| program.function));
    for (map, values) in maps.iter_mut().zip(values) {
        for &(_, function) in values.iter().filter(|_| map.kind == data::BPF_MAP_TYPE_PROG_ARRAY) {
            code.functions[function].is_callback = false;
        }
        map.values = values;
    }
    Ok(Image {
        file: object.file.clone(),
        license: object.license.clone(),
        code,
        maps,
        struct_ops,
        programs,
        sections,
        warnings,
        missing,
        accessed,
        btf: object.btf.clone(),
        types,
        variables: object.variables.clone(),
        statics: object.statics.clone(),
    })
}
