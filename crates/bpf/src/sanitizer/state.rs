// SPDX-License-Identifier: GPL-2.0-only
//! State of the sanitizer for one program.

use super::callee::Names;
use super::flow::RegisterChecks;
use super::held::Held;
use super::objects::Objects;
use super::rules::CheckCounts;
use crate::memory::Region;
use crate::object::ProgramKind;

/// State of the sanitizer for one program.
pub(crate) struct Sanitizer {
    pub(super) objects: Objects,
    pub(super) held: Held,
    pub(super) names: Names,
    /// For each function that is a program: its kind, and whether it may sleep.
    pub(super) kinds: Vec<Option<(ProgramKind, bool)>>,
    /// For each instruction, the checks to make before it.
    pub(super) register_checks: Vec<RegisterChecks>,
    pub counts: CheckCounts,
}

impl Sanitizer {
    /// Returns the address of the stack's shadow: two words (provenance, value) for each word of
    /// the stack.
    pub fn shadow(&self) -> u64 {
        self.objects.shadow.as_ptr() as u64
    }

    /// Returns the checks to make before an instruction.
    pub fn register_checks_before(&self, pc: usize) -> RegisterChecks {
        self.register_checks[pc]
    }

    /// Returns the provenance of a constant in the code.
    pub fn constant(&self, region: &Region, value: u64) -> u64 {
        self.objects.classify(region, value).0
    }
}
