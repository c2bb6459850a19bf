// SPDX-License-Identifier: GPL-2.0-only
//! The state of the sanitizer (the run-time checks of `--check`) for one program.
//!
//! A provenance identifies the object to which a pointer originally pointed. The shadow is a table
//! with an entry for each word of the BPF stack. The entry of a spilled pointer contains its
//! provenance.

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
    /// Kind of each function that is a program, and whether it may sleep. `None` for other
    /// functions.
    pub(super) kinds: Vec<Option<(ProgramKind, bool)>>,
    /// Checks to make before each instruction.
    pub(super) register_checks: Vec<RegisterChecks>,
    pub counts: CheckCounts,
}

impl Sanitizer {
    /// Returns the address of the stack's shadow, which records the spilled pointers: two words
    /// (provenance, value) for each word of the stack.
    pub fn shadow(&self) -> u64 {
        self.objects.shadow.as_ptr() as u64
    }

    /// Returns the checks to make before each instruction.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn register_checks(&self) -> &[RegisterChecks] {
        &self.register_checks
    }

    /// Returns the provenance (the object pointed to) of a constant in the code.
    pub fn constant(&self, region: &Region, value: u64) -> u64 {
        self.objects.classify(region, value).0
    }
}
