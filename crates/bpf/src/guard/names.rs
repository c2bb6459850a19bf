// SPDX-License-Identifier: GPL-2.0-only
//! What calling a helper or kfunc means to checked mode: what it takes and gives, and where it may be called.

use super::Rules;
use crate::helper;
use crate::image::{CALL_KFUNC, Insn};
use crate::vm::Context;

/// What a call does to what the program holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    None,
    /// Returns an element's value of the map in r1, or NULL.
    Lookup,
    ObjNew,
    /// An object for each CPU.
    PercpuNew,
    CpumaskCreate,
    /// bpf_ringbuf_reserve: a record of r2 bytes.
    Reserve,
    /// Returns a reference, or NULL.
    Acquire,
    /// Takes the reference in r1 back.
    Release,
    /// bpf_kptr_xchg: takes the reference in r2, returns another one or NULL.
    Exchange,
    /// Takes the reference in r2 into a list or tree; the program may look at it until it unlocks.
    GraphAdd,
    /// Takes an object out of a list or tree, as a reference.
    GraphTake,
    /// Shows an object of a list or tree until it is unlocked.
    GraphPeek,
    Lock,
    Unlock,
    RcuLock,
    RcuUnlock,
    PreemptDisable,
    PreemptEnable,
    IrqSave,
    IrqRestore,
    /// Makes an iterator at r1.
    IterNew,
    IterDestroy,
    /// Makes a dynptr at r4 that must be submitted or discarded.
    DynptrReserve,
    DynptrSubmit,
    /// Returns a pointer to as many bytes as this argument says.
    Slice(usize),
    /// Returns its argument as a pointer that may be read.
    Cast,
}

/// How much memory an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Len {
    Bytes(u64),
    Key,
    Value,
    /// What another argument says.
    Arg(usize),
}

/// An argument that points to memory: which one, how much, whether it is written.
pub(super) type Memory = (usize, Len, bool);

#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub name: String,
    pub effect: Effect,
    pub sleepable: bool,
    pub rcu: bool,
    /// May be called with a lock held.
    pub locked: bool,
    /// Calls back into the program.
    pub calls_back: bool,
    pub args: usize,
    pub memory: &'static [Memory],
}

pub(super) struct Names {
    helpers: Vec<Option<Callee>>,
    kfuncs: Vec<Callee>,
}

impl Names {
    pub fn new(cx: &Context, rules: &Rules) -> Names {
        let helper = |(number, target): (usize, &Option<crate::vm::Target>)| {
            let target = target.as_ref()?;
            let number = number as u32;
            Some(Callee {
                name: helper_name(number),
                effect: helper_effect(number),
                sleepable: false,
                rcu: false,
                locked: matches!(number, 93 | 94 | 194),
                calls_back: matches!(number, 164 | 181 | 209),
                args: usize::from(target.args),
                memory: helper_memory(number),
            })
        };
        let kfunc = |(name, target): (&String, &Option<crate::vm::Target>)| Callee {
            name: name.clone(),
            effect: kfunc_effect(name, rules),
            sleepable: rules.sleepable.contains(&name.as_str()),
            rcu: rules.rcu.contains(&name.as_str()),
            locked: kfunc_may_be_locked(name),
            calls_back: name.starts_with("bpf_rbtree_add"),
            args: target.as_ref().map_or(0, |target| usize::from(target.args)),
            memory: &[],
        };
        Names {
            helpers: cx.helpers.iter().enumerate().map(helper).collect(),
            kfuncs: cx.code.kfuncs.iter().zip(&cx.kfuncs).map(kfunc).collect(),
        }
    }

    /// What a call instruction calls; `None` if nobody provides it, which the call itself will tell.
    pub fn of(&self, insn: &Insn) -> Option<&Callee> {
        match insn.src {
            CALL_KFUNC => self.kfuncs.get(insn.imm as usize),
            _ => self.helpers.get(insn.imm as usize)?.as_ref(),
        }
    }
}

fn helper_name(number: u32) -> String {
    let name = match number {
        1 => "map_lookup_elem",
        2 => "map_update_elem",
        3 => "map_delete_elem",
        4 => "probe_read",
        6 => "trace_printk",
        16 => "get_current_comm",
        45 => "probe_read_str",
        87 => "map_push_elem",
        88 => "map_pop_elem",
        89 => "map_peek_elem",
        93 => "spin_lock",
        94 => "spin_unlock",
        112 => "probe_read_user",
        113 => "probe_read_kernel",
        114 => "probe_read_user_str",
        115 => "probe_read_kernel_str",
        130 => "ringbuf_output",
        131 => "ringbuf_reserve",
        132 => "ringbuf_submit",
        133 => "ringbuf_discard",
        156 => "task_storage_get",
        157 => "task_storage_delete",
        164 => "for_each_map_elem",
        165 => "snprintf",
        169 => "timer_init",
        170 => "timer_set_callback",
        171 => "timer_start",
        172 => "timer_cancel",
        181 => "loop",
        194 => "kptr_xchg",
        195 => "map_lookup_percpu_elem",
        198 => "ringbuf_reserve_dynptr",
        199 => "ringbuf_submit_dynptr",
        200 => "ringbuf_discard_dynptr",
        201 => "dynptr_read",
        202 => "dynptr_write",
        203 => "dynptr_data",
        209 => "user_ringbuf_drain",
        210 => "cgrp_storage_get",
        211 => "cgrp_storage_delete",
        _ => return helper::name(number),
    };
    format!("bpf_{name}")
}

