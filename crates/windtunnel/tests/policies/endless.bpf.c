/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * endless: ops.dispatch() never returns. The limit of instructions per callback must end the policy.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

u64 rounds;

void SCX_OP(endless_dispatch, s32 cpu, struct task_struct *prev)
{
	for (;;)
		__sync_fetch_and_add(&rounds, 1);
}

SCX_OPS(endless_ops, .dispatch = (void *)endless_dispatch, .name = "endless");
