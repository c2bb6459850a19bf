/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hot: a policy whose costs are easy to find. All CPUs write one global counter, two callbacks call the same
 * function, which is not inlined, and they share one queue.
 *
 * With the macro SLEEPS, ops.enqueue() calls a function that may sleep. With the macro CONTEXT, ops.running()
 * calls a function that only other callbacks may call. With the macro GUARDED, it does so only if the kernel
 * lacks a function that it has.
 *
 * With the macro DIFFERS, ops.running() calls a weak kfunc without the kfunc's second parameter. With the macros
 * DIFFERS and TESTED, it first tests whether the kernel has a kfunc of this type.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 7
#define ROUNDS 10

struct shared {
	u64 unused;
	u64 calls;
};

struct shared totals[2];

#ifdef GUARDED
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym __weak;
#endif

#ifdef DIFFERS
void scx_bpf_kick_cpu___one(s32 cpu) __ksym __weak;
#endif

static __noinline void work(void)
{
	/* Each round has the same number of instructions. */
	for (volatile int i = 0; i < ROUNDS; i++)
		totals[1].calls++;
}

void SCX_OP(hot_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef SLEEPS
	scx_bpf_create_dsq(p->pid + 100, -1);
#endif
	work();
	scx_bpf_dsq_insert(p, QUEUE, 1000000, enq_flags);
}

void SCX_OP(hot_dispatch, s32 cpu, struct task_struct *prev)
{
	work();
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(hot_running, struct task_struct *p)
{
#ifdef GUARDED
	if (!(void *)scx_bpf_kick_cpu)
#endif
#if defined(CONTEXT) || defined(GUARDED)
		scx_bpf_dsq_move_to_local(QUEUE);
#endif
#ifdef TESTED
	if ((void *)scx_bpf_kick_cpu___one)
#endif
#ifdef DIFFERS
		scx_bpf_kick_cpu___one(0);
#endif
}

s32 SCX_OP_SLEEPABLE(hot_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(hot_ops, .enqueue = (void *)hot_enqueue, .dispatch = (void *)hot_dispatch,
	.running = (void *)hot_running, .init = (void *)hot_init, .name = "hot");
