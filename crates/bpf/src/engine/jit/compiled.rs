// SPDX-License-Identifier: GPL-2.0-only
//! The machine code of a program, and the map from its addresses to BPF instructions.

use cranelift_jit::JITModule;

/// The machine code of a program. Dropping it frees the code.
pub(crate) struct Compiled {
    /// Address range of the code.
    pub range: std::ops::Range<u64>,
    /// Size of the largest machine frame in bytes.
    pub frame: u64,
    /// Start address of each range of machine code, ascending, with its BPF instruction. `None`
    /// marks code that the compiler added.
    pub(super) locations: Vec<(u64, Option<u32>)>,
    pub(super) module: Option<JITModule>,
}

impl Compiled {
    /// Returns the BPF instruction to which the machine instruction at `ip` belongs, if any.
    pub fn pc(&self, ip: u64) -> Option<usize> {
        let after = self.locations.partition_point(|&(start, _)| start <= ip);
        let (_, pc) = self.locations[..after].last()?;
        pc.map(|pc| pc as usize)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: a VM drops its code only while no call is in progress.
            unsafe { module.free_memory() };
        }
    }
}
