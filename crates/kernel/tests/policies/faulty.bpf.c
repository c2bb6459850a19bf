/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * faulty: policies that the kernel's verifier would reject, or that sched_ext would end. One of
 * these macros selects the error:
 *
 * WILD           ops.running() stores to an invalid address
 * NULL_STORE     ops.running() stores through a NULL pointer
 * ENDLESS        ops.running() loops forever
 * WRONG_PLACE    ops.running() calls scx_bpf_dsq_insert(), which is not allowed there
 * INIT_FAILS     ops.init() returns an error
 * INIT_NONSENSE  ops.init() returns a number that is not an errno
 * TASK_FAILS     ops.init_task() returns an error
 * FORK_FAILS     ops.init_task() returns an error for tasks whose name begins with u
 * CREATE_TWICE   the policy creates a DSQ twice
 * DISALLOW       value that ops.init_task() stores in scx.disallow of all tasks
 * ERROR          ops.running() calls scx_bpf_error()
 * DESTROY        the policy destroys a DSQ that contains tasks
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u64 zero, sum;
s64 second_create;

void SCX_OP(faulty_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 1, SCX_SLICE_DFL, enq_flags);
#ifdef DESTROY
	if (scx_bpf_dsq_nr_queued(1) > 1)
		scx_bpf_destroy_dsq(1);
#endif
}

void SCX_OP(faulty_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(1);
}

void SCX_OP(faulty_running, struct task_struct *p)
{
#if defined(WILD)
	*(volatile u64 *)(zero + 0x123456789abcULL) = 1;
#elif defined(NULL_STORE)
	*(volatile u64 *)(zero + 8) = 1;
#elif defined(ENDLESS)
	while (!*(volatile u64 *)&zero)
		sum++;
#elif defined(WRONG_PLACE)
	scx_bpf_dsq_insert(p, 1, SCX_SLICE_DFL, 0);
#elif defined(ERROR)
	scx_bpf_error("task %d is not welcome", p->pid);
#endif
}

s32 SCX_OP_SLEEPABLE(faulty_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
#if defined(TASK_FAILS)
	return -ENOMEM;
#elif defined(FORK_FAILS)
	if (p->comm[0] == 'u')
		return -ENOMEM;
#elif defined(DISALLOW)
	*(u8 *)&p->scx.disallow = DISALLOW;
#endif
	return 0;
}

s32 SCX_OP_SLEEPABLE(faulty_init)
{
#if defined(INIT_FAILS)
	return -EINVAL;
#elif defined(INIT_NONSENSE)
	return 77;
#elif defined(CREATE_TWICE)
	scx_bpf_create_dsq(1, -1);
	second_create = scx_bpf_create_dsq(1, -1);
	return 0;
#endif
	return scx_bpf_create_dsq(1, -1);
}

SCX_OPS(faulty_ops,
	.enqueue = (void *)faulty_enqueue,
	.dispatch = (void *)faulty_dispatch,
	.running = (void *)faulty_running,
	.init_task = (void *)faulty_init_task,
	.init = (void *)faulty_init,
	.name = "faulty");
