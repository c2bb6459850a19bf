// SPDX-License-Identifier: GPL-2.0-only
//! Checks which kfuncs each callback and each program type may call. The permissions must be those
//! of Linux 7.2 and 7.3 (scx_kfunc_context_filter()).

use super::table;
use crate::layout::callbacks::{OPS, kf};
use bpf::rows::{V7_2, V7_3};
use machine::Costs;
use std::collections::BTreeSet;

/// The kernel's sets of restricted kfuncs (`scx_kfunc_ids_*`), by the permission that each set
/// requires (enum scx_kf_allow_flags). A kfunc that exists only in earlier releases is in the set
/// that contained it there.
const SETS: [(&str, &[&str]); 7] = [
    (
        "unlocked",
        &[
            "scx_bpf_create_dsq",
            "scx_bpf_dsq_move_set_slice",
            "scx_bpf_dsq_move_set_vtime",
            "scx_bpf_dsq_move",
            "scx_bpf_dsq_move_vtime",
            "scx_bpf_dispatch_from_dsq_set_slice",
            "scx_bpf_dispatch_from_dsq_set_vtime",
            "scx_bpf_dispatch_from_dsq",
            "scx_bpf_dispatch_vtime_from_dsq",
            "__scx_bpf_select_cpu_and",
            "scx_bpf_select_cpu_and",
            "scx_bpf_select_cpu_dfl",
        ],
    ),
    (
        "select_cpu",
        &[
            "__scx_bpf_select_cpu_and",
            "scx_bpf_select_cpu_and",
            "scx_bpf_select_cpu_dfl",
        ],
    ),
    (
        "enqueue",
        &[
            "scx_bpf_dsq_insert",
            "scx_bpf_dsq_insert___v2",
            "__scx_bpf_dsq_insert_vtime",
            "scx_bpf_dsq_insert_vtime",
            "scx_bpf_dispatch",
            "scx_bpf_dispatch_vtime",
        ],
    ),
    (
        "dispatch",
        &[
            "scx_bpf_dispatch_nr_slots",
            "scx_bpf_dispatch_cancel",
            "scx_bpf_dsq_move_to_local",
            "scx_bpf_dsq_move_to_local___v2",
            "scx_bpf_consume",
            "scx_bpf_dsq_move_set_slice",
            "scx_bpf_dsq_move_set_vtime",
            "scx_bpf_dsq_move",
            "scx_bpf_dsq_move_vtime",
            "scx_bpf_dispatch_from_dsq_set_slice",
            "scx_bpf_dispatch_from_dsq_set_vtime",
            "scx_bpf_dispatch_from_dsq",
            "scx_bpf_dispatch_vtime_from_dsq",
            "scx_bpf_sub_dispatch",
        ],
    ),
    ("cpu_release", &["scx_bpf_reenqueue_local"]),
    ("init", &["scx_bpf_cid_override"]),
    ("init_cids", &["scx_bpf_cid_override"]),
];

/// Returns the sets of restricted kfuncs that a callback may call (scx_kf_allow_flags).
fn allowed(op: &str) -> &'static [&'static str] {
    match op {
        "select_cpu" | "enqueue" => &["select_cpu", "enqueue"],
        "dispatch" => &["enqueue", "dispatch"],
        "cpu_release" => &["cpu_release"],
        "init" => &["unlocked", "init"],
        "init_cids" => &["unlocked", "init_cids"],
        "sub_ecaps_updated" => &["enqueue", "dispatch"],
        "init_task" | "dump" | "exit" | "cpu_online" | "cpu_offline" | "sub_attach" | "sub_detach" => &["unlocked"],
        "cgroup_init" | "cgroup_exit" | "cgroup_prep_move" | "cgroup_cancel_move" => &["unlocked"],
        "cgroup_set_weight" | "cgroup_set_bandwidth" | "cgroup_set_idle" => &["unlocked"],
        _ => &[],
    }
}

#[test]
fn every_kfunc_is_allowed_where_the_kernel_allows_it() {
    let ops = OPS.map(|op| (op.name(), op.contexts(), allowed(op.name())));
    let programs: [(&str, u32, &[&str]); 2] = [
        ("a syscall program", kf::SYSCALL, &["unlocked", "select_cpu"]),
        ("a tracing program", kf::TRACING, &[]),
    ];
    let (mut restricted, mut pairs) = (BTreeSet::new(), 0);
    for func in table(&Costs::default()) {
        // Linux 7.3 has the set "init_cids" in the place of "init".
        let exists = |set: &str| match set {
            "init" => func.releases.contains(V7_2),
            "init_cids" => func.releases.contains(V7_3),
            _ => true,
        };
        let sets: Vec<&str> = SETS
            .iter()
            .filter(|(set, names)| names.contains(&func.name) && exists(set))
            .map(|(set, _)| *set)
            .collect();
        if !sets.is_empty() {
            restricted.insert(func.name);
        }
        for (caller, contexts, allowed) in ops.iter().chain(&programs) {
            let expected = sets.is_empty() || sets.iter().any(|set| allowed.contains(set));
            assert_eq!(
                func.contexts & contexts != 0,
                expected,
                "permission to call {} from {caller}",
                func.name
            );
            pairs += 1;
        }
    }
    let named: BTreeSet<&str> = SETS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    assert_eq!(
        restricted, named,
        "SETS and the tables of kfuncs restrict different kfuncs"
    );
    assert!(pairs > 5000, "only {pairs} pairs of a kfunc and a caller were checked");
}
