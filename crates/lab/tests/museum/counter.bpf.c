/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * counter: an unlocked read-modify-write.
 *
 * ops.enqueue() and ops.stopping() count the waiting tasks in a global variable, and the count
 * determines the slice. Two CPUs change it at the same time, and one change is lost.
 */
#include "museum.h"

s64 nr_waiting;

#ifdef MENDED
#define add(n) __sync_fetch_and_add(&nr_waiting, n)
#else
#define add(n) (nr_waiting += (n))
#endif

void SCX_OP(counter_enqueue, struct task_struct *p, u64 enq_flags)
{
	add(1);
	enqueue_shared(p, enq_flags);
}

void SCX_OP(counter_running, struct task_struct *p)
{
	add(-1);
	if (nr_waiting > 4)
		p->scx.slice = SLICE / 2;
}

void SCX_OP(counter_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(counter_init)
{
	return create_shared();
}

SCX_OPS(counter_ops,
	.enqueue = (void *)counter_enqueue,
	.running = (void *)counter_running,
	.dispatch = (void *)counter_dispatch,
	.init = (void *)counter_init,
	.name = "counter");
