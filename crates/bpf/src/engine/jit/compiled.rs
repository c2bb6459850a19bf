// SPDX-License-Identifier: GPL-2.0-only
//! The machine code of a program, in two forms. A [`Template`] does not depend on any address of
//! the host: in place of addresses, it refers to [symbols](super::symbol), whose values are known
//! when the code is loaded. [`Compiled`] is a copy of a template that can be executed; `load` makes
//! it.

use std::sync::Arc;

use super::pages::Pages;
use super::symbol::Symbol;

/// A position in the code into which the value of a symbol is written as 8 little-endian bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    /// Offset in the code in bytes.
    pub offset: u32,
    pub symbol: Symbol,
    /// Number that is added to the value of the symbol.
    pub addend: i64,
}

/// Machine code of a program in which the values of symbols are missing. Programs with equal
/// [keys](super::inputs::Key) share it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    /// Code of all functions. Calls between them use relative addresses, which are already filled
    /// in.
    pub(super) code: Vec<u8>,
    /// Offset of each function in the code.
    pub(super) starts: Vec<u32>,
    /// Size of the largest machine frame in bytes.
    pub(super) frame: u64,
    /// Ranges of machine code in ascending order: for each, the offset at which it begins, and the
    /// BPF instruction to which it belongs. `None` marks code that the compiler added.
    pub(super) locations: Vec<(u32, Option<u32>)>,
    pub(super) relocations: Vec<Relocation>,
}

impl Template {
    /// Returns approximately how many bytes of memory the template uses.
    pub fn size(&self) -> usize {
        let locations = self.locations.len() * size_of::<(u32, Option<u32>)>();
        let relocations = self.relocations.len() * size_of::<Relocation>();
        size_of::<Template>() + self.code.len() + self.starts.len() * 4 + locations + relocations
    }
}

/// The executable machine code of a program. Dropping it frees the code.
pub(crate) struct Compiled {
    /// Address range of the code.
    pub range: std::ops::Range<u64>,
    pub(super) template: Arc<Template>,
    pub(super) _pages: Pages,
}

impl Compiled {
    /// Returns the size of the largest machine frame in bytes.
    pub fn frame(&self) -> u64 {
        self.template.frame
    }

    /// Returns the BPF instruction to which the machine instruction at `ip` belongs, if any.
    pub fn pc(&self, ip: u64) -> Option<usize> {
        let offset = u32::try_from(ip.checked_sub(self.range.start)?).ok()?;
        let locations = &self.template.locations;
        let after = locations.partition_point(|&(start, _)| start <= offset);
        let (_, pc) = locations[..after].last()?;
        pc.map(|pc| pc as usize)
    }
}
