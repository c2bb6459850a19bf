/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all policies of the museum share: one FIFO queue, into which a policy inserts the tasks that
 * its own structures do not hold.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 1
#define SLICE 2000000
#define MAX_CPUS 64

/* Inserts a task into the shared queue and wakes an idle CPU. */
static __always_inline void enqueue_shared(struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	scx_bpf_dsq_insert(p, QUEUE, SLICE, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static __always_inline s32 create_shared(void)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}
