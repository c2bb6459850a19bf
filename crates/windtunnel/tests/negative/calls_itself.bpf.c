/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * calls_itself: ops.running() calls a function with endless recursion.
 * expected message with --sanitize: stack-overflow: 9 nested functions
 * expected message without --sanitize: BPF stack overflow: calls are nested too deeply
 */
#include "base.h"

static __noinline u64 again(u64 depth)
{
	volatile u64 kept = depth;

	return depth == ~0ULL ? 0 : again(depth + 1) ^ kept; /* violation */
}

void SCX_OP(bad_running, struct task_struct *p)
{
	use(again(p->pid));
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
