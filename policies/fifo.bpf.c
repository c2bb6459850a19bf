/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: one queue for all CPUs, first come first served.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task is
 * inserted into the local DSQ of that CPU. The task skips the shared queue, because a CPU runs the
 * tasks of its local DSQ before it calls ops.dispatch().
 * Enqueue: every other task goes to the end of the shared queue, and one idle CPU is woken to fetch
 * it.
 * Dispatch: a CPU that needs a task takes the first task of the shared queue that may run there.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns, and the task is
 * enqueued again.
 * Locks: the lock of the shared DSQ, which the kernel holds during insertions and removals. The
 * policy itself has no lock.
 *
 * Good for: throughput of equal tasks. No CPU idles while a task waits, so the policy is a baseline
 * for others.
 * Bad for: many CPUs, tasks that depend on warm caches, and wake-up latency next to CPU-bound
 * tasks. All CPUs share one queue and one lock. The policy ignores nice values.
 * Source: textbooks. UNIX had such a global runqueue before it had one runqueue for each CPU.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;

/* Looks for an idle CPU and, if there is one, lets the woken task run there at once. */
s32 SCX_OP(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Appends a task to the shared queue and wakes an idle CPU. */
void SCX_OP(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	/* If the kernel did not call ops.select_cpu(), no idle CPU has been woken for this task yet. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Moves the first task of the shared queue to the CPU. */
void SCX_OP(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

/* Creates the shared queue. */
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
