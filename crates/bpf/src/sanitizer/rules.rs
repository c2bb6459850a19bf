// SPDX-License-Identifier: GPL-2.0-only
//! What the world tells the sanitizer: kernel objects, and how kernel functions treat what they are given.

use crate::image::Field;
use crate::link::DataSection;
use crate::object::Program;

/// Facts about the kernel that the world tells the sanitizer.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Kinds of kernel objects.
    pub objects: Vec<KernelObject>,
    /// The object's programs: which may sleep.
    pub programs: Vec<Program>,
    /// Sections of globals.
    pub sections: Vec<Globals>,
    /// Bytes of the structs that kfuncs of the world are handed in the program's memory, iterators among them.
    pub structs: Vec<(&'static str, u64)>,
}

/// Structs that kfuncs of this crate are handed. A mask is that of a kernel for 8192 CPUs.
const STRUCTS: [(&str, u64); 3] = [("bpf_iter_num", 8), ("bpf_iter_bits", 16), ("bpf_cpumask", 1032)];

impl Rules {
    pub(super) fn size_of(&self, tag: &str) -> Option<u64> {
        let mut known = self.structs.iter().chain(&STRUCTS);
        known.find(|(name, _)| *name == tag).map(|&(_, size)| size)
    }

    /// Returns whether this is the type of a kernel object, or of a part that functions take as an object of its own.
    pub(super) fn is_object(&self, tag: &str) -> bool {
        let is = |object: &KernelObject| object.name == tag || object.parts.iter().any(|&(_, part)| part == tag);
        self.objects.iter().any(is)
    }
}

/// A section of globals: to the kernel it is one value.
#[derive(Clone, Debug)]
pub struct Globals {
    /// ELF name.
    pub name: String,
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    pub writable: bool,
    /// Special fields by ascending offset.
    pub fields: Vec<Field>,
}

impl From<&DataSection> for Globals {
    fn from(section: &DataSection) -> Globals {
        Globals {
            name: section.name.clone(),
            addr: section.addr,
            size: section.size,
            writable: section.live,
            fields: section.fields.clone(),
        }
    }
}

/// Kernel objects in a slab of the region.
#[derive(Clone, Debug)]
pub struct KernelObject {
    /// `struct` name.
    pub name: &'static str,
    /// Address of any of them.
    pub at: u64,
    /// Bytes of one.
    pub size: u64,
    /// Fields that a program may store to: offset and size.
    pub writable: Vec<(u64, u64)>,
    /// Parts that functions take as objects of their own: offset and `struct` name.
    pub parts: Vec<(u64, &'static str)>,
}

/// Number of accesses and calls that the sanitizer has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub accesses: u64,
    pub calls: u64,
}
