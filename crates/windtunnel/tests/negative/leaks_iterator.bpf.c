/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leaks_iterator: starts an iterator over a DSQ and does not destroy it.
 * expected message with --sanitize: leak: bad_running returns without ending
 * expected message without --sanitize: more than 256 bpf_iter_scx_dsq at a time
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	struct bpf_iter_scx_dsq it;

	bpf_iter_scx_dsq_new(&it, QUEUE, 0); /* violation */
	use(bpf_iter_scx_dsq_next(&it));
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
