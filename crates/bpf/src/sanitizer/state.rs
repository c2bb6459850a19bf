// SPDX-License-Identifier: GPL-2.0-only
//! The state of the sanitizer (the run-time checks of `--sanitize`) for one program.

use super::callee::Names;
use super::flow::RegisterChecks;
use super::held::Held;
use super::objects::Objects;
use super::rules::CheckCounts;
use crate::memory::Region;
use crate::object::ProgramKind;

/// The state of the sanitizer for one program.
pub(crate) struct Sanitizer {
    pub(super) objects: Objects,
    pub(super) held: Held,
    pub(super) names: Names,
    /// For each function that is a program: the kind of the program, and whether it may sleep.
    /// `None` for all other functions.
    pub(super) kinds: Vec<Option<(ProgramKind, bool)>>,
    /// For each instruction, the checks of registers that precede it.
    pub(super) register_checks: Vec<RegisterChecks>,
    pub counts: CheckCounts,
}

impl Sanitizer {
    /// Returns the address of the shadow of the stack. For each word of the stack, it has two
    /// words: the provenance and the value of the pointer that was spilled there.
    pub fn shadow(&self) -> u64 {
        self.objects.shadow.as_ptr() as u64
    }

    /// Returns, for each instruction, the checks of registers that precede it.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn register_checks(&self) -> &[RegisterChecks] {
        &self.register_checks
    }

    /// Returns the provenance (the object pointed to) of a constant in the code.
    pub fn constant(&self, region: &Region, value: u64) -> u64 {
        self.objects.classify(region, value).0
    }
}
