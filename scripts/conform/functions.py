# SPDX-License-Identifier: GPL-2.0-only
"""Names the function of Linux 7.3 that decides what a line of a log shows, and its file in kernel/sched."""

EVENTS = {
    "wakeup": "select_task_rq (core.c)",
    "wakeup_new": "wake_up_new_task (core.c)",
    "switch": "__pick_next_task (core.c)",
}
# The reasons of migrations.
MIGRATIONS = {
    "wake": "select_task_rq (core.c)",
    "balance": "sched_balance_rq (fair.c)",
    "active_balance": "active_load_balance_cpu_stop (fair.c)",
    "stopper": "migration_cpu_stop (core.c)",
    "affinity": "affine_move_task (core.c)",
    "rt_push": "push_rt_task (rt.c)",
    "rt_pull": "pull_rt_task (rt.c)",
    "hotplug": "balance_push (core.c)",
    "dispatch": "move_remote_task_to_local_dsq (ext/ext.c)",
    "other": "set_task_cpu (core.c)",
}
# The callers of callbacks.
CALLBACKS = {
    "select_cpu": "select_task_rq_scx (ext/ext.c)",
    "enqueue": "scx_do_enqueue_task (ext/ext.c)",
    "dequeue": "ops_dequeue (ext/ext.c)",
    "runnable": "enqueue_task_scx (ext/ext.c)",
    "quiescent": "dequeue_task_scx (ext/ext.c)",
    "dispatch": "dispatch_one (ext/ext.c)",
    "running": "set_next_task_scx (ext/ext.c)",
    "stopping": "put_prev_task_scx (ext/ext.c)",
    "tick": "task_tick_scx (ext/ext.c)",
    "yield": "yield_task_scx (ext/ext.c)",
    "set_weight": "reweight_task_scx (ext/ext.c)",
    "set_cpumask": "set_cpus_allowed_scx (ext/ext.c)",
    "update_idle": "__scx_update_idle (ext/idle.c)",
    "init_task": "__scx_init_task (ext/ext.c)",
    "enable": "__scx_enable_task (ext/ext.c)",
    "disable": "scx_disable_task (ext/ext.c)",
    "exit_task": "scx_disable_and_exit_task (ext/ext.c)",
    "cpu_acquire": "dispatch_one (ext/ext.c)",
    "cpu_release": "switch_class (ext/ext.c)",
    "cpu_online": "handle_hotplug (ext/ext.c)",
    "cpu_offline": "handle_hotplug (ext/ext.c)",
    "exit": "scx_vexit (ext/ext.c)",
}
AVERAGES = dict.fromkeys(("load_avg", "runnable_avg", "util_avg"), "update_load_avg (fair.c)")
# The fields of rows, by the first word of the row.
FIELDS = {
    "cpu": {
        "curr": "__pick_next_task (core.c)",
        "nr_running": "add_nr_running (sched.h)",
        "capacity": "update_cpu_capacity (fair.c)",
        "misfit": "update_misfit_status (fair.c)",
    },
    "cfs": {
        **AVERAGES,
        "curr": "set_next_entity (fair.c)",
        "queue": "__enqueue_entity (fair.c)",
        "weight": "account_entity_enqueue (fair.c)",
        "zero_vruntime": "update_zero_vruntime (fair.c)",
        "shares": "update_cfs_group (fair.c)",
        "throttled": "throttle_cfs_rq (fair.c)",
        "throttle_count": "tg_throttle_down (fair.c)",
        "runtime_remaining": "__account_cfs_rq_runtime (fair.c)",
        "nr_queued": "account_entity_enqueue (fair.c)",
        "h_nr_queued": "enqueue_task_fair (fair.c)",
        "h_nr_runnable": "set_delayed (fair.c)",
        "h_nr_idle": "enqueue_task_fair (fair.c)",
        "vruntime": "update_curr (fair.c)",
        "deadline": "update_deadline (fair.c)",
        "vlag": "update_entity_lag (fair.c)",
    },
    "group": {
        "shares": "sched_group_set_shares (fair.c)",
        "load_avg": "update_tg_load_avg (fair.c)",
        "runtime": "__refill_cfs_bandwidth_runtime (fair.c)",
    },
    "dsq": {"nr": "scx_dispatch_enqueue (ext/ext.c)", "queue": "scx_dispatch_enqueue (ext/ext.c)"},
    "task": {
        **AVERAGES,
        "state": "__schedule (core.c)",
        "cpu": "set_task_cpu (core.c)",
        "class": "__setscheduler_class (core.c)",
        "prio": "__setscheduler_params (syscalls.c)",
        "cpus": "set_cpus_allowed_common (core.c)",
        "migration_disabled": "migrate_disable_switch (core.c)",
        "group": "sched_move_task (core.c)",
        "vruntime": "update_curr (fair.c)",
        "deadline": "update_deadline (fair.c)",
        "vlag": "update_entity_lag (fair.c)",
        "rel_deadline": "place_entity (fair.c)",
        "slice": "update_deadline (fair.c) or update_curr_scx (ext/ext.c)",
        "util_est": "util_est_update (fair.c)",
        "time_slice": "task_tick_rt (rt.c)",
        "dsq": "scx_dispatch_enqueue (ext/ext.c)",
        "vtime": "scx_dispatch_enqueue (ext/ext.c)",
        "weight": "reweight_task_scx (ext/ext.c)",
        "sum_exec": "update_se (fair.c)",
    },
}


def of_line(line, other):
    """Returns the function that decides what `line` shows and `other` does not, or None if it is not known."""
    words = (line or "").split()
    if not words or words[0] in (">", "!"):
        return None
    if not words[0].startswith("@"):
        theirs = (other or "").split()
        fields = FIELDS.get(words[0], {})
        differing = [word for word in words if word not in theirs] if theirs[:1] == words[:1] else words
        found = [fields[name] for name in (word.split("=")[0] for word in differing) if name in fields]
        return found[0] if found else None
    if words[1] == "migrate":
        reason = next((word[3:] for word in words if word.startswith("by=")), "other")
        return MIGRATIONS.get(reason, MIGRATIONS["other"])
    if words[1] == "call":
        return CALLBACKS.get(words[2])
    if words[1] == "return":
        return f"the policy's ops.{words[2]}(), from what it saw before"
    return EVENTS.get(words[1])


def of_difference(theirs, ours):
    """Returns the functions that decide what the first differing lines of the kernel and the simulator show."""
    kernel, simulator = of_line(theirs, ours), of_line(ours, theirs)
    if kernel == simulator or not simulator:
        return kernel
    return f"{kernel}, or {simulator}" if kernel else simulator
