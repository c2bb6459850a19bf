/* SPDX-License-Identifier: GPL-2.0-only */
/* wild: stores through an invalid pointer. The kernel's verifier would reject this. */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

void SCX_OP(wild_enqueue, struct task_struct *p, u64 enq_flags)
{
	*(volatile u64 *)0xdead0000beefULL = p->pid; /* the fault */
}

SCX_OPS(wild_ops, .enqueue = (void *)wild_enqueue, .name = "wild");
