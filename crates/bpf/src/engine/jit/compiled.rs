// SPDX-License-Identifier: GPL-2.0-only
//! The machine code of a program, in two forms. A [`Template`] does not depend on any address of
//! the host: in place of addresses, it refers to [symbols](super::symbol), whose values are known
//! when the code is loaded. [`Compiled`] is a copy of a template that can be executed.

use std::sync::Arc;

use super::Error;
use super::pages::Pages;
use super::symbol::Symbol;
use crate::engine::context::{Context, Entry};

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

    /// Copies the code to executable memory and writes the values that its symbols have for a
    /// program into the copy. Returns the copy and the entry point of each function.
    ///
    /// # Errors
    /// The host has no memory or allows no executable memory, or the program has no value for a
    /// symbol.
    pub fn load(self: &Arc<Template>, cx: &Context) -> Result<(Compiled, Vec<Entry>), Error> {
        let mut values = Vec::with_capacity(self.relocations.len());
        for relocation in &self.relocations {
            let value = relocation.symbol.value(cx);
            let value =
                value.ok_or_else(|| Error::Failed(format!("the JIT compiler failed: no {:?}", relocation.symbol)))?;
            values.push(value.wrapping_add_signed(relocation.addend));
        }
        let pages = Pages::with_code(&self.code, |code| {
            for (relocation, value) in self.relocations.iter().zip(values) {
                let at = relocation.offset as usize;
                code[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        })?;
        let start = pages.start();
        // SAFETY: the code was compiled with this signature. Only the trampolines call entry
        // points, and the trampolines save the registers that compiled code does not preserve.
        let entry = |&offset: &u32| unsafe { std::mem::transmute::<u64, Entry>(start + u64::from(offset)) };
        let entries = self.starts.iter().map(entry).collect();
        let compiled = Compiled {
            range: start..start + self.code.len() as u64,
            template: self.clone(),
            _pages: pages,
        };
        Ok((compiled, entries))
    }
}

/// The executable machine code of a program. Dropping it frees the code.
pub(crate) struct Compiled {
    /// Address range of the code.
    pub range: std::ops::Range<u64>,
    template: Arc<Template>,
    _pages: Pages,
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
