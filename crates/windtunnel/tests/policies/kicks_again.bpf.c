/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy that preempts the running task for each task that it enqueues, also for the preempted one. */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

void SCX_OP(kicks_again_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

SEC(".struct_ops.link")
struct sched_ext_ops kicks_again_ops = {
	.enqueue = (void *)kicks_again_enqueue,
	.name = "kicks_again",
};
