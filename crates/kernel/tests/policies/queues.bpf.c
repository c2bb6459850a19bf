/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queues: a policy that iterates over a DSQ and moves tasks from it. The DSQ is in vtime order. The
 * vtimes are such that tasks with higher pids come first. At each dispatch, the policy iterates
 * over the DSQ and checks the order. It also peeks at the DSQ and counts the tasks. Then it moves
 * the task with the highest vtime to the local DSQ. These macros change the policy:
 *
 * PEEK_BUILTIN  peeks at a built-in DSQ
 * PEEK_GONE     peeks at a DSQ that does not exist
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;

#define QUEUE 7

u64 nr_walks, nr_seen, nr_moved, nr_wrong_order, nr_wrong_peek, nr_wrong_count, max_queued;

void SCX_OP(queues_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, QUEUE, 2000000, 1000 - p->pid, enq_flags);
}

static __always_inline s32 walk(u64 flags, bool move)
{
	struct bpf_iter_scx_dsq it __attribute__((aligned(8)));
	struct task_struct *p, *first = NULL;
	s32 n = 0;
	u64 last = 0;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, flags)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			if (!n++)
				first = p;
			if (n > 1 && (flags ? p->scx.dsq_vtime > last : p->scx.dsq_vtime < last))
				nr_wrong_order++;
			last = p->scx.dsq_vtime;
			if (n > 64)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (!flags && scx_bpf_dsq_peek(QUEUE) != first)
		nr_wrong_peek++;
	return n;
}

void SCX_OP(queues_dispatch, s32 cpu, struct task_struct *prev)
{
	struct bpf_iter_scx_dsq it __attribute__((aligned(8)));
	struct task_struct *p;
	s32 n;

#if defined(PEEK_BUILTIN)
	scx_bpf_dsq_peek(SCX_DSQ_LOCAL);
#elif defined(PEEK_GONE)
	scx_bpf_dsq_peek(99);
#endif
	nr_walks++;
	n = walk(0, false);
	nr_seen += n;
	if (n != scx_bpf_dsq_nr_queued(QUEUE) || n != walk(SCX_DSQ_ITER_REV, false))
		nr_wrong_count++;
	if (n > max_queued)
		max_queued = n;
	if (!bpf_iter_scx_dsq_new(&it, QUEUE, SCX_DSQ_ITER_REV)) {
		p = bpf_iter_scx_dsq_next(&it);
		if (p) {
			scx_bpf_dsq_move_set_slice(&it, 3000000);
			nr_moved += scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
}

s32 SCX_OP_SLEEPABLE(queues_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(queues_ops,
	.enqueue = (void *)queues_enqueue,
	.dispatch = (void *)queues_dispatch,
	.init = (void *)queues_init,
	.name = "queues");
