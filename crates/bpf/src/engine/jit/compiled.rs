// SPDX-License-Identifier: GPL-2.0-only
//! The machine code of a program.

use cranelift_jit::JITModule;

/// The machine code of a program. Dropping it frees the code.
pub(crate) struct Compiled {
    /// Where the code lies.
    pub range: std::ops::Range<u64>,
    /// Bytes of the largest machine frame.
    pub frame: u64,
    /// From which address on which BPF instruction, ascending. None where the compiler made an instruction of its own.
    pub(super) places: Vec<(u64, Option<u32>)>,
    pub(super) module: Option<JITModule>,
}

impl Compiled {
    /// The BPF instruction of a machine instruction, if it is that of one.
    pub fn pc(&self, ip: u64) -> Option<usize> {
        let after = self.places.partition_point(|&(start, _)| start <= ip);
        let (_, pc) = self.places[..after].last()?;
        pc.map(|pc| pc as usize)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: a VM drops its code only when no call is under way.
            unsafe { module.free_memory() };
        }
    }
}
