/* SPDX-License-Identifier: GPL-2.0-only */
/* lab1: your name, and how your scheduler works. */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the queue in which all tasks wait. */
#define QUEUE 0

/* Called when a task becomes runnable, and when it has used up its slice. */
void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* To do: with this slice, a task runs until it sleeps. */
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_INF, enq_flags);
	/* To do: is there an idle CPU that could fetch the task? */
}

/* Called when a CPU needs a task. */
void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

/* Called when the policy is loaded. */
s32 SCX_OP_SLEEPABLE(lab_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(lab_ops,
	HOTPLUG_CALLBACKS,
	.enqueue = (void *)lab_enqueue,
	.dispatch = (void *)lab_dispatch,
	.init = (void *)lab_init,
	.name = "lab1");
