/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wrong_set_cpumask: one queue for all tasks. Only ops.set_cpumask() breaks a rule of the verifier:
 * it does not release a mask. The kernel calls it when a task changes its affinity.
 */
#include "../negative/base.h"

void SCX_OP(wrong_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	use(bpf_cpumask_create());
}

SCX_OPS(wrong_ops, ENQUEUE, DISPATCH, INIT, .set_cpumask = (void *)wrong_set_cpumask, .name = "wrong");
