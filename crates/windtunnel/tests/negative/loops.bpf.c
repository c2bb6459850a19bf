/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loops: ops.running() never returns.
 * expected message with --sanitize: an endless loop?
 * expected message without --sanitize: an endless loop?
 * expected exit kind: SCX_EXIT_ERROR
 */
#include "base.h"

u64 stop;
bool looped;

void SCX_OP(bad_running, struct task_struct *p)
{
	if (looped)
		return;
	looped = true;
	while (!*(volatile u64 *)&stop) /* violation */
		;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
