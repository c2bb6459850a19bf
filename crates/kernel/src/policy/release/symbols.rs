// SPDX-License-Identifier: GPL-2.0-only
//! What not every release has. What is not here is in all of them, as far as it is modelled.
//!
//! Sources: the remarks of tools/sched_ext/include/scx/compat{.bpf.h,.h} of Linux 7.2 where there is one, else the history of
//! kernel/sched/ext* and kernel/bpf. Four removals are dated to a release at the latest: the names with `dispatch` and
//! `consume`, SCX_OPS_HAS_CGROUP_WEIGHT, bpf_stream_vprintk_impl and bpf_wq_set_callback_impl.

use super::Release;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Kfunc,
    /// A struct or an enum.
    Type,
    /// Of a struct.
    Member,
    /// Of an enum.
    Enumerator,
}

/// Symbols that came, and perhaps went, together.
pub(super) struct Symbols {
    pub(super) kind: Kind,
    /// The struct or enum they are of; empty for others.
    pub(super) of: &'static str,
    /// The first release that has them.
    pub(super) since: Release,
    /// The first one that has them no longer.
    pub(super) before: Option<Release>,
    pub(super) names: &'static [&'static str],
}

const V6_12: Release = Release::new(6, 12);
const V6_13: Release = Release::new(6, 13);
const V6_14: Release = Release::new(6, 14);
const V6_15: Release = Release::new(6, 15);
const V6_16: Release = Release::new(6, 16);
const V6_17: Release = Release::new(6, 17);
const V6_18: Release = Release::new(6, 18);
const V6_19: Release = Release::new(6, 19);
const V7_0: Release = Release::new(7, 0);
const V7_1: Release = Release::new(7, 1);
const V7_2: Release = Release::new(7, 2);

const fn kfuncs(since: Release, names: &'static [&'static str]) -> Symbols {
    members(Kind::Kfunc, "", since, names)
}

const fn types(since: Release, names: &'static [&'static str]) -> Symbols {
    members(Kind::Type, "", since, names)
}

