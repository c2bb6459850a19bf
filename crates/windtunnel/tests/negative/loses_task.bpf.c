/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loses_task: ops.enqueue() inserts every eighth task into no DSQ.
 * expected message with --sanitize: failed to run for
 * expected message without --sanitize: failed to run for
 * expected exit kind: SCX_EXIT_ERROR_STALL
 */
#include "base.h"

u64 seen;

void SCX_OP(bad_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (++seen % 8)
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(bad_ops, .enqueue = (void *)bad_enqueue, DISPATCH, INIT, .timeout_ms = 300, .name = "bad");
