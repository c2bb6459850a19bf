/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy that the kernel must eject: once told to, it forgets tasks, and the watchdog finds them. */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u32 forget PARAM("tasks, 0..1: whether tasks are forgotten");
u64 nr_forgotten;

void SCX_OP(stalling_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* One of the test's own: everything else goes on. */
	if (forget && p->comm[0] == 'v' && p->comm[1] == 'i' && p->comm[2] == 'c') {
		__sync_fetch_and_add(&nr_forgotten, 1);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(stalling_ops,
	.enqueue = (void *)stalling_enqueue,
	.timeout_ms = 1000,
	.name = "stalling");
