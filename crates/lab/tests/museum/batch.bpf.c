/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * batch: a count that is cleared after it was read.
 *
 * ops.enqueue() counts new tasks with an atomic instruction. ops.dispatch() reads the count, clears
 * it, and moves as many tasks. A task that is counted between the two is forgotten until more tasks
 * come. The mended twin exchanges the count with 0.
 */
#include "museum.h"

u32 nr_new;

void SCX_OP(batch_enqueue, struct task_struct *p, u64 enq_flags)
{
	enqueue_shared(p, enq_flags);
	__sync_fetch_and_add(&nr_new, 1);
}

void SCX_OP(batch_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr, i;

#ifdef MENDED
	nr = __sync_lock_test_and_set(&nr_new, 0);
#else
	nr = *(volatile u32 *)&nr_new;
	*(volatile u32 *)&nr_new = 0;
#endif
	bpf_for(i, 0, nr) {
		if (!scx_bpf_dsq_move_to_local(QUEUE))
			break;
	}
	/* A CPU without new tasks takes an old one, so that the queue drains in any case. */
	if (!nr)
		scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(batch_init)
{
	return create_shared();
}

SCX_OPS(batch_ops,
	.enqueue = (void *)batch_enqueue,
	.dispatch = (void *)batch_dispatch,
	.init = (void *)batch_init,
	.name = "batch");
