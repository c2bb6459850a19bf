/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting tasks that the CPU of their queue cannot take.
 *
 * A policy may have moved a task to the queue of a CPU that then goes offline. The CPU takes no task that ran
 * elsewhere last, so the task would wait until the CPU is gone. But the CPU is not gone before all RCU
 * readers are done, and the waiting task may be the one that RCU needs.
 */
#ifndef PASS_ON_H
#define PASS_ON_H

#include "scx.h"

/* Tasks that were passed on. */
u64 nr_passed_on;

/*
 * Moves the tasks of a DSQ to the global DSQ, where every CPU looks first. ops.dispatch() does so with tasks
 * that scx_bpf_dsq_move_to_local() has left, and ops.cpu_offline() with all.
 */
static __noinline int pass_on(u64 dsq)
{
	struct task_struct *p;

	bpf_for_each_dsq(it, p, dsq) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (!scx_bpf_dsq_move(&it, p, SCX_DSQ_GLOBAL, 0))
			continue;
		__sync_fetch_and_add(&nr_passed_on, 1);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
	return 0;
}

#endif
