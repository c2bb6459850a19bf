/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * search: a policy that calls a kernel function in an endless loop in ops.running(). The function
 * has to search for something. One of these macros selects the function: PICK_IDLE, ONLINE_MASK,
 * DSQ_ITERATOR, KICK.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

volatile u64 nr_calls;

void SCX_OP(search_running, struct task_struct *p)
{
#if defined(DSQ_ITERATOR)
	struct bpf_iter_scx_dsq it;

	if (bpf_iter_scx_dsq_new(&it, 1, 0))
		return;
#endif
	for (;;) {
		nr_calls++;
#if defined(PICK_IDLE)
		scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
#elif defined(ONLINE_MASK)
		scx_bpf_get_online_cpumask();
#elif defined(KICK)
		scx_bpf_kick_cpu(nr_calls & 1, SCX_KICK_IDLE);
#elif defined(DSQ_ITERATOR)
		bpf_iter_scx_dsq_next(&it);
#endif
	}
}

s32 SCX_OP_SLEEPABLE(search_init)
{
	return scx_bpf_create_dsq(1, -1);
}

SCX_OPS(search_ops,
	.running = (void *)search_running,
	.init = (void *)search_init,
	.name = "search");
