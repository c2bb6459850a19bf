/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sleeps: ops.init() calls a kfunc that may sleep, but may not sleep itself, because its section is struct_ops and not
 * struct_ops.s.
 * with --check: sleep: scx_bpf_create_dsq may sleep
 * without: nothing
 */
#include "base.h"

s32 SCX_OP(bad_init)
{
	return scx_bpf_create_dsq(QUEUE, -1); /* here */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, .init = (void *)bad_init, .name = "bad");
