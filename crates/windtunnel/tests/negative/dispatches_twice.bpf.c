/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dispatches_twice: inserts the same task twice from ops.enqueue().
 * expected message with --sanitize: already direct-dispatched
 * expected message without --sanitize: already direct-dispatched
 * expected exit kind: SCX_EXIT_ERROR
 */
#include "base.h"

void SCX_OP(bad_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags); /* violation */
}

SCX_OPS(bad_ops, .enqueue = (void *)bad_enqueue, DISPATCH, INIT, .name = "bad");
