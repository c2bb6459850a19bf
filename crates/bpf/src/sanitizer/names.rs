// SPDX-License-Identifier: GPL-2.0-only
//! Collects what a program can call, by the rows of the functions.

use super::callee::{Callee, Effect, Names};
use super::rules::Rules;
use super::signature::{self, Arg, DYNPTR_SIZE, Len, Opaque, READ_TEXT, Signature, Special};
use crate::engine::context::{Context, Target};
use crate::engine::func::Func;
use std::rc::Rc;

/// Collects what the program can call.
///
/// # Errors
/// If a function that the program can call does not say what it does with its pointers.
pub(super) fn names(cx: &Context, rules: &Rules) -> Result<Names, String> {
    let helper = |(number, target): (usize, &Option<Target>)| {
        let number = number as u32;
        match (target, HELPERS.iter().find(|helper| helper.number == number)) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(unknown_helper(number)),
            (Some(target), Some(helper)) => Ok(Some(Rc::new(of_helper(helper, target)))),
        }
    };
    let kfunc = |(name, target): (&String, &Option<Target>)| match target {
        Some(target) => of_kfunc(name, target, rules).map(|callee| Some(Rc::new(callee))),
        None => Ok(None),
    };
    Ok(Names {
        helpers: cx.helpers.iter().enumerate().map(helper).collect::<Result<_, _>>()?,
        kfuncs: cx
            .code
            .kfuncs
            .iter()
            .zip(&cx.kfuncs)
            .map(kfunc)
            .collect::<Result<_, _>>()?,
    })
}

/// Does this function say what it does with each pointer it is given? Each that a world offers must, or a checked program that
/// calls it is not loaded.
///
/// # Errors
/// The function, and the argument.
pub fn is_known<W>(func: &Func<W>, rules: &Rules) -> Result<(), String> {
    let args = match func.helper {
        Some(number) => match HELPERS.iter().find(|helper| helper.number == number) {
            Some(helper) if helper.name == func.name => helper.args.len(),
            _ => return Err(unknown_helper(number)),
        },
        None => signature::of_kfunc(func.name, func.proto, rules)?.args.len(),
    };
    // Trailing ones that an implementation does not look at need not be among its own.
    match args >= usize::from(func.args) {
        true => Ok(()),
        false => Err(format!("{}: {args} arguments are known of {}", func.name, func.args)),
    }
}

fn unknown_helper(number: u32) -> String {
    format!("checked mode does not know what helper {number} does with its arguments")
}

fn of_helper(helper: &Helper, target: &Target) -> Callee {
    Callee {
        name: helper.name.to_string(),
        effect: helper.effect,
        sleepable: false,
        rcu: false,
        locked: matches!(helper.number, 93 | 94 | 194),
        calls_back: matches!(helper.number, 164 | 181 | 209),
        args: helper.args.to_vec(),
        // Text takes as many as it has conversions.
        looked_at: if helper.number == 6 { 2 } else { target.args.into() },
        pointer: helper.pointer,
        nullable: helper.pointer && !matches!(helper.number, 154 | 158),
        void: matches!(helper.number, 93 | 94 | 132 | 133 | 199 | 200),
        callback_args: if helper.number == 164 { 4 } else { 2 },
        handed_on: match helper.number {
            164 => Some((3, 2)),
            181 | 209 => Some((1, 2)),
            _ => None,
        },
    }
}

fn of_kfunc(name: &str, target: &Target, rules: &Rules) -> Result<Callee, String> {
    let Signature { args, pointer, void } = signature::of_kfunc(name, target.proto, rules)?;
    Ok(Callee {
        name: name.to_string(),
        effect: kfunc_effect(name, rules),
        sleepable: rules.sleepable.contains(&name),
        rcu: rules.rcu.contains(&name),
        locked: kfunc_may_be_locked(name),
        calls_back: name.starts_with("bpf_rbtree_add"),
        args,
        looked_at: target.args.into(),
        pointer,
        nullable: pointer && kfunc_may_return_null(name),
        void,
        callback_args: 2,
        handed_on: None,
    })
}

/// A helper: its number, name, and what it does with its arguments.
pub(super) struct Helper {
    number: u32,
    name: &'static str,
    pub args: &'static [Arg],
    /// It returns a pointer.
    pub pointer: bool,
    effect: Effect,
}

const fn helper(number: u32, name: &'static str, args: &'static [Arg]) -> Helper {
    Helper {
        number,
        name,
        args,
        pointer: false,
        effect: Effect::None,
    }
}

impl Helper {
    const fn returns_pointer(self) -> Helper {
        Helper { pointer: true, ..self }
    }

