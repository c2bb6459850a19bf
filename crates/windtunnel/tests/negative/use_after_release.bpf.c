/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * use_after_release: reads a field of a task that it has released.
 * expected message with --sanitize: use-after-release: load of 4 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	struct task_struct *other = bpf_task_from_pid(p->pid);

	if (!other)
		return;
	bpf_task_release(other);
	use(*(volatile int *)&other->prio); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
