/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * writes_task: writes a field of task_struct that a policy may not change.
 * expected message with --sanitize: read-only: store of 4 bytes
 * expected message without --sanitize: which the kernel does not allow
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	*(volatile int *)&p->prio = 100; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
