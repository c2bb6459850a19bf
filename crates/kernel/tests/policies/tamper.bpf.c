/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tamper: a policy that stores to kernel memory. The macro STORE is a statement, which
 * ops.running() executes from its fourth call on. The statement may use `p` and `scx`. If STORE is
 * not defined, the policy stores only to the fields that policies may write.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;

u64 nr_running;
s32 cell;

void SCX_OP(tamper_running, struct task_struct *p)
{
	struct sched_ext_entity *scx = &p->scx;

	barrier_var(scx);
	if (nr_running++ < 3)
		return;
#ifdef STORE
	STORE;
#else
	p->scx.slice = 5000000 + nr_running;
	scx->dsq_vtime = nr_running;
	*(volatile u32 *)&p->scx.slice = 4000000;
	p->scx.disallow = false;
#endif
}

SCX_OPS(tamper_ops,
	.running = (void *)tamper_running,
	.name = "tamper");
