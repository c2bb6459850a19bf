/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bad_cpu: ops.select_cpu() names a CPU that does not exist.
 * expected message with --sanitize: invalid CPU 4000 from ops.select_cpu()
 * expected message without --sanitize: invalid CPU 4000 from ops.select_cpu()
 * expected exit kind: SCX_EXIT_ERROR
 */
#include "base.h"

s32 SCX_OP(bad_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 4000;
}

SCX_OPS(bad_ops, .select_cpu = (void *)bad_select_cpu, ENQUEUE, DISPATCH, INIT, .name = "bad");
