/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing at exec, as in Linux 2.6.22: a task that calls exec moves to an idle CPU if its own CPU
 * has other tasks. A program that starts has no data in the caches yet, so moving it costs little.
 *
 * The task moves when its CPU next reschedules. At that time, `moves` in its state (timeslice.h) is
 * set. Active balancing (prio_domains.h) moves tasks in the same way.
 */
#ifndef EXEC_BALANCE_H
#define EXEC_BALANCE_H

#include "prio_domains.h"
#include "timeslice.h"

bool exec_balance PARAM("0..1: whether tasks move to an idle CPU at exec") = true;

/* Number of tasks that moved to an idle CPU. */
u64 nr_exec_moved;

/* Requests that a task moves when it calls exec. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_moves, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (t && exec_balance && load_of(cpu) > 1) {
		t->moves = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/*
 * Moves a task to an idle CPU, if this was requested and there is one. Returns whether it moved the
 * task. Called from ops.enqueue().
 */
static __always_inline bool move_to_idle(struct task_struct *p, struct task_ctx *t)
{
	s32 idle;

	if (!t->moves)
		return false;
	t->moves = false;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle < 0)
		return false;
	__sync_fetch_and_add(&nr_exec_moved, 1);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, t->left, 0);
	return true;
}

#endif
