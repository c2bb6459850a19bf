/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dispatches_without_end: ops.dispatch() inserts more tasks than the dispatch buffer holds.
 * expected message with --sanitize: dispatch buffer overflow
 * expected message without --sanitize: dispatch buffer overflow
 * expected exit kind: SCX_EXIT_ERROR
 */
#include "base.h"

void SCX_OP(bad_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	bpf_for(i, 0, 1000)
		scx_bpf_dsq_insert(prev, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, .dispatch = (void *)bad_dispatch, INIT, .name = "bad");
