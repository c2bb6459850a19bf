/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * never_kicks: the policy fifo without the kick of an idle CPU in ops.enqueue(). After a preemption
 * or a change of affinity, a task therefore waits although a CPU is idle. The property tests must
 * notice this.
 */
#include "../../../../policies/include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

s32 SCX_OP(never_kicks_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void SCX_OP(never_kicks_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (!woken_by_gone_cpu(p, SCX_SLICE_DFL, enq_flags))
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void SCX_OP(never_kicks_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(never_kicks_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(never_kicks_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)never_kicks_select_cpu,
	.enqueue = (void *)never_kicks_enqueue,
	.dispatch = (void *)never_kicks_dispatch,
	.init = (void *)never_kicks_init,
	.name = "never_kicks");