fn helper_effect(number: u32) -> Effect {
    match number {
        1 | 195 | 156 | 210 => Effect::Lookup,
        93 => Effect::Lock,
        94 => Effect::Unlock,
        131 => Effect::Reserve,
        132 | 133 => Effect::Release,
        194 => Effect::Exchange,
        198 => Effect::DynptrReserve,
        199 | 200 => Effect::DynptrSubmit,
        203 => Effect::Slice(3),
        _ => Effect::None,
    }
}

fn helper_memory(number: u32) -> &'static [Memory] {
    match number {
        1 | 3 | 195 => &[(2, Len::Key, false)],
        2 => &[(2, Len::Key, false), (3, Len::Value, false)],
        4 | 16 | 45 | 112..=115 | 201 => &[(1, Len::Arg(2), true)],
        6 => &[(1, Len::Arg(2), false)],
        87 => &[(2, Len::Value, false)],
        88 | 89 => &[(2, Len::Value, true)],
        93 | 94 => &[(1, Len::Bytes(4), false)],
        130 => &[(2, Len::Arg(3), false)],
        156 | 210 => &[(3, Len::Value, false)],
        165 => &[(1, Len::Arg(2), true)],
        169..=172 => &[(1, Len::Bytes(16), false)],
        194 => &[(1, Len::Bytes(8), false)],
        197 => &[(1, Len::Arg(2), true)],
        _ => &[],
    }
}

fn kfunc_effect(name: &str, rules: &Rules) -> Effect {
    match name {
        "bpf_obj_new" | "bpf_obj_new_impl" => Effect::ObjNew,
        "bpf_percpu_obj_new" | "bpf_percpu_obj_new_impl" => Effect::PercpuNew,
        "bpf_obj_drop" | "bpf_obj_drop_impl" | "bpf_cpumask_release" => Effect::Release,
        "bpf_percpu_obj_drop" | "bpf_percpu_obj_drop_impl" => Effect::Release,
        "bpf_refcount_acquire" | "bpf_refcount_acquire_impl" => Effect::GraphTake,
        "bpf_cpumask_create" => Effect::CpumaskCreate,
        "bpf_cpumask_acquire" => Effect::Acquire,
        "bpf_rbtree_add" | "bpf_rbtree_add_impl" => Effect::GraphAdd,
        "bpf_rbtree_remove" | "bpf_list_pop_front" | "bpf_list_pop_back" | "bpf_list_del" => Effect::GraphTake,
        "bpf_rbtree_first" | "bpf_rbtree_root" | "bpf_rbtree_left" | "bpf_rbtree_right" => Effect::GraphPeek,
        "bpf_list_front" | "bpf_list_back" => Effect::GraphPeek,
        name if name.starts_with("bpf_list_push_") || name == "bpf_list_add" => Effect::GraphAdd,
        "bpf_res_spin_lock" | "bpf_res_spin_lock_irqsave" => Effect::Lock,
        "bpf_res_spin_unlock" | "bpf_res_spin_unlock_irqrestore" => Effect::Unlock,
        "bpf_rcu_read_lock" => Effect::RcuLock,
        "bpf_rcu_read_unlock" => Effect::RcuUnlock,
        "bpf_preempt_disable" => Effect::PreemptDisable,
        "bpf_preempt_enable" => Effect::PreemptEnable,
        "bpf_local_irq_save" => Effect::IrqSave,
        "bpf_local_irq_restore" => Effect::IrqRestore,
        "bpf_dynptr_slice" | "bpf_dynptr_slice_rdwr" => Effect::Slice(4),
        "bpf_rdonly_cast" | "bpf_cast_to_kern_ctx" => Effect::Cast,
        _ if rules.acquire.contains(&name) => Effect::Acquire,
        _ if rules.release.contains(&name) => Effect::Release,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_new") => Effect::IterNew,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_destroy") => Effect::IterDestroy,
        _ => Effect::None,
    }
}

/// kfunc_spin_allowed of kernel/bpf/verifier.c.
fn kfunc_may_be_locked(name: &str) -> bool {
    let families = [
        "bpf_list_",
        "bpf_rbtree_",
        "bpf_refcount_acquire",
        "bpf_iter_num_",
        "bpf_res_spin_",
        "bpf_arena_",
        "bpf_stream_",
    ];
    families.iter().any(|family| name.starts_with(family))
}
