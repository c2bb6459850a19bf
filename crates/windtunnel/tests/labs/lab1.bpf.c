/* SPDX-License-Identifier: GPL-2.0-only */
/* Model solution of lab1: round robin over one queue. */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
#define TURN_NS 10000000ULL

/* Appends the task to the queue, and wakes an idle CPU, which calls lab_dispatch(). */
void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 idle;

	scx_bpf_dsq_insert(p, QUEUE, TURN_NS, enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Gives the first task of the queue to the CPU. */
void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

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
