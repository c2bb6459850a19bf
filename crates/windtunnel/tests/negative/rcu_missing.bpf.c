/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rcu_missing: gets the task that runs on a CPU without an RCU section, in a program that may sleep.
 * with --check: rcu: scx_bpf_cpu_curr needs bpf_rcu_read_lock()
 * without: nothing
 */
#include "base.h"

s32 SCX_OP_SLEEPABLE(bad_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	use(scx_bpf_cpu_curr(0)); /* here */
	return 0;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .init_task = (void *)bad_init_task, .name = "bad");
