/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pointer_from_number: stores the address of a task in an integer, and later uses the integer as a
 * pointer.
 * expected message with --sanitize: bad-pointer: load of 4 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

u64 kept;

void SCX_OP(bad_running, struct task_struct *p)
{
	struct task_struct *before = (void *)kept;

	if (before)
		use(*(volatile int *)&before->prio); /* violation */
	kept = (u64)p;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
