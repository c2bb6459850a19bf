/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leaks_task: looks a task up and does not release it.
 * expected message with --sanitize: leak: bad_running returns and has not released a reference to a task_struct
 * expected message without --sanitize: none
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	struct task_struct *other = bpf_task_from_pid(p->pid); /* violation */

	if (other)
		use(other->prio);
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
