// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of the kernel and of the loaded object that the simulated machine supplies to the
//! sanitizer (the run-time checks of `--sanitize`).

use crate::image::Field;
use crate::link::DataSection;
use crate::memory::ObjectType;
use crate::object::Program;

/// The sanitizer's information about the kernel and the loaded object, from the simulated machine.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Types of the kernel objects.
    pub objects: Vec<&'static ObjectType>,
    /// Programs of the object. Each entry also says whether the program may sleep.
    pub programs: Vec<Program>,
    pub sections: Vec<Globals>,
    /// Structs that the kfuncs of the simulated machine expect in the memory of the program, for
    /// example iterators: name and size in bytes.
    pub structs: Vec<(&'static str, u64)>,
}

/// Structs that kfuncs of this crate expect in the memory of the program: name and size in bytes.
/// The size of bpf_cpumask is its size in a kernel for 8192 CPUs.
const STRUCTS: [(&str, u64); 3] = [("bpf_iter_num", 8), ("bpf_iter_bits", 16), ("bpf_cpumask", 1032)];

impl Rules {
    pub(super) fn struct_size(&self, tag: &str) -> Option<u64> {
        let mut known = self.structs.iter().chain(&STRUCTS);
        known.find(|(name, _)| *name == tag).map(|&(_, size)| size)
    }

    /// Returns whether `tag` names the type of a kernel object or of a part of one. Functions accept
    /// some parts in place of the object, for example `p->cpus_mask`.
    pub(super) fn is_object(&self, tag: &str) -> bool {
        let is = |ty: &&ObjectType| ty.name == tag || ty.parts.iter().any(|&(_, part)| part == tag);
        self.objects.iter().any(is)
    }
}

/// A section of globals, which the kernel treats as one map value.
#[derive(Clone, Debug)]
pub struct Globals {
    /// ELF name.
    pub name: String,
    pub addr: u64,
    /// Size in bytes.
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

/// Number of accesses and calls that the sanitizer has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    pub accesses: u64,
    pub calls: u64,
}
