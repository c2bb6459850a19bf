/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * calls_itself: ops.running() calls a function with endless recursion.
 * with --check: stack-overflow: 9 nested functions
 * without: BPF stack overflow: calls nest too deep
 */
#include "base.h"

static __noinline u64 again(u64 depth)
{
	volatile u64 kept = depth;

	return depth == ~0ULL ? 0 : again(depth + 1) ^ kept; /* here */
}

void SCX_OP(bad_running, struct task_struct *p)
{
	use(again(p->pid));
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
