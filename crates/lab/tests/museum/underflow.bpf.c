/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * underflow: a budget that wraps below zero.
 *
 * ops.stopping() takes its use from a common budget if the budget is large enough. Two CPUs make
 * the check before one of them subtracts. The subtraction is atomic, but the check is out of date.
 */
#include "museum.h"

#define FULL 1000

u64 budget = FULL;

void SCX_OP(underflow_enqueue, struct task_struct *p, u64 enq_flags)
{
	enqueue_shared(p, enq_flags);
}

void SCX_OP(underflow_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(underflow_stopping, struct task_struct *p, bool runnable)
{
	u64 have = *(volatile u64 *)&budget, used = 300;

	if (have > FULL)
		scx_bpf_error("the budget is below zero");
	if (have < used) {
		__sync_lock_test_and_set(&budget, FULL);
		return;
	}
#ifdef MENDED
	__sync_val_compare_and_swap(&budget, have, have - used);
#else
	__sync_fetch_and_sub(&budget, used);
#endif
}

s32 SCX_OP_SLEEPABLE(underflow_init)
{
	return create_shared();
}

SCX_OPS(underflow_ops,
	.enqueue = (void *)underflow_enqueue,
	.dispatch = (void *)underflow_dispatch,
	.stopping = (void *)underflow_stopping,
	.init = (void *)underflow_init,
	.name = "underflow");
