/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rcu_missing: a program that may sleep calls scx_bpf_cpu_curr(), which returns the task that runs
 * on a CPU, outside of an RCU section.
 * expected message with --sanitize: rcu: scx_bpf_cpu_curr needs bpf_rcu_read_lock()
 * expected message without --sanitize: none
 */
#include "base.h"

s32 SCX_OP_SLEEPABLE(bad_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	use(scx_bpf_cpu_curr(0)); /* violation */
	return 0;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .init_task = (void *)bad_init_task, .name = "bad");
