/* SPDX-License-Identifier: GPL-2.0-only */
/* seldom: a policy with one queue that reads fields of tasks which few policies read. */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct scx_dispatch_q {
	u32 nr;
	u64 id;
};
struct sched_ext_entity___seldom {
	struct scx_dispatch_q *dsq;
};
struct task_struct___seldom {
	/* As in Linux, the first four bits of a word. */
	unsigned int sched_remote_wakeup : 1;
	unsigned int sched_rt_mutex : 1;
	unsigned int in_execve : 1;
	unsigned int in_iowait : 1;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct sched_ext_entity___seldom scx;
};
#pragma clang attribute pop

#define QUEUE 7

u64 nr_after_io, nr_other, faults, queued_before, peeked, wrong_id, longest, on_queue_at_start;

s32 SCX_OP_SLEEPABLE(seldom_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

void SCX_OP(seldom_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_struct___seldom *f = (void *)p;

	if (f->in_iowait)
		nr_after_io++;
	else
		nr_other++;
	faults += f->min_flt + f->maj_flt;
	queued_before += f->scx.dsq != NULL;
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void SCX_OP(seldom_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct___seldom *first = (void *)scx_bpf_dsq_peek(QUEUE);
	struct scx_dispatch_q *dsq = first ? first->scx.dsq : NULL;

	if (dsq) {
		peeked++;
		wrong_id += dsq->id != QUEUE;
		if (dsq->nr > longest)
			longest = dsq->nr;
	}
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(seldom_running, struct task_struct *p)
{
	struct task_struct___seldom *f = (void *)p;

	on_queue_at_start += f->scx.dsq != NULL;
}

SCX_OPS(seldom_ops, .init = (void *)seldom_init, .enqueue = (void *)seldom_enqueue,
	.dispatch = (void *)seldom_dispatch, .running = (void *)seldom_running, .name = "seldom");
