/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy that the kernel must eject. If `forget` is set, the policy does not insert a certain
 * task into any DSQ. The task then never runs, which the watchdog notices.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u32 forget PARAM("tasks, 0..1: whether the task named vic... is forgotten");
u64 nr_forgotten;

void SCX_OP(stalling_enqueue, struct task_struct *p, u64 enq_flags)
{
	/*
	 * Does not insert the task that the test has started ("vic..."). All other tasks continue
	 * to run.
	 */
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
