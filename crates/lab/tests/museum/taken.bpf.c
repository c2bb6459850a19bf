/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * taken: a slot that two CPUs take.
 *
 * ops.enqueue() puts a pid into an array, and ops.dispatch() of every CPU takes the first one that
 * it finds. Two CPUs load the same pid before one of them clears the slot, and both insert the
 * task. If the slot was filled again in between, the clearing loses a task.
 */
#include "museum.h"

#define SLOTS 16

u32 slots[SLOTS];

void SCX_OP(taken_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i;

	bpf_for(i, 0, SLOTS) {
		if (i < SLOTS && __sync_val_compare_and_swap(&slots[i], 0, p->pid) == 0) {
			s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

			if (cpu >= 0)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			return;
		}
	}
	enqueue_shared(p, enq_flags);
}

void SCX_OP(taken_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 i;

	bpf_for(i, 0, SLOTS) {
		struct task_struct *p;
		u32 pid;

		if (i >= SLOTS)
			break;
#ifdef MENDED
		pid = __sync_lock_test_and_set(&slots[i], 0);
#else
		pid = slots[i];
		if (pid)
			slots[i] = 0;
#endif
		p = pid ? bpf_task_from_pid(pid) : NULL;
		if (p) {
			enqueue_shared(p, 0);
			bpf_task_release(p);
		}
	}
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(taken_init)
{
	return create_shared();
}

SCX_OPS(taken_ops,
	.enqueue = (void *)taken_enqueue,
	.dispatch = (void *)taken_dispatch,
	.init = (void *)taken_init,
	.name = "taken");
