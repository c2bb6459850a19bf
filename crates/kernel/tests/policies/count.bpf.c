/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * count: a policy that defines every callback and counts the calls. It schedules all tasks on one
 * FIFO DSQ. These macros change it:
 *
 * FLAGS=x        value of ops.flags
 * EXIT_AT=n      the callback with the number n (C_*) ends the policy with the exit code n
 * TIMEOUT_MS=n   value of ops.timeout_ms
 * LOSE           the policy inserts no task into a DSQ
 * HOTPLUG        the policy has ops.cpu_online() and ops.cpu_offline()
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 5
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef EXIT_AT
#define EXIT_AT 0
#endif
#ifndef TIMEOUT_MS
#define TIMEOUT_MS 0
#endif

enum { C_SELECT_CPU = 1, C_ENQUEUE, C_DISPATCH, C_TICK, C_RUNNABLE, C_RUNNING, C_STOPPING, C_QUIESCENT, C_INIT_TASK,
       C_ENABLE, C_INIT, C_UPDATE_IDLE, C_SET_WEIGHT };

u64 nr_select_cpu, nr_enqueue, nr_dequeue, nr_dispatch, nr_tick, nr_runnable, nr_running, nr_stopping, nr_quiescent,
	nr_yield, nr_set_weight, nr_set_cpumask, nr_to_idle, nr_from_idle, nr_init_task, nr_init_task_fork, nr_exit_task,
	nr_exit_task_cancelled, nr_enable, nr_disable, nr_cgroup_init, nr_cgroup_exit, nr_cgroup_prep_move, nr_cgroup_move,
	nr_cpu_online, nr_cpu_offline, nr_init, nr_exit, nr_dump, nr_dump_cpu, nr_dump_task, nr_enq_last, nr_enq_reenq,
	nr_acquire, nr_release, nr_deq_change;
u64 exit_kind, exit_code, exit_flags, last_weight, release_reason, order, init_order, exit_order;

static __always_inline void maybe_exit(int at)
{
	static char fmt[] = "ended at %d";
	unsigned long long data[1] = { at };

	if (EXIT_AT == at)
		scx_bpf_exit_bstr(at, fmt, data, sizeof(data));
}

