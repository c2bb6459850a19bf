/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * affinity: a change of the affinity between selection and dispatch.
 *
 * ops.select_cpu() remembers the CPU that it has chosen, and ops.enqueue() inserts the task into
 * the local DSQ of this CPU. If the affinity changes in between, and the kernel does not call
 * ops.select_cpu() again, the kernel ends the policy.
 */
#include "museum.h"

struct task_ctx {
	s32 cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} ctxs SEC(".maps");

s32 SCX_OP(affinity_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = bpf_task_storage_get(&ctxs, p, NULL, 0);

	if (t)
		t->cpu = prev_cpu;
	return prev_cpu;
}

void SCX_OP(affinity_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = bpf_task_storage_get(&ctxs, p, NULL, 0);
	s32 cpu = t ? t->cpu : -1;

#ifdef MENDED
	if (cpu >= 0 && (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || cpu != scx_bpf_task_cpu(p)))
		cpu = -1;
#endif
	if (cpu < 0)
		enqueue_shared(p, enq_flags);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SLICE, enq_flags);
}

void SCX_OP(affinity_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(affinity_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12;
	t->cpu = -1;
	return 0;
}

s32 SCX_OP_SLEEPABLE(affinity_init)
{
	return create_shared();
}

SCX_OPS(affinity_ops,
	.select_cpu = (void *)affinity_select_cpu,
	.enqueue = (void *)affinity_enqueue,
	.dispatch = (void *)affinity_dispatch,
	.init_task = (void *)affinity_init_task,
	.init = (void *)affinity_init,
	.name = "affinity");
