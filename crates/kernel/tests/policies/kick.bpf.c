/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kick: a policy with FIFO scheduling that kicks CPUs. One of these macros selects the kick:
 *
 * CYCLE    when a task starts to run, its CPU kicks the next CPU and waits until that CPU has
 *          rescheduled
 * PREEMPT  a woken task preempts the running task, whose slice never ends
 * BOTH     kicks with SCX_KICK_IDLE and SCX_KICK_PREEMPT at the same time
 * BAD      kicks a CPU that does not exist
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u64 nr_kicks;

void SCX_OP(kick_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 1, SCX_SLICE_INF, enq_flags);
#if defined(PREEMPT)
	/*
	 * If the task was preempted, enq_flags is 0. Such a task must not preempt the task that has
	 * preempted it.
	 */
	if (enq_flags)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
#elif defined(BOTH)
	scx_bpf_kick_cpu(0, SCX_KICK_IDLE | SCX_KICK_PREEMPT);
#elif defined(BAD)
	scx_bpf_kick_cpu(-3, 0);
#endif
}

void SCX_OP(kick_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(1);
}

void SCX_OP(kick_running, struct task_struct *p)
{
#ifdef CYCLE
	s32 next = scx_bpf_task_cpu(p) + 1;

	nr_kicks++;
	scx_bpf_kick_cpu(next < scx_bpf_nr_cpu_ids() ? next : 0, SCX_KICK_WAIT);
#endif
}

void SCX_OP(kick_tick, struct task_struct *p)
{
#ifdef CYCLE
	p->scx.slice = 0;
#endif
}

s32 SCX_OP_SLEEPABLE(kick_init)
{
	return scx_bpf_create_dsq(1, -1);
}

SCX_OPS(kick_ops,
	.enqueue = (void *)kick_enqueue,
	.dispatch = (void *)kick_dispatch,
	.running = (void *)kick_running,
	.tick = (void *)kick_tick,
	.init = (void *)kick_init,
	.timeout_ms = 1000,
	.name = "kick");
