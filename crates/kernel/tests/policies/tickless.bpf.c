/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tickless: a policy that gives tasks whose name begins with "i" an infinite slice, and all other
 * tasks the default slice. It counts the ticks of both kinds of tasks.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u64 infinite_ticks, finite_ticks, last_tick_cpu;

void SCX_OP(tickless_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 slice = p->comm[0] == 'i' ? SCX_SLICE_INF : SCX_SLICE_DFL;

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags);
}

void SCX_OP(tickless_tick, struct task_struct *p)
{
	if (p->comm[0] == 'i')
		infinite_ticks++;
	else
		finite_ticks++;
	last_tick_cpu = bpf_get_smp_processor_id();
}

SCX_OPS(tickless_ops,
	.enqueue = (void *)tickless_enqueue,
	.tick = (void *)tickless_tick,
	.name = "tickless");
