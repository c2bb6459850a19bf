// SPDX-License-Identifier: GPL-2.0-only
//! Names of the helpers that the simulator does not have, for messages.

/// Returns the name of a helper, or "number N" for a helper that schedulers are unlikely to use.
pub(crate) fn name(number: u32) -> String {
    let name = match number {
        12 => "tail_call",
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
