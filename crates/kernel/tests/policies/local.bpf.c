/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * local: a policy that inserts tasks into local DSQs. Tasks that are enqueued again are inserted
 * into another DSQ. At most one of these macros is defined:
 *
 * IMMED    inserts with SCX_ENQ_IMMED: the task runs immediately or is enqueued again
 * PREEMPT  a woken task preempts the running task
 * RELEASE  re-enqueues the waiting tasks when a real-time task takes the CPU
 * REENQ    re-enqueues the waiting tasks at each tick
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

u32 scx_bpf_reenqueue_local(void) __ksym __weak;
void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;

#define QUEUE 3
#define SCX_ENQ_IMMED (1ULL << 33)

u64 nr_came_back, nr_released, nr_reenqueued, nr_fresh, max_waiting;

void SCX_OP(local_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 flags = 0;
	u64 waiting = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p));

	if (waiting > max_waiting)
		max_waiting = waiting;
	if (enq_flags & SCX_ENQ_REENQ) {
		nr_came_back++;
		scx_bpf_dsq_insert(p, QUEUE, 2000000, 0);
		return;
	}
	nr_fresh++;
#ifdef IMMED
	flags |= SCX_ENQ_IMMED;
#endif
#ifdef PREEMPT
	if (enq_flags & SCX_ENQ_WAKEUP)
		flags |= SCX_ENQ_PREEMPT;
#endif
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 20000000, flags);
}

void SCX_OP(local_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(local_tick, struct task_struct *p)
{
#ifdef REENQ
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL, 0);
#endif
}

void SCX_OP(local_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	nr_released++;
#ifdef RELEASE
	nr_reenqueued += scx_bpf_reenqueue_local();
#endif
}

s32 SCX_OP_SLEEPABLE(local_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(local_ops,
	.enqueue = (void *)local_enqueue,
	.dispatch = (void *)local_dispatch,
	.tick = (void *)local_tick,
	.cpu_release = (void *)local_cpu_release,
	.init = (void *)local_init,
	.name = "local");
