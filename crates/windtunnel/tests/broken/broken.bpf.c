/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A FIFO policy with defects. Each variant of the policy has a defect, which a macro (-D) selects.
 * With -DDROP=16, for example, ops.enqueue() loses every 16th task. ../integration/broken.rs lists
 * the variants and the output that the command must print for each.
 */
#include "../../../../policies/include/hotplug.h"

#ifdef PROPRIETARY
char _license[] SEC("license") = "Proprietary";
#else
char _license[] SEC("license") = "GPL";
#endif

#ifndef NAME
#define NAME "broken"
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef QUEUE
#define QUEUE 0
#endif

const volatile u32 nr_cpu_ids = 1;
/*
 * ops.init() stores nr_cpu_ids here, so that the compiler keeps nr_cpu_ids in the object. Without a
 * profile that sets nr_cpu_ids, the command must print a warning.
 */
u32 seen_cpus;
u64 nr_enqueued;

#ifdef STRONG
extern void scx_bpf_no_such_kfunc(s32 cpu) __ksym;
#endif

#ifdef EXIT_AFTER
static char enough[] = "enough";
static unsigned long long data[1];
#endif

#ifdef TRACING
SEC("tp_btf/sched_switch")
int broken_sched_switch(u64 *ctx)
{
	nr_enqueued++;
	return 0;
}
#endif

void SCX_OP(broken_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	nr_enqueued++;
#ifdef DROP
	if (nr_enqueued % DROP == 0)
		return;
#endif
#ifdef EXIT_AFTER
	if (nr_enqueued == EXIT_AFTER)
		scx_bpf_exit_bstr(3, enough, data, 0);
#endif
	scx_bpf_dsq_insert(p, QUEUE, 5000000, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

#ifdef BAD_CPU
s32 SCX_OP(broken_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 4711;
}
#endif

void SCX_OP(broken_dispatch, s32 cpu, struct task_struct *prev)
{
#ifdef STRONG
	scx_bpf_no_such_kfunc(cpu);
#endif
#ifndef EMPTY_DISPATCH
	scx_bpf_dsq_move_to_local(0);
#endif
}

s32 SCX_OP_SLEEPABLE(broken_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
#ifdef NO_TASK
	return -12;
#else
	return 0;
#endif
}

s32 SCX_OP_SLEEPABLE(broken_init)
{
	seen_cpus = nr_cpu_ids;
	return scx_bpf_create_dsq(0, -1);
}

SCX_OPS(broken_ops,
	HOTPLUG_CALLBACKS,
#ifdef BAD_CPU
	.select_cpu = (void *)broken_select_cpu,
#endif
	.enqueue = (void *)broken_enqueue,
	.dispatch = (void *)broken_dispatch,
	.init_task = (void *)broken_init_task,
	.init = (void *)broken_init,
#ifdef TIMEOUT_MS
	.timeout_ms = TIMEOUT_MS,
#endif
#ifdef MAX_BATCH
	.dispatch_max_batch = MAX_BATCH,
#endif
#ifdef HOTPLUG_SEQ
	.hotplug_seq = HOTPLUG_SEQ,
#endif
	.flags = FLAGS,
	.name = NAME);
