// SPDX-License-Identifier: GPL-2.0-only
//! The data that helpers keep for one program. It lies outside of program memory, so no policy can
//! corrupt it.

use crate::lookup::{LookupMap, LookupSet};
use std::collections::VecDeque;

/// The data that helpers keep for one program.
#[derive(Default)]
pub(crate) struct State {
    /// Timers and work items, by address.
    pub(crate) timers: LookupMap<u64, Timer>,
    /// Address of the timer or work item whose callback is running.
    pub(crate) running_timer: Option<u64>,
    /// For each object made by `bpf_obj_new`, the id of its type in the object file's BTF.
    pub(super) objects: LookupMap<u64, u32>,
    /// For each object made by `bpf_percpu_obj_new`, the distance in bytes between the copies of
    /// two CPUs.
    pub(crate) percpu: LookupMap<u64, u64>,
    /// Number of references to each mask made by `bpf_cpumask_create`.
    pub(super) cpumasks: LookupMap<u64, u32>,
    /// Addresses at which `bpf_iter_bits_new` has stored copies of the bits of iterators.
    pub(super) bits: LookupSet<u64>,
    /// For each tree, by the address of its root, the addresses of its nodes in the tree's order.
    pub(super) trees: LookupMap<u64, Vec<u64>>,
    /// For each list, by the address of its head, the addresses of its nodes in the list's order.
    pub(super) lists: LookupMap<u64, VecDeque<u64>>,
    /// For each node, by its address, the root of the tree or head of the list that contains it.
    pub(super) root_by_node: LookupMap<u64, u64>,
    /// Output of the running iterator program.
    pub(super) seq: Vec<u8>,
}

impl State {
    /// Returns the number of entries that count towards the run's memory limit as
    /// [`Use::Records`](crate::memory::Use).
    pub(crate) fn records(&self) -> usize {
        self.objects.len() + self.percpu.len() + self.cpumasks.len() + self.bits.len() + self.root_by_node.len()
    }
}

/// A timer or work item that was initialised.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    /// Address of the map that contains the timer.
    pub(super) map: u64,
    /// Address of the callback, 0 if none is set.
    pub(super) callback: u64,
    /// Whether this is a work item (bpf_wq) instead of a timer.
    pub(super) work: bool,
}
