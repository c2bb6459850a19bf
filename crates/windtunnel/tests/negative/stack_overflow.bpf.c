/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stack_overflow: three nested functions use more stack than is available.
 * expected message with --sanitize: stack-overflow: 3 nested functions use
 * expected message without --sanitize: none
 */
#include "base.h"

static __noinline u64 inner(u64 seed)
{
	volatile u64 big[40];

	big[seed % 40] = seed;
	return big[seed % 39];
}

static __noinline u64 middle(u64 seed)
{
	volatile u64 big[40];

	big[seed % 40] = inner(seed); /* violation */
	return big[seed % 39];
}

void SCX_OP(bad_running, struct task_struct *p)
{
	use(middle(p->pid));
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
