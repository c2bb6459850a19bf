/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mask: a stale mask that is rebuilt in place.
 *
 * ops.update_idle() rebuilds a mask of preferred CPUs: it clears the mask and adds CPU by CPU.
 * ops.select_cpu() on a different CPU reads the mask in between and finds no CPU. The mended twin
 * builds the mask in a local variable and stores it once.
 */
#include "museum.h"

volatile u64 preferred;

static __always_inline void rebuild(void)
{
	u32 nr = scx_bpf_nr_cpu_ids(), cpu;
#ifdef MENDED
	u64 mask = 0;

	bpf_for(cpu, 0, nr)
		mask |= 1ULL << (cpu & 63);
	preferred = mask;
#else
	preferred = 0;
	bpf_for(cpu, 0, nr)
		__sync_fetch_and_or(&preferred, 1ULL << (cpu & 63));
#endif
}

s32 SCX_OP(mask_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (!preferred)
		scx_bpf_error("no CPU is preferred");
	return prev_cpu;
}

void SCX_OP(mask_enqueue, struct task_struct *p, u64 enq_flags)
{
	enqueue_shared(p, enq_flags);
}

void SCX_OP(mask_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(mask_update_idle, s32 cpu, bool idle)
{
	rebuild();
}

s32 SCX_OP_SLEEPABLE(mask_init)
{
	rebuild();
	return create_shared();
}

SCX_OPS(mask_ops,
	.select_cpu = (void *)mask_select_cpu,
	.enqueue = (void *)mask_enqueue,
	.dispatch = (void *)mask_dispatch,
	.update_idle = (void *)mask_update_idle,
	.init = (void *)mask_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "mask");
