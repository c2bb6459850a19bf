/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * untested: a policy that uses pointers without a NULL test, in callbacks that run rarely or never.
 * The lines with errors are marked.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

const volatile u64 budget PARAM("ns: a parameter") = 1000000;

struct counters {
	u64 ticks;
	u64 yields;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct counters);
} of_task SEC(".maps");

void SCX_OP(untested_tick, struct task_struct *p)
{
	struct counters *own = bpf_task_storage_get(&of_task, p, NULL, 0);

	own->ticks++; /* violation */
}

s32 SCX_OP(untested_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct counters *own = bpf_task_storage_get(&of_task, p, NULL, 0);

	if (!own) {
		/* Otherwise the compiler would remove the access, because it is undefined. */
		asm volatile("" : "+r"(own));
		return own->yields; /* violation */
	}
	return prev_cpu;
}

void SCX_OP(untested_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev->scx.slice > budget) /* violation */
		scx_bpf_dsq_move_to_local(SCX_DSQ_GLOBAL);
}

void SCX_OP(untested_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_struct *parent = bpf_task_from_pid(p->tgid);

	bpf_task_release(parent); /* violation */
}

SEC("syscall") int never_run(void *ctx)
{
	struct task_struct *p = bpf_task_from_pid(1);
	int tgid;

	if (p)
		bpf_task_release(p);
	p = bpf_task_from_pid(2);
	tgid = p->tgid; /* violation */
	bpf_task_release(p);
	return tgid;
}

SCX_OPS(untested_ops,
	.select_cpu = (void *)untested_select_cpu,
	.dispatch = (void *)untested_dispatch,
	.tick = (void *)untested_tick,
	.exit_task = (void *)untested_exit_task,
	.name = "untested");
