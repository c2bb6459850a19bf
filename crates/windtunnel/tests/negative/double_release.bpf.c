/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * double_release: releases a task twice.
 * expected message with --sanitize: use-after-release: passed to bpf_task_release
 * expected message without --sanitize: released twice?
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	struct task_struct *other = bpf_task_from_pid(p->pid);

	if (!other)
		return;
	bpf_task_release(other);
	bpf_task_release(other); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
