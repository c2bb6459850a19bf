/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * releases_what_is_not_its_own: releases a task to which it has no reference of its own.
 * expected message with --sanitize: not-a-reference: bpf_task_release of a task_struct
 * expected message without --sanitize: released twice?
 */
#include "base.h"

void SCX_OP(bad_running, struct task_struct *p)
{
	bpf_task_release(p); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
