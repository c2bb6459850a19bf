/* SPDX-License-Identifier: GPL-2.0-only */
/* stall: ops.enqueue() inserts tasks into no DSQ. The watchdog must end the policy. */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

void SCX_OP(stall_enqueue, struct task_struct *p, u64 enq_flags)
{
}

SCX_OPS(stall_ops, .enqueue = (void *)stall_enqueue, .timeout_ms = 1000, .name = "stall");
