// SPDX-License-Identifier: GPL-2.0-only
//! What the sanitizer knows of one program.

use super::callee::Names;
use super::flow::Look;
use super::held::Held;
use super::objects::Objects;
use super::rules::Checked;
use crate::memory::Region;
use crate::object::ProgramKind;

/// The sanitizer's state for one program.
pub(crate) struct Sanitizer {
    pub(super) objects: Objects,
    pub(super) held: Held,
    pub(super) names: Names,
    /// By function: is it a program of its own, and may it sleep?
    pub(super) kinds: Vec<Option<(ProgramKind, bool)>>,
    /// By instruction: what to look at before it.
    pub(super) looks: Vec<Look>,
    pub checked: Checked,
}

impl Sanitizer {
    /// Returns the address of the stack's shadow: two words (provenance, value) for each word of the stack.
    pub fn shadow(&self) -> u64 {
        self.objects.shadow.as_ptr() as u64
    }

    /// Returns what to look at before an instruction.
    pub fn look(&self, pc: usize) -> Look {
        self.looks[pc]
    }

    /// Returns the provenance of a constant in the code.
    pub fn constant(&self, region: &Region, value: u64) -> u64 {
        self.objects.classify(region, value).0
    }
}
