/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sleeps: ops.init() calls a kfunc that may sleep. ops.init() itself may not sleep, because its
 * section is struct_ops instead of struct_ops.s.
 * expected message with --sanitize: sleep: scx_bpf_create_dsq may sleep
 * expected message without --sanitize: none
 */
#include "base.h"

s32 SCX_OP(bad_init)
{
	return scx_bpf_create_dsq(QUEUE, -1); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, .init = (void *)bad_init, .name = "bad");
