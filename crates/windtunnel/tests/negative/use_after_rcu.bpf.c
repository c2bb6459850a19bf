/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * use_after_rcu: uses an RCU pointer after its RCU section.
 * expected message with --sanitize: rcu: load of 4 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

s32 SCX_OP_SLEEPABLE(bad_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *curr;

	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(0);
	bpf_rcu_read_unlock();
	if (curr)
		use(*(volatile int *)&curr->prio); /* violation */
	return 0;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .init_task = (void *)bad_init_task, .name = "bad");
