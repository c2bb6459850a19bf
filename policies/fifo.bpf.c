/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: one queue for all CPUs, first come first served.
 *
 * A woken task takes an idle CPU at once if there is one. Otherwise it waits at the end of one queue from
 * which all CPUs take their tasks. A task runs for one slice and then goes to the end of the queue again.
 *
 * Good for: throughput of equal tasks, as a baseline; no CPU idles while a task waits.
 * Bad for: latency beside CPU-bound tasks; caches; many CPUs, since there is one queue and one lock. It
 * ignores nice.
 * Source: the textbook; UNIX had such a global runqueue before queues of CPUs.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 5000000;

s32 SCX_OP(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

void SCX_OP(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	/* ops.select_cpu() is not called for all tasks that come here: another CPU may be idle. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void SCX_OP(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(fifo_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(fifo_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)fifo_init,
	.name = "fifo");
