/* SPDX-License-Identifier: GPL-2.0-only */
/* first: one queue for all CPUs, first come first served. */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared dispatch queue (DSQ). */
#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;

/* If a CPU is idle, the woken task goes directly to that CPU's local DSQ. */
s32 SCX_OP(first_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Every other task goes to the end of the shared queue. */
void SCX_OP(first_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

/* A CPU whose local DSQ is empty takes the first task of the shared queue. */
void SCX_OP(first_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(first_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(first_ops, HOTPLUG_CALLBACKS, .select_cpu = (void *)first_select_cpu,
	.enqueue = (void *)first_enqueue, .dispatch = (void *)first_dispatch,
	.init = (void *)first_init, .name = "first");
