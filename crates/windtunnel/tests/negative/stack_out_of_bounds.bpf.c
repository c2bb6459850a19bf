/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stack_out_of_bounds: stores beyond its stack frame.
 * expected message with --sanitize: stack-out-of-bounds: store of 8 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	u64 words[4] = {};
	u64 at = p->pid | 64;

	barrier_var(at);
	words[at & 127] = 1; /* violation */
	use(words[0]);
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
