// SPDX-License-Identifier: GPL-2.0-only
//! Policies that stand for a scheduler in C: what the functions they call cost where such a scheduler would have no call.
//!
//! On a machine older than BPF a policy tells what the kernel of that time decided, not what deciding would have cost as BPF.
//! There a callback is a function of the kernel, and what a policy calls is what C code has in that place: a task's
//! storage is a field of its task_struct, the clock is jiffies, a DSQ is a list. Locks, cache lines and IPIs cost what they cost
//! everywhere.

/// Instructions that a scheduler in C executes in place of a call. Counted by hand on what i386 code needs for it: a
/// field is one load, an entry at the end of a list six stores and two loads, a look at a bit of a mask two instructions. What is not
/// here is a call like any other.
const INSTRUCTIONS: [(&str, u32); 33] = [
    ("bpf_cpumask_and", 4),
    ("bpf_cpumask_first", 6),
    ("bpf_cpumask_test_cpu", 2),
    ("bpf_get_current_task_btf", 1),
    ("bpf_get_smp_processor_id", 1),
    ("bpf_iter_num_destroy", 0),
    ("bpf_iter_num_new", 1),
    ("bpf_iter_num_next", 2),
    ("bpf_iter_scx_dsq_destroy", 0),
    ("bpf_iter_scx_dsq_new", 2),
    ("bpf_iter_scx_dsq_next", 3),
    ("bpf_ktime_get_ns", 2),
    ("bpf_map_lookup_elem", 3),
    ("bpf_rcu_read_lock", 0),
    ("bpf_rcu_read_unlock", 0),
    ("bpf_spin_lock", 1),
    ("bpf_spin_unlock", 1),
    ("bpf_task_acquire", 2),
    ("bpf_task_release", 2),
    ("bpf_task_storage_get", 1),
    ("scx_bpf_cpu_curr", 2),
    ("scx_bpf_dsq_insert", 12),
    ("scx_bpf_dsq_insert_vtime", 12),
    ("scx_bpf_dsq_move", 12),
    ("scx_bpf_dsq_move_to_local", 12),
    ("scx_bpf_dsq_nr_queued", 1),
    ("scx_bpf_get_idle_cpumask", 1),
    ("scx_bpf_now", 2),
    ("scx_bpf_nr_cpu_ids", 1),
    ("scx_bpf_put_idle_cpumask", 0),
    ("scx_bpf_task_cpu", 1),
    ("scx_bpf_task_set_slice", 1),
    ("scx_bpf_test_and_clear_cpu_idle", 4),
];

/// Instructions in place of a call of `name`, whose variants (`___v2`) do the same.
pub fn instructions(name: &str) -> Option<u32> {
    let name = name.split("___").next().unwrap_or(name);
    let at = INSTRUCTIONS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(INSTRUCTIONS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Costs;

    #[test]
    fn names_are_found_in_their_order() {
        assert!(INSTRUCTIONS.is_sorted_by_key(|(name, _)| name));
        assert_eq!(instructions("scx_bpf_dsq_insert___v2"), Some(12));
        assert_eq!(instructions("scx_bpf_kick_cpu"), None);
    }

    #[test]
    fn a_call_costs_what_stands_in_its_place() {
        let mut costs = Costs {
            bpf_insn_ps: 1500,
            kfunc_ns: 40,
            ..Costs::default()
        };
        costs.kfuncs.insert("scx_bpf_now".into(), 9);
        let ns = |costs: &Costs, name| costs.function_ns(name);
        assert_eq!(ns(&costs, "scx_bpf_dsq_insert___v2"), 40);
        costs.native = true;
        assert_eq!(ns(&costs, "scx_bpf_dsq_insert___v2"), 18);
        assert_eq!(ns(&costs, "scx_bpf_now"), 9, "the machine's own entry comes first");
        assert_eq!(ns(&costs, "scx_bpf_kick_cpu"), 40);
    }
}
