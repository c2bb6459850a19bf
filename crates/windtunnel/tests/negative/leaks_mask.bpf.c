/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leaks_mask: creates a CPU mask and does not release it.
 * expected message with --sanitize: leak: bad_running returns and has not released a bpf_cpumask
 * expected message without --sanitize: none
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	use(bpf_cpumask_create()); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
