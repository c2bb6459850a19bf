/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * missing_dsq: inserts into a DSQ that was never created.
 * expected message with --sanitize: non-existent DSQ 0x7
 * expected message without --sanitize: non-existent DSQ 0x7
 * expected exit kind: SCX_EXIT_ERROR
 */
#include "base.h"

void SCX_OP(bad_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 7, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(bad_ops, .enqueue = (void *)bad_enqueue, DISPATCH, INIT, .name = "bad");