s32 SCX_OP(count_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;

	nr_select_cpu++;
	maybe_exit(C_SELECT_CPU);
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void SCX_OP(count_enqueue, struct task_struct *p, u64 enq_flags)
{
	nr_enqueue++;
	nr_enq_last += !!(enq_flags & SCX_ENQ_LAST);
	nr_enq_reenq += !!(enq_flags & SCX_ENQ_REENQ);
	maybe_exit(C_ENQUEUE);
#ifndef LOSE
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
#endif
	/* Without this kick, the CPU would become idle. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
}

void SCX_OP(count_dequeue, struct task_struct *p, u64 deq_flags)
{
	nr_dequeue++;
	nr_deq_change += !!(deq_flags & (1ULL << 33));
}

void SCX_OP(count_dispatch, s32 cpu, struct task_struct *prev)
{
	nr_dispatch++;
	maybe_exit(C_DISPATCH);
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(count_tick, struct task_struct *p)
{
	nr_tick++;
	maybe_exit(C_TICK);
}

void SCX_OP(count_runnable, struct task_struct *p, u64 enq_flags)
{
	nr_runnable++;
	maybe_exit(C_RUNNABLE);
}

void SCX_OP(count_running, struct task_struct *p)
{
	nr_running++;
	maybe_exit(C_RUNNING);
}

void SCX_OP(count_stopping, struct task_struct *p, bool runnable)
{
	nr_stopping++;
	maybe_exit(C_STOPPING);
}

void SCX_OP(count_quiescent, struct task_struct *p, u64 deq_flags)
{
	nr_quiescent++;
	maybe_exit(C_QUIESCENT);
}

bool SCX_OP(count_yield, struct task_struct *from, struct task_struct *to)
{
	nr_yield++;
	from->scx.slice = 0;
	return false;
}

void SCX_OP(count_set_weight, struct task_struct *p, u32 weight)
{
	nr_set_weight++;
	last_weight = weight;
	maybe_exit(C_SET_WEIGHT);
}

void SCX_OP(count_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	nr_set_cpumask++;
}

void SCX_OP(count_update_idle, s32 cpu, bool idle)
{
	if (idle)
		nr_to_idle++;
	else
		nr_from_idle++;
	maybe_exit(C_UPDATE_IDLE);
}

void SCX_OP(count_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	nr_acquire++;
}

void SCX_OP(count_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	nr_release++;
	release_reason = args->reason;
}

s32 SCX_OP_SLEEPABLE(count_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	nr_init_task++;
	nr_init_task_fork += args->fork;
	maybe_exit(C_INIT_TASK);
	return 0;
}

void SCX_OP(count_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	nr_exit_task++;
	nr_exit_task_cancelled += args->cancelled;
}

void SCX_OP(count_enable, struct task_struct *p)
{
	nr_enable++;
	maybe_exit(C_ENABLE);
}

void SCX_OP(count_disable, struct task_struct *p)
{
	nr_disable++;
}

#define DUMP(text...)                                                                              \
	({                                                                                         \
		static char ___f[] = text;                                                         \
		unsigned long long ___d[1] = {};                                                   \
		scx_bpf_dump_bstr(___f, ___d, 0);                                                  \
	})

void SCX_OP(count_dump, struct scx_dump_ctx *dump)
{
	nr_dump++;
	DUMP("counting\n");
}

void SCX_OP(count_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	nr_dump_cpu++;
	if (!idle)
		DUMP("busy\n");
}

void SCX_OP(count_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	nr_dump_task++;
}

s32 SCX_OP_SLEEPABLE(count_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	nr_cgroup_init++;
	return 0;
}

void SCX_OP_SLEEPABLE(count_cgroup_exit, struct cgroup *cgrp)
{
	nr_cgroup_exit++;
}

s32 SCX_OP_SLEEPABLE(count_cgroup_prep_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	nr_cgroup_prep_move++;
	return 0;
}

void SCX_OP(count_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	nr_cgroup_move++;
}

#ifdef HOTPLUG
void SCX_OP_SLEEPABLE(count_cpu_online, s32 cpu)
{
	nr_cpu_online++;
}

void SCX_OP_SLEEPABLE(count_cpu_offline, s32 cpu)
{
	nr_cpu_offline++;
}
#endif

s32 SCX_OP_SLEEPABLE(count_init)
{
	init_order = ++order;
	nr_init++;
	maybe_exit(C_INIT);
	return scx_bpf_create_dsq(QUEUE, -1);
}

void SCX_OP(count_exit, struct scx_exit_info *info)
{
	exit_order = ++order;
	nr_exit++;
	exit_kind = info->kind;
	exit_code = info->exit_code;
}

SCX_OPS(count_ops,
	.select_cpu = (void *)count_select_cpu,
	.enqueue = (void *)count_enqueue,
	.dequeue = (void *)count_dequeue,
	.dispatch = (void *)count_dispatch,
	.tick = (void *)count_tick,
	.runnable = (void *)count_runnable,
	.running = (void *)count_running,
	.stopping = (void *)count_stopping,
	.quiescent = (void *)count_quiescent,
	.yield = (void *)count_yield,
	.set_weight = (void *)count_set_weight,
	.set_cpumask = (void *)count_set_cpumask,
	.update_idle = (void *)count_update_idle,
	.cpu_acquire = (void *)count_cpu_acquire,
	.cpu_release = (void *)count_cpu_release,
	.init_task = (void *)count_init_task,
	.exit_task = (void *)count_exit_task,
	.enable = (void *)count_enable,
	.disable = (void *)count_disable,
	.dump = (void *)count_dump,
	.dump_cpu = (void *)count_dump_cpu,
	.dump_task = (void *)count_dump_task,
	.cgroup_init = (void *)count_cgroup_init,
	.cgroup_exit = (void *)count_cgroup_exit,
	.cgroup_prep_move = (void *)count_cgroup_prep_move,
	.cgroup_move = (void *)count_cgroup_move,
#ifdef HOTPLUG
	.cpu_online = (void *)count_cpu_online,
	.cpu_offline = (void *)count_cpu_offline,
#endif
	.init = (void *)count_init,
	.exit = (void *)count_exit,
	.flags = FLAGS | SCX_OPS_KEEP_BUILTIN_IDLE,
	.timeout_ms = TIMEOUT_MS,
	.name = "count");
