// SPDX-License-Identifier: GPL-2.0-only
//! Table of the types, members and enumerators that exist only in some releases. Symbols that are
//! not in this table exist in all releases if they are modelled. For kfuncs and callbacks, the
//! releases are listed in their own tables.
//!
//! Sources are the comments in tools/sched_ext/include/scx/compat{.bpf.h,.h} of Linux 7.2 and 7.3
//! and, where there are none, the history of kernel/sched/ext* and kernel/bpf. The exact
//! release of four removals is unknown: of the kfunc names with `dispatch` and `consume`, of
//! SCX_OPS_HAS_CGROUP_WEIGHT, bpf_stream_vprintk_impl and bpf_wq_set_callback_impl. For these, the
//! table contains the latest possible release.

use bpf::rows::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// A struct or enum.
    Type,
    /// A member of a struct.
    Member,
    /// An enumerator of an enum.
    Enumerator,
}

/// Symbols that were added in the same release and, if they were removed, were removed in the same
/// release.
pub(crate) struct Symbols {
    pub(crate) kind: SymbolKind,
    /// Struct or enum to which the members or enumerators belong. It is empty for types.
    pub(crate) parent: &'static str,
    pub(crate) releases: Releases,
    pub(crate) names: &'static [&'static str],
}

const fn types(since: Version, names: &'static [&'static str]) -> Symbols {
    members(SymbolKind::Type, "", since, names)
}

