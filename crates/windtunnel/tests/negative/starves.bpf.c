/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * starves: tasks with an odd pid go to a DSQ from which no task is ever dispatched.
 * expected message with --sanitize: failed to run for
 * expected message without --sanitize: failed to run for
 * expected exit kind: SCX_EXIT_ERROR_STALL
 */
#include "base.h"

#define FORGOTTEN 2

void SCX_OP(bad_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, p->pid % 2 ? FORGOTTEN : QUEUE, SCX_SLICE_DFL, enq_flags);
}

s32 SCX_OP_SLEEPABLE(bad_init)
{
	s32 err = scx_bpf_create_dsq(FORGOTTEN, -1);

	return err ? err : scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(bad_ops, .enqueue = (void *)bad_enqueue, DISPATCH, .init = (void *)bad_init, .timeout_ms = 300, .name = "bad");
