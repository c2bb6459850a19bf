/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For policies that move waiting tasks from queue to queue of CPUs. A CPU about to go offline may fetch nobody that ran
 * elsewhere last, and what has been moved to its queue would wait until it is gone; but it is not gone before all RCU readers
 * are done, and the waiting task may be the one that RCU needs.
 */
#ifndef PASS_ON_H
#define PASS_ON_H

#include "scx.h"

/* Tasks that the CPU they were queued at could not take. */
u64 nr_passed_on;

/*
 * Sends what waits in a DSQ to where every CPU looks first: in ops.dispatch() what scx_bpf_dsq_move_to_local() has left, in
 * ops.cpu_offline() all.
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
