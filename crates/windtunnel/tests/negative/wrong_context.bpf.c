/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wrong_context: calls scx_bpf_dsq_insert() from ops.running().
 * expected message with --sanitize: cannot be called from the current operation
 * expected message without --sanitize: cannot be called from the current operation
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, 0); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
