/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loops: ops.running() never returns.
 * with --check: an endless loop?
 * without: an endless loop?
 * kind: SCX_EXIT_ERROR
 */
#include "base.h"

u64 stop;
bool looped;

void SCX_OP(bad_running, struct task_struct *p)
{
	if (looped)
		return;
	looped = true;
	while (!*(volatile u64 *)&stop) /* here */
		;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