    const fn and(self, effect: Effect) -> Helper {
        Helper { effect, ..self }
    }
}

const V: Arg = Arg::Value;
const KEY: Arg = Arg::Read(Len::Key);
const VALUE: Arg = Arg::Read(Len::Value);
const TASK: Arg = Arg::Kernel {
    tag: "task_struct",
    or_null: true,
};
const CGROUP: Arg = Arg::Kernel {
    tag: "cgroup",
    or_null: true,
};
const TIMER: Arg = Arg::Field(Special::Timer);
const SPIN_LOCK: Arg = Arg::Field(Special::SpinLock);
const DYNPTR: Arg = Arg::Use(Opaque::Dynptr);
const MAKE_DYNPTR: Arg = Arg::Make(Opaque::Dynptr, DYNPTR_SIZE);

const fn read(len: usize) -> Arg {
    Arg::Read(Len::Arg(len))
}

const fn write(len: usize) -> Arg {
    Arg::Write(Len::Arg(len))
}

/// The `arg*_type`s of the helpers' bpf_func_proto.
const HELPERS: [Helper; 68] = [
    helper(1, "bpf_map_lookup_elem", &[V, KEY])
        .returns_pointer()
        .and(Effect::Lookup),
    helper(2, "bpf_map_update_elem", &[V, KEY, VALUE, V]),
    helper(3, "bpf_map_delete_elem", &[V, KEY]),
    helper(4, "bpf_probe_read", &[write(2), V, V]),
    helper(5, "bpf_ktime_get_ns", &[]),
    helper(6, "bpf_trace_printk", &[read(2), V, V, V, V]),
    helper(7, "bpf_get_prandom_u32", &[]),
    helper(8, "bpf_get_smp_processor_id", &[]),
    helper(14, "bpf_get_current_pid_tgid", &[]),
    helper(15, "bpf_get_current_uid_gid", &[]),
    helper(16, "bpf_get_current_comm", &[write(2), V]),
    helper(22, "bpf_perf_event_read", &[V, V]),
    helper(25, "bpf_perf_event_output", &[V, V, V, read(5), V]),
    helper(35, "bpf_get_current_task", &[]),
    helper(42, "bpf_get_numa_node_id", &[]),
    helper(45, "bpf_probe_read_str", &[write(2), V, V]),
    helper(55, "bpf_perf_event_read_value", &[V, V, write(4), V]),
    helper(80, "bpf_get_current_cgroup_id", &[]),
    helper(87, "bpf_map_push_elem", &[V, VALUE, V]),
    helper(88, "bpf_map_pop_elem", &[V, Arg::Write(Len::Value)]),
    helper(89, "bpf_map_peek_elem", &[V, Arg::Write(Len::Value)]),
    helper(93, "bpf_spin_lock", &[SPIN_LOCK]).and(Effect::Lock),
    helper(94, "bpf_spin_unlock", &[SPIN_LOCK]).and(Effect::Unlock),
    helper(105, "bpf_strtol", &[read(2), V, V, Arg::Write(Len::Bytes(8))]),
    helper(106, "bpf_strtoul", &[read(2), V, V, Arg::Write(Len::Bytes(8))]),
    helper(112, "bpf_probe_read_user", &[write(2), V, V]),
    helper(113, "bpf_probe_read_kernel", &[write(2), V, V]),
    helper(114, "bpf_probe_read_user_str", &[write(2), V, V]),
    helper(115, "bpf_probe_read_kernel_str", &[write(2), V, V]),
    helper(118, "bpf_jiffies64", &[]),
    helper(120, "bpf_get_ns_current_pid_tgid", &[V, V, write(4), V]),
    helper(123, "bpf_get_current_ancestor_cgroup_id", &[V]),
    helper(125, "bpf_ktime_get_boot_ns", &[]),
    helper(126, "bpf_seq_printf", &[V, read(3), V, read(5), V]),
    helper(127, "bpf_seq_write", &[V, read(3), V]),
    helper(130, "bpf_ringbuf_output", &[V, read(3), V, V]),
    helper(131, "bpf_ringbuf_reserve", &[V, V, V])
        .returns_pointer()
        .and(Effect::Reserve),
    helper(132, "bpf_ringbuf_submit", &[V, V]).and(Effect::Release),
    helper(133, "bpf_ringbuf_discard", &[V, V]).and(Effect::Release),
    helper(134, "bpf_ringbuf_query", &[V, V]),
    helper(153, "bpf_per_cpu_ptr", &[Arg::PerCpu, V]).returns_pointer(),
    helper(154, "bpf_this_cpu_ptr", &[Arg::PerCpu]).returns_pointer(),
    helper(156, "bpf_task_storage_get", &[V, TASK, VALUE, V])
        .returns_pointer()
        .and(Effect::Lookup),
    helper(157, "bpf_task_storage_delete", &[V, TASK]),
    helper(158, "bpf_get_current_task_btf", &[]).returns_pointer(),
    helper(160, "bpf_ktime_get_coarse_ns", &[]),
    helper(164, "bpf_for_each_map_elem", &[V, V, V, V]),
    helper(165, "bpf_snprintf", &[write(2), V, READ_TEXT, read(5), V]),
    helper(169, "bpf_timer_init", &[TIMER, V, V]).and(Effect::TimerInit),
    helper(170, "bpf_timer_set_callback", &[TIMER, V]),
    helper(171, "bpf_timer_start", &[TIMER, V, V]),
    helper(172, "bpf_timer_cancel", &[TIMER]),
    helper(177, "bpf_trace_vprintk", &[read(2), V, read(4), V]),
    helper(181, "bpf_loop", &[V, V, V, V]),
    helper(182, "bpf_strncmp", &[read(2), V, READ_TEXT]),
    helper(194, "bpf_kptr_xchg", &[Arg::Field(Special::Kptr), V])
        .returns_pointer()
        .and(Effect::Exchange),
    helper(195, "bpf_map_lookup_percpu_elem", &[V, KEY, V])
        .returns_pointer()
        .and(Effect::Lookup),
    helper(
        197,
        "bpf_dynptr_from_mem",
        &[Arg::MapMemory(Len::Arg(2)), V, V, MAKE_DYNPTR],
    ),
    helper(198, "bpf_ringbuf_reserve_dynptr", &[V, V, V, MAKE_DYNPTR]).and(Effect::DynptrReserve),
    helper(199, "bpf_ringbuf_submit_dynptr", &[DYNPTR, V]).and(Effect::DynptrSubmit),
    helper(200, "bpf_ringbuf_discard_dynptr", &[DYNPTR, V]).and(Effect::DynptrSubmit),
    helper(201, "bpf_dynptr_read", &[write(2), V, DYNPTR, V, V]),
    helper(202, "bpf_dynptr_write", &[DYNPTR, V, read(4), V, V]),
    helper(203, "bpf_dynptr_data", &[DYNPTR, V, V])
        .returns_pointer()
        .and(Effect::Slice(3)),
    helper(208, "bpf_ktime_get_tai_ns", &[]),
    helper(209, "bpf_user_ringbuf_drain", &[V, V, V, V]),
    helper(210, "bpf_cgrp_storage_get", &[V, CGROUP, VALUE, V])
        .returns_pointer()
        .and(Effect::Lookup),
    helper(211, "bpf_cgrp_storage_delete", &[V, CGROUP]),
];

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
        "bpf_throw" => Effect::Throw,
        "bpf_rdonly_cast" | "bpf_cast_to_kern_ctx" => Effect::Cast,
        _ if rules.acquire.contains(&name) => Effect::Acquire,
        _ if rules.release.contains(&name) => Effect::Release,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_new") => Effect::IterNew,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_next") => Effect::IterNext,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_destroy") => Effect::IterDestroy,
        "bpf_wq_init" => Effect::TimerInit,
        _ => Effect::None,
    }
}

/// KF_RET_NULL, of those that return an object or memory.
fn kfunc_may_return_null(name: &str) -> bool {
    const NAMES: [&str; 26] = [
        "bpf_obj_new",
        "bpf_obj_new_impl",
        "bpf_percpu_obj_new",
        "bpf_percpu_obj_new_impl",
        "bpf_cpumask_create",
        "bpf_task_acquire",
        "bpf_task_from_pid",
        "bpf_task_from_vpid",
        "bpf_task_get_cgroup1",
        "bpf_cgroup_acquire",
        "bpf_cgroup_ancestor",
        "bpf_cgroup_from_id",
        "bpf_list_pop_front",
        "bpf_list_pop_back",
        "bpf_list_front",
        "bpf_list_back",
        "bpf_rbtree_remove",
        "bpf_rbtree_first",
        "bpf_rbtree_root",
        "bpf_rbtree_left",
        "bpf_rbtree_right",
        "bpf_dynptr_slice",
        "bpf_dynptr_slice_rdwr",
        "scx_bpf_dsq_peek",
        "scx_bpf_cpu_curr",
        "scx_bpf_tid_to_task",
    ];
    NAMES.contains(&name) || name.starts_with("bpf_iter_") && name.ends_with("_next")
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
