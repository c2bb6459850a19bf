/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * claim: an idle bit that is claimed twice.
 *
 * The policy keeps its own array of idle CPUs. ops.select_cpu() looks for a set entry and clears
 * it. Two wakers see the same entry before one of them clears it, and choose the same CPU.
 */
#include "museum.h"

u32 is_idle[MAX_CPUS];

static __always_inline bool claim(u32 cpu)
{
#ifdef MENDED
	return __sync_lock_test_and_set(&is_idle[cpu], 0);
#else
	if (!is_idle[cpu])
		return false;
	is_idle[cpu] = 0;
	return true;
#endif
}

s32 SCX_OP(claim_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 nr = scx_bpf_nr_cpu_ids(), cpu;

	bpf_for(cpu, 0, nr) {
		if (cpu < MAX_CPUS && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && claim(cpu)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, 0);
			return cpu;
		}
	}
	return prev_cpu;
}

void SCX_OP(claim_enqueue, struct task_struct *p, u64 enq_flags)
{
	enqueue_shared(p, enq_flags);
}

void SCX_OP(claim_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(claim_update_idle, s32 cpu, bool idle)
{
	if (cpu >= 0 && cpu < MAX_CPUS)
		__sync_lock_test_and_set(&is_idle[cpu], idle);
}

s32 SCX_OP_SLEEPABLE(claim_init)
{
	return create_shared();
}

SCX_OPS(claim_ops,
	.select_cpu = (void *)claim_select_cpu,
	.enqueue = (void *)claim_enqueue,
	.dispatch = (void *)claim_dispatch,
	.update_idle = (void *)claim_update_idle,
	.init = (void *)claim_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "claim");
