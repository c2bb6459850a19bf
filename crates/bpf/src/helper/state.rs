// SPDX-License-Identifier: GPL-2.0-only
//! What helpers remember of one program, outside the region, so that no policy can spoil it.

use std::collections::{HashMap, HashSet, VecDeque};

/// What helpers remember of one program. The hash maps are never iterated.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) timers: HashMap<u64, Timer>,
    /// The timer or work whose callback is running.
    pub(super) running_timer: Option<u64>,
    /// Objects of `bpf_obj_new`: their local type.
    pub(super) objects: HashMap<u64, u32>,
    /// Objects of `bpf_percpu_obj_new`: bytes from one CPU's to the next one's.
    pub(crate) percpu: HashMap<u64, u64>,
    /// Masks of `bpf_cpumask_create`: their references.
    pub(super) cpumasks: HashMap<u64, u32>,
    /// Copies of bits that iterators walk.
    pub(super) bits: HashSet<u64>,
    /// The nodes of each tree in order.
    pub(super) trees: HashMap<u64, Vec<u64>>,
    pub(super) lists: HashMap<u64, VecDeque<u64>>,
    /// Which root each node is in.
    pub(super) member_of: HashMap<u64, u64>,
    /// By CPU: the CPU `bpf_cpumask_any_distribute` gave last.
    pub(super) distributed: Vec<u32>,
    /// What the running iterator program has written.
    pub(super) seq: Vec<u8>,
}

impl State {
    /// Number of things that are kept here and count as [`Use::Records`](crate::memory::Use).
    pub(crate) fn records(&self) -> usize {
        self.objects.len() + self.percpu.len() + self.cpumasks.len() + self.bits.len() + self.member_of.len()
    }
}

/// A timer that was initialised.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub(super) map: u64,
    pub(super) callback: u64,
    /// It is a wq.
    pub(super) work: bool,
}
