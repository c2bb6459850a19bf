/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * last: a policy that schedules all tasks on one DSQ. When the slice of the only runnable task of a
 * CPU ends, this task is enqueued on the DSQ again. The policy then kicks the CPU with
 * SCX_KICK_IDLE while the CPU's runqueue lock is held. These macros change it:
 *
 * SILENT the policy never kicks a CPU, so the last task of a CPU waits until something wakes it
 * USES   ops.dispatch() uses `prev` without a test for NULL
 * TESTS  ops.dispatch() tests `prev` for NULL before it uses it
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 3

u64 nr_last, seen;

void SCX_OP(last_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 1000000, enq_flags);
	if (enq_flags & SCX_ENQ_LAST) {
		nr_last++;
#ifndef SILENT
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
#endif
	}
}

void SCX_OP(last_dispatch, s32 cpu, struct task_struct *prev)
{
#ifdef USES
	seen = prev->scx.weight;
#endif
#ifdef TESTS
	if (prev && cpu < 1000)
		seen = prev->scx.weight;
#endif
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(last_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(last_ops,
	.enqueue = (void *)last_enqueue,
	.dispatch = (void *)last_dispatch,
	.init = (void *)last_init,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "last");
