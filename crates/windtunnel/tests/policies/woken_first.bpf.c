/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * woken_first: one queue, in which woken tasks go to the front. The task that woke last therefore
 * runs first. The property tests must notice that turns do not follow the order of arrival.
 */
#include "../../../../policies/include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

s32 SCX_OP(woken_first_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void SCX_OP(woken_first_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP)
		enq_flags |= SCX_ENQ_HEAD;
	if (!woken_by_gone_cpu(p, SCX_SLICE_DFL, enq_flags))
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void SCX_OP(woken_first_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(woken_first_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(woken_first_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)woken_first_select_cpu,
	.enqueue = (void *)woken_first_enqueue,
	.dispatch = (void *)woken_first_dispatch,
	.init = (void *)woken_first_init,
	.name = "woken_first");
