/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * percpu: one queue for each CPU, and a CPU with an empty queue takes a task from the longest one.
 *
 * Data structures: one dispatch queue (DSQ) for each CPU, which has the number of the CPU as its
 * ID.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task is
 * inserted into the local DSQ of that CPU. Otherwise the task stays with its previous CPU.
 * Enqueue: the task goes to the end of its CPU's queue.
 * Dispatch: a CPU takes the first task of its own queue. If its queue is empty, the CPU reads the
 * lengths of the queues of the next `scan` CPUs and takes a task from the longest.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of each DSQ. Two CPUs use the same lock only when one takes the other's task.
 *
 * Good for: tasks that depend on warm caches. No lock is shared while all CPUs are busy.
 * Bad for: fairness between tasks of different CPUs, because queue lengths even out only when a
 * queue is empty. The policy ignores nice values.
 * Source: textbooks, which describe this multi-queue scheduler with work stealing.
 */
#include "include/pass_on.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;
u32 scan PARAM("CPUs, 0..1024: number of other queues that a CPU without work examines; 0: it never takes from other CPUs") = 16;

/* Number of tasks that CPUs took from the queues of other CPUs. */
u64 nr_stolen;

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Looks for an idle CPU and, if there is one, lets the woken task run there at once. */
s32 SCX_OP(percpu_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return is_idle ? cpu : prev_cpu;
}

/* Appends the task to the queue of its CPU. */
void SCX_OP(percpu_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), slice_ns, enq_flags);
}

/* Takes a task from the CPU's own queue or, if that is empty, from the longest other queue. */
void SCX_OP(percpu_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 longest = -1, most = 0, i;

	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	bpf_for(i, 1, scan + 1) {
		s32 other = (cpu + i) % nr_cpus;
		s32 queued = scx_bpf_dsq_nr_queued(other);

		if (other == cpu)
			break;
		if (queued > most) {
			most = queued;
			longest = other;
		}
	}
	if (longest >= 0 && scx_bpf_dsq_move_to_local(longest))
		__sync_fetch_and_add(&nr_stolen, 1);
}

/* Creates one queue for each CPU. */
s32 SCX_OP_SLEEPABLE(percpu_init)
{
	s32 cpu, ret;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(percpu_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)percpu_select_cpu,
	.enqueue = (void *)percpu_enqueue,
	.dispatch = (void *)percpu_dispatch,
	.init = (void *)percpu_init,
	.name = "percpu");
