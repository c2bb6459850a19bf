// SPDX-License-Identifier: GPL-2.0-only
//! Fitting an object to a kernel: memory for its globals, constants and calls in its code, its callbacks by name.
//!
//! What the kernel does not have stops nothing here: references to it become traps in the code and are told as warnings.
//! Errors are for objects that no kernel would take.

mod code;
mod data;
mod externs;
mod struct_ops;
mod target;

use crate::btf::Btf;
use crate::image::{Code, Field, LocalTypes, MapDef};
use crate::memory::Region;
use crate::object::error::Error;
use crate::object::{Object, Program, ProgramKind, Variable};

pub use data::VariablePlace;
pub use externs::MissingSymbol;
pub use struct_ops::StructOps;
pub use target::Target;

/// An object fitted to a kernel and placed in a region.
#[derive(Clone, Debug)]
pub struct Image {
    /// The object's file name.
    pub file: String,
    /// Its license.
    pub license: String,
    /// All code that can be reached.
    pub code: Code,
    /// The maps to create, in the object's order.
    pub maps: Vec<MapDef>,
    /// Callback structs.
    pub struct_ops: Vec<StructOps>,
    /// Programs, callbacks included, in the object's order.
    pub programs: Vec<Program>,
    /// Sections of globals.
    pub sections: Vec<DataSection>,
    /// What the object asks for and the target does not have.
    pub warnings: Vec<String>,
    /// Functions and variables among that, not declared weak.
    pub missing: Vec<MissingSymbol>,
    /// The object's types.
    pub btf: Btf,
    /// Types which its code allocates, by id.
    pub types: LocalTypes,
    variables: Vec<Variable>,
}

/// A section of globals in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSection {
    /// ELF name.
    pub name: String,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// May its variables change while programs run?
    pub live: bool,
    /// Special fields by ascending offset: locks, lists, trees.
    pub fields: Vec<Field>,
    /// Arrays with a declaration tag.
    pub tagged: Vec<TaggedArray>,
    pub(crate) index: usize,
}

/// A global array that its object has marked by a declaration tag; it may be static.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedArray {
    /// C name.
    pub name: String,
    /// The tag's text; of several the first.
    pub tag: String,
    /// First byte.
    pub addr: u64,
    /// Bytes of an element, and how many there are.
    pub stride: u64,
    pub count: u64,
}

/// Links an object. Its globals are placed in the region with the values they have in the object now; `nr_cpus` is what
/// per-CPU sizes left open by the object follow.
pub fn link(object: &Object, target: &Target, region: &Region, nr_cpus: u32) -> Result<Image, Error> {
    link_object(object, target, region, nr_cpus).map_err(|error| error.in_file(&object.file))
}

fn link_object(object: &Object, target: &Target, region: &Region, nr_cpus: u32) -> Result<Image, Error> {
    let mut maps = data::place_maps(object, region, nr_cpus)?;
    let sections = data::place_sections(object, region, &mut maps)?;
    let mut linker = code::Linker::new(object, target, region, &maps, &sections)?;
    let programs = linker.programs();
    let struct_ops = struct_ops::link(object, target, &mut linker)?;
    let values = data::map_values(object, &mut linker)?;
    let code::Linked {
        mut code,
        types,
        warnings,
        missing,
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
        btf: object.btf.clone(),
        types,
        variables: object.variables.clone(),
    })
}