const fn fields(of: &'static str, since: Release, names: &'static [&'static str]) -> Symbols {
    members(Kind::Member, of, since, names)
}

const fn values(of: &'static str, since: Release, names: &'static [&'static str]) -> Symbols {
    members(Kind::Enumerator, of, since, names)
}

const fn members(kind: Kind, of: &'static str, since: Release, names: &'static [&'static str]) -> Symbols {
    Symbols {
        kind,
        of,
        since,
        before: None,
        names,
    }
}

impl Symbols {
    const fn until(self, before: Release) -> Symbols {
        Symbols {
            before: Some(before),
            ..self
        }
    }
}

pub(super) const SYMBOLS: &[Symbols] = &[
    // Renamed in 6.13, the old names kept for a while.
    kfuncs(
        V6_12,
        &[
            "scx_bpf_consume",
            "scx_bpf_dispatch",
            "scx_bpf_dispatch_vtime",
            "scx_bpf_dispatch_from_dsq",
            "scx_bpf_dispatch_from_dsq_set_slice",
            "scx_bpf_dispatch_from_dsq_set_vtime",
            "scx_bpf_dispatch_vtime_from_dsq",
        ],
    )
    .until(V6_17),
    kfuncs(
        V6_13,
        &[
            "scx_bpf_dsq_insert",
            "scx_bpf_dsq_insert_vtime",
            "scx_bpf_dsq_move",
            "scx_bpf_dsq_move_set_slice",
            "scx_bpf_dsq_move_set_vtime",
            "scx_bpf_dsq_move_to_local",
            "scx_bpf_dsq_move_vtime",
        ],
    ),
    kfuncs(
        V6_14,
        &[
            "scx_bpf_now",
            "bpf_task_from_vpid",
            "bpf_local_irq_save",
            "bpf_local_irq_restore",
        ],
    ),
    kfuncs(
        V6_15,
        &[
            "scx_bpf_cpu_node",
            "scx_bpf_events",
            "scx_bpf_get_idle_cpumask_node",
            "scx_bpf_get_idle_smtmask_node",
            "scx_bpf_nr_node_ids",
            "scx_bpf_pick_any_cpu_node",
            "scx_bpf_pick_idle_cpu_node",
            "bpf_cpumask_populate",
            "bpf_dynptr_copy",
            "bpf_res_spin_lock",
            "bpf_res_spin_lock_irqsave",
            "bpf_res_spin_unlock",
            "bpf_res_spin_unlock_irqrestore",
        ],
    ),
    kfuncs(
        V6_16,
        &[
            "scx_bpf_select_cpu_and",
            "bpf_list_back",
            "bpf_list_front",
            "bpf_rbtree_left",
            "bpf_rbtree_right",
            "bpf_rbtree_root",
        ],
    ),
    kfuncs(
        V6_17,
        &[
            "bpf_dynptr_memset",
            "bpf_strchr",
            "bpf_strchrnul",
            "bpf_strcmp",
            "bpf_strcspn",
            "bpf_strlen",
            "bpf_strnchr",
            "bpf_strnlen",
            "bpf_strnstr",
            "bpf_strrchr",
            "bpf_strspn",
            "bpf_strstr",
        ],
    ),
    kfuncs(V6_18, &["scx_bpf_cpu_curr", "scx_bpf_locked_rq", "bpf_strcasecmp"]),
    kfuncs(V6_18, &["bpf_stream_vprintk_impl"]).until(V7_0),
    kfuncs(
        V6_19,
        &[
            "__scx_bpf_dsq_insert_vtime",
            "__scx_bpf_select_cpu_and",
            "scx_bpf_dsq_insert___v2",
            "scx_bpf_dsq_peek",
            "scx_bpf_reenqueue_local___v2",
            "scx_bpf_task_set_dsq_vtime",
            "scx_bpf_task_set_slice",
            "bpf_strcasestr",
            "bpf_strncasestr",
        ],
    ),
    kfuncs(V6_12, &["bpf_wq_set_callback_impl"]).until(V7_0),
    kfuncs(
        V7_0,
        &[
            "bpf_strncasecmp",
            "bpf_stream_vprintk",
            "bpf_timer_cancel_async",
            "bpf_wq_set_callback",
        ],
    ),
    kfuncs(
        V7_1,
        &[
            "scx_bpf_dsq_move_to_local___v2",
            "scx_bpf_dsq_reenq",
            "scx_bpf_sub_dispatch",
            "bpf_list_push_back",
            "bpf_list_push_front",
            "bpf_obj_drop",
            "bpf_obj_new",
            "bpf_percpu_obj_drop",
            "bpf_percpu_obj_new",
            "bpf_rbtree_add",
            "bpf_refcount_acquire",
        ],
    ),
    kfuncs(
        V7_2,
        &[
            "scx_bpf_cid_curr",
            "scx_bpf_cid_override",
            "scx_bpf_cid_to_cpu",
            "scx_bpf_cid_topo",
            "scx_bpf_cidperf_cap",
            "scx_bpf_cidperf_cur",
            "scx_bpf_cidperf_set",
            "scx_bpf_cpu_to_cid",
            "scx_bpf_kick_cid",
            "scx_bpf_nr_cids",
            "scx_bpf_nr_online_cids",
            "scx_bpf_task_cid",
            "scx_bpf_this_cid",
            "scx_bpf_tid_to_task",
            "bpf_list_add",
            "bpf_list_del",
            "bpf_list_empty",
            "bpf_list_is_first",
            "bpf_list_is_last",
        ],
    ),
    types(V6_15, &["scx_event_stats"]),
    types(V6_18, &["scx_exit_flags"]),
    types(V6_19, &["scx_bpf_dsq_insert_vtime_args", "scx_bpf_select_cpu_and_args"]),
    types(V7_1, &["scx_reenq_flags", "scx_sub_attach_args", "scx_sub_detach_args"]),
    types(V7_2, &["scx_cid_topo", "scx_cmask", "sched_ext_ops_cid"]),
    fields("sched_ext_ops", V6_16, &["priv"]),
    fields("sched_ext_ops", V6_17, &["cgroup_set_bandwidth"]),
    fields("sched_ext_ops", V6_19, &["cgroup_set_idle"]),
    fields("sched_ext_ops", V7_1, &["sub_attach", "sub_detach", "sub_cgroup_id"]),
    fields(
        "scx_cgroup_init_args",
        V6_17,
        &["bw_period_us", "bw_quota_us", "bw_burst_us"],
    ),
    fields("scx_exit_info", V6_18, &["flags"]),
    fields("scx_exit_info", V7_2, &["exit_cpu"]),
    fields("sched_ext_entity", V7_2, &["tid"]),
    fields("scx_event_stats", V6_16, &["SCX_EV_REFILL_SLICE_DFL"]),
    fields(
        "scx_event_stats",
        V7_1,
        &[
            "SCX_EV_REENQ_IMMED",
            "SCX_EV_REENQ_LOCAL_REPEAT",
            "SCX_EV_INSERT_NOT_OWNED",
            "SCX_EV_SUB_BYPASS_DISPATCH",
        ],
    ),
    values("scx_ops_flags", V6_12, &["SCX_OPS_HAS_CGROUP_WEIGHT"]).until(V6_19),
    values("scx_ops_flags", V6_14, &["SCX_OPS_ENQ_MIGRATION_DISABLED"]),
    values(
        "scx_ops_flags",
        V6_15,
        &["SCX_OPS_ALLOW_QUEUED_WAKEUP", "SCX_OPS_BUILTIN_IDLE_PER_NODE"],
    ),
    values("scx_ops_flags", V7_1, &["SCX_OPS_ALWAYS_ENQ_IMMED"]),
    values("scx_ops_flags", V7_2, &["SCX_OPS_TID_TO_TASK"]),
    values("scx_pick_idle_cpu_flags", V6_15, &["SCX_PICK_IDLE_IN_NODE"]),
    values("scx_enq_flags", V7_1, &["SCX_ENQ_IMMED", "SCX_ENQ_GDSQ_FALLBACK"]),
    values("scx_deq_flags", V7_1, &["SCX_DEQ_SCHED_CHANGE"]),
    values("scx_exit_kind", V7_1, &["SCX_EXIT_PARENT"]),
    values("scx_exit_code", V7_1, &["SCX_ECODE_RSN_CGROUP_OFFLINE"]),
    values("scx_dsq_id_flags", V6_19, &["SCX_DSQ_BYPASS"]),
    values("scx_public_consts", V6_19, &["SCX_SLICE_BYPASS"]),
    values(
        "scx_consts",
        V6_19,
        &[
            "SCX_BYPASS_LB_DFL_INTV_US",
            "SCX_BYPASS_LB_DONOR_PCT",
            "SCX_BYPASS_LB_MIN_DELTA_DIV",
            "SCX_BYPASS_LB_BATCH",
        ],
    ),
    values("scx_consts", V7_1, &["SCX_REENQ_LOCAL_MAX_REPEAT", "SCX_SUB_MAX_DEPTH"]),
    values("scx_consts", V7_2, &["SCX_TID_CHUNK"]),
    values(
        "scx_ent_flags",
        V7_1,
        &[
            "SCX_TASK_IN_CUSTODY",
            "SCX_TASK_SUB_INIT",
            "SCX_TASK_IMMED",
            "SCX_TASK_REENQ_REASON_SHIFT",
            "SCX_TASK_REENQ_REASON_BITS",
            "SCX_TASK_REENQ_REASON_MASK",
            "SCX_TASK_REENQ_NONE",
            "SCX_TASK_REENQ_KFUNC",
            "SCX_TASK_REENQ_IMMED",
            "SCX_TASK_REENQ_PREEMPTED",
        ],
    ),
    values("scx_ent_flags", V7_2, &["SCX_TASK_INIT_BEGIN", "SCX_TASK_DEAD"]),
];
