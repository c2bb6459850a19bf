// SPDX-License-Identifier: GPL-2.0-only
//! The helpers and kfuncs that need no scheduling: maps, memory, strings, time, locks, timers, allocated objects, iterators,
//! cpumasks. What they keep of a program is in [`State`], outside the region, so that no policy can spoil it.
//!
//! What is left out, and why: docs/surface.md.
//!
//! Memory that a program points to is accessed through the region's checked functions alone: there is no unsafe code here.
#![forbid(unsafe_code)]

mod collection;
pub mod cpumask;
mod dynptr;
mod iter;
mod lock;
mod maps;
mod object;
pub mod print;
mod read;
mod seq;
mod string;
mod task;
mod timer;

use std::collections::{HashMap, HashSet};

use crate::func::{Func, World};
pub(crate) use object::drop_fields;

/// What helpers remember of one program. The hash maps are never iterated.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) timers: HashMap<u64, timer::Timer>,
    /// The timer or work whose callback is running.
    running_timer: Option<u64>,
    /// Objects of `bpf_obj_new`: their local type.
    objects: HashMap<u64, u32>,
    /// Objects of `bpf_percpu_obj_new`: bytes from one CPU's to the next one's.
    pub(crate) percpu: HashMap<u64, u64>,
    /// Masks of `bpf_cpumask_create`: their references.
    cpumasks: HashMap<u64, u32>,
    /// Copies of bits that iterators walk.
    bits: HashSet<u64>,
    trees: HashMap<u64, collection::Tree>,
    lists: HashMap<u64, std::collections::VecDeque<u64>>,
    /// Which root each node is in.
    member_of: HashMap<u64, u64>,
    /// By CPU: the CPU `bpf_cpumask_any_distribute` gave last.
    distributed: Vec<u32>,
    /// What the running iterator program has written.
    seq: Vec<u8>,
}

impl State {
    /// Number of things that are kept here and count as [`Use::Records`](crate::region::Use).
    pub(crate) fn records(&self) -> usize {
        self.objects.len() + self.percpu.len() + self.cpumasks.len() + self.bits.len() + self.member_of.len()
    }
}

/// All helpers and kfuncs of this crate.
pub fn table<W: World>() -> Vec<Func<W>> {
    let parts = [
        maps::table(),
        read::table(),
        string::table(),
        seq::table(),
        print::table(),
        task::table(),
        lock::table(),
        timer::table(),
        dynptr::table(),
        object::table(),
        collection::table(),
        iter::table(),
        cpumask::table(),
    ];
    parts.into_iter().flatten().collect()
}

/// Name of a helper for messages: `bpf_` and the name, or its number if it is not one a scheduler might use.
pub(crate) fn name(number: u32) -> String {
    let name = match number {
        12 => "tail_call",
        22 => "perf_event_read",
        27 => "get_stackid",
        36 => "probe_write_user",
        37 => "current_task_under_cgroup",
        42 => "get_numa_node_id",
        67 => "get_stack",
        80 => "get_current_cgroup_id",
        109 => "send_signal",
        120 => "get_ns_current_pid_tgid",
        123 => "get_current_ancestor_cgroup_id",
        141 => "get_task_stack",
        148 => "copy_from_user",
        149 => "snprintf_btf",
        166 => "sys_bpf",
        173 => "get_func_ip",
        174 => "get_attach_cookie",
        175 => "task_pt_regs",
        183 => "get_func_arg",
        184 => "get_func_ret",
        185 => "get_func_arg_cnt",
        191 => "copy_from_user_task",
        _ => return format!("number {number}"),
    };
    format!("bpf_{name}")
}