const fn fields(parent: &'static str, since: Version, names: &'static [&'static str]) -> Symbols {
    members(SymbolKind::Member, parent, since, names)
}

const fn values(parent: &'static str, since: Version, names: &'static [&'static str]) -> Symbols {
    members(SymbolKind::Enumerator, parent, since, names)
}

const fn members(kind: SymbolKind, parent: &'static str, since: Version, names: &'static [&'static str]) -> Symbols {
    Symbols {
        kind,
        parent,
        releases: Releases { since, before: None },
        names,
    }
}

impl Symbols {
    const fn until(self, before: Version) -> Symbols {
        let since = self.releases.since;
        Symbols {
            releases: Releases {
                since,
                before: Some(before),
            },
            ..self
        }
    }
}

/// Callbacks of struct sched_ext_ops_cid that Linux 7.3 renamed, with their names in Linux 7.2.
const CGROUP_NAMES: [&str; 8] = [
    "cgroup_init",
    "cgroup_exit",
    "cgroup_prep_move",
    "cgroup_move",
    "cgroup_cancel_move",
    "cgroup_set_weight",
    "cgroup_set_bandwidth",
    "cgroup_set_idle",
];

/// New names of [`CGROUP_NAMES`]: the callbacks follow the cpu controller of the cgroups.
const CPUCTL_NAMES: [&str; 8] = [
    "cpuctl_init",
    "cpuctl_exit",
    "cpuctl_prep_move",
    "cpuctl_move",
    "cpuctl_cancel_move",
    "cpuctl_set_weight",
    "cpuctl_set_bandwidth",
    "cpuctl_set_idle",
];

pub(crate) const SYMBOLS: &[Symbols] = &[
    types(V6_15, &["scx_event_stats"]),
    types(V6_18, &["scx_exit_flags"]),
    types(V6_19, &["scx_bpf_dsq_insert_vtime_args", "scx_bpf_select_cpu_and_args"]),
    types(V7_1, &["scx_reenq_flags", "scx_sub_attach_args", "scx_sub_detach_args"]),
    types(V7_2, &["scx_cid_topo", "scx_cmask", "sched_ext_ops_cid"]),
    types(V7_3, &["scx_enable_args", "scx_cap_flags", "scx_cid_consts"]),
    fields("sched_ext_ops", V6_16, &["priv"]),
    fields("sched_ext_ops", V7_1, &["sub_cgroup_id"]),
    fields(
        "sched_ext_ops",
        V7_3,
        &["cid_shard_size", "rescue_bandwidth_ppt", "rescue_quantum_us"],
    ),
    fields(
        "sched_ext_ops_cid",
        V7_3,
        &["cid_shard_size", "rescue_bandwidth_ppt", "rescue_quantum_us"],
    ),
    fields("sched_ext_ops_cid", V7_2, &CGROUP_NAMES).until(V7_3),
    fields("sched_ext_ops_cid", V7_3, &CPUCTL_NAMES),
    fields(
        "scx_cgroup_init_args",
        V6_17,
        &["bw_period_us", "bw_quota_us", "bw_burst_us"],
    ),
    fields("scx_cgroup_init_args", V7_3, &["sched_idle"]),
    fields("scx_cid_topo", V7_3, &["shard_cid", "shard_idx"]),
    fields("scx_exit_info", V6_18, &["flags"]),
    fields("scx_exit_info", V7_2, &["exit_cpu"]),
    fields("sched_ext_entity", V7_2, &["tid"]),
    fields("sched_ext_entity", V7_3, &["reenq_reason_caps", "reenq_reason_cid"]),
    fields("scx_event_stats", V6_16, &["SCX_EV_REFILL_SLICE_DFL"]),
    fields(
        "scx_event_stats",
        V7_1,
        &[
            "SCX_EV_REENQ_IMMED",
            "SCX_EV_INSERT_NOT_OWNED",
            "SCX_EV_SUB_BYPASS_DISPATCH",
        ],
    ),
    fields("scx_event_stats", V7_1, &["SCX_EV_REENQ_LOCAL_REPEAT"]).until(V7_3),
    fields(
        "scx_event_stats",
        V7_3,
        &[
            "SCX_EV_REENQ_REPEAT",
            "SCX_EV_SLICE_CLAMPED",
            "SCX_EV_SLICE_DENIED",
            "SCX_EV_SUB_FORCED_ADMIT",
            "SCX_EV_SUB_PREEMPT_DENIED",
            "SCX_EV_SUB_KICK_DENIED",
            "SCX_EV_SUB_REENQ_DENIED",
            "SCX_EV_SUB_CIDPERF_DENIED",
            "SCX_EV_SUB_RESCUE",
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
    values(
        "scx_enq_flags",
        V7_3,
        &[
            "SCX_ENQ_RESCUE",
            "SCX_ENQ_IGNORE_CAPS",
            "SCX_ENQ_APPLY_SLICE",
            "SCX_ENQ_SLICE_DFL",
        ],
    ),
    values("scx_reenq_flags", V7_3, &["SCX_REENQ_CAP_REVOKE"]),
    values("scx_tg_flags", V7_3, &["SCX_TG_SUB_INIT"]),
    values("scx_rq_flags", V6_12, &["SCX_RQ_IN_BALANCE"]).until(V7_3),
    values(
        "scx_rq_flags",
        V7_3,
        &[
            "SCX_RQ_IN_DISPATCH",
            "SCX_RQ_SUB_IDLE_RENOTIFY",
            "SCX_RQ_ROOT_IDLE_RENOTIFY",
        ],
    ),
    values("scx_deq_flags", V7_1, &["SCX_DEQ_SCHED_CHANGE"]),
    values("scx_exit_kind", V7_1, &["SCX_EXIT_PARENT"]),
    values(
        "scx_exit_kind",
        V7_3,
        &["SCX_EXIT_PARENT_KILL", "SCX_EXIT_ERROR_REENQ", "SCX_EXIT_ERROR_RESCUE"],
    ),
    values("scx_exit_code", V7_1, &["SCX_ECODE_RSN_CGROUP_OFFLINE"]),
    values("scx_dsq_id_flags", V6_19, &["SCX_DSQ_BYPASS"]),
    values("scx_dsq_id_flags", V7_3, &["SCX_DSQ_REJECT", "SCX_DSQ_RESCUE"]),
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
    values("scx_consts", V7_1, &["SCX_SUB_MAX_DEPTH"]),
    values("scx_consts", V7_1, &["SCX_REENQ_LOCAL_MAX_REPEAT"]).until(V7_3),
    values(
        "scx_consts",
        V7_3,
        &[
            "SCX_REENQ_MAX_REPEAT",
            "SCX_RESCUE_DFL_BW_PPT",
            "SCX_RESCUE_MAX_BW_PPT",
            "SCX_RESCUE_DISABLE",
            "SCX_RESCUE_DFL_QUANTUM_US",
            "SCX_RESCUE_MIN_QUANTUM_US",
            "SCX_RESCUE_MAX_QUANTUM_US",
            "SCX_RESCUE_MIN_SLICE_US",
            "SCX_RESCUE_OVERLOAD_MULT",
            "SCX_RESCUE_MIN_OVERLOAD_MS",
            "SCX_RESCUE_MAX_OVERLOAD_MS",
        ],
    ),
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
    values("scx_ent_flags", V7_3, &["SCX_TASK_PROTECTED", "SCX_TASK_REENQ_CAP"]),
];
