/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leaks_object: allocates an object and does not release it.
 * expected message with --sanitize: leak: bad_running returns and has not released a struct note
 * expected message without --sanitize: none
 */
#include "base.h"

struct note {
	u64 pid;
};

void SCX_OP(bad_running, struct task_struct *p)
{
	struct note *note = bpf_obj_new(struct note); /* violation */

	if (note)
		note->pid = p->pid;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
