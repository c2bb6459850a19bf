/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lines: a policy that schedules all tasks on one DSQ. For each CPU, a word contains the pid of the
 * running task. The word is written at every switch. These macros change the policy:
 *
 * (default)  the word of each CPU is in a separate cache line
 * DENSE      the words of eight CPUs are in the same cache line
 * TASKS      each dispatch writes to 16 objects that stand for task_structs
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 3
#define CPUS 8

#ifdef DENSE
#define STRIDE 1
#else
#define STRIDE 8
#endif

u64 marks[CPUS * STRIDE] __attribute__((aligned(64)));

#ifdef TASKS
struct node {
	u64 seen;
} __attribute__((aligned(64)));

static struct node nodes[16] __attribute__((btf_decl_tag("task_struct")));
u64 nr_seen;
#endif

void SCX_OP(lines_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 1000000, enq_flags);
}

void SCX_OP(lines_dispatch, s32 cpu, struct task_struct *prev)
{
#ifdef TASKS
	u32 i;

	bpf_for(i, 0, 16)
		nr_seen += ++nodes[i & 15].seen;
#endif
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(lines_running, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu < CPUS)
		marks[cpu * STRIDE] = p->pid;
}

void SCX_OP(lines_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu < CPUS)
		marks[cpu * STRIDE] = 0;
}

s32 SCX_OP_SLEEPABLE(lines_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(lines_ops,
	.enqueue = (void *)lines_enqueue,
	.dispatch = (void *)lines_dispatch,
	.running = (void *)lines_running,
	.stopping = (void *)lines_stopping,
	.init = (void *)lines_init,
	.name = "lines");
