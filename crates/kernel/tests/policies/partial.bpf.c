/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * partial: a policy for SCHED_EXT tasks only (SCX_OPS_SWITCH_PARTIAL). It inserts tasks into local
 * DSQs and counts how often other classes take and leave CPUs. These macros change it:
 *
 * IMMED  inserts with SCX_ENQ_IMMED; tasks that are re-enqueued wait on another DSQ
 * KICK   each tick kicks CPU 0 with SCX_KICK_PREEMPT
 * REENQ  ops.cpu_release() re-enqueues the tasks on the local DSQ
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u32 scx_bpf_reenqueue_local(void) __ksym __weak;

#define QUEUE 3
#define SCX_ENQ_IMMED (1ULL << 33)

u64 nr_acquire, nr_release, nr_release_rt, nr_release_unknown, nr_came_back, nr_reenqueued, nr_kicks;
s32 released_to;

void SCX_OP(partial_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 flags = 0;

	if (enq_flags & SCX_ENQ_REENQ) {
		nr_came_back++;
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, 0);
		return;
	}
#ifdef IMMED
	flags |= SCX_ENQ_IMMED;
#endif
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, flags);
}

void SCX_OP(partial_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(partial_tick, struct task_struct *p)
{
#ifdef KICK
	nr_kicks++;
	scx_bpf_kick_cpu(0, SCX_KICK_PREEMPT);
#endif
}

void SCX_OP(partial_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	nr_acquire++;
}

void SCX_OP(partial_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	nr_release++;
	/* SCX_CPU_PREEMPT_RT and SCX_CPU_PREEMPT_UNKNOWN */
	nr_release_rt += args->reason == 0;
	nr_release_unknown += args->reason == 3;
	released_to = args->task->pid;
#ifdef REENQ
	nr_reenqueued += scx_bpf_reenqueue_local();
#endif
}

s32 SCX_OP_SLEEPABLE(partial_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(partial_ops,
	.enqueue = (void *)partial_enqueue,
	.dispatch = (void *)partial_dispatch,
	.tick = (void *)partial_tick,
	.cpu_acquire = (void *)partial_cpu_acquire,
	.cpu_release = (void *)partial_cpu_release,
	.init = (void *)partial_init,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "partial");
