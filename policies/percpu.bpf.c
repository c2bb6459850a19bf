/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * percpu: one queue for each CPU, and idle CPUs take from the longest.
 *
 * A woken task takes an idle CPU if there is one, else it waits in the queue of the CPU it ran on. A CPU
 * whose own queue is empty looks at the next `scan` CPUs and takes a task from the longest of their queues.
 *
 * Good for: caches; no lock is shared while CPUs are busy.
 * Bad for: fairness between CPUs, since queues even out only when one is empty. It ignores nice.
 * Source: the textbook's multi-queue scheduler with work stealing.
 */
#include "include/pass_on.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 5000000;
u32 scan PARAM("CPUs, 0..1024: queues an idle CPU looks at; 0 never takes from others") = 16;

/* Tasks taken from the queues of other CPUs. */
u64 nr_stolen;

/* Tasks that wait in the queue of a CPU that goes may have run elsewhere. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

s32 SCX_OP(percpu_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return is_idle ? cpu : prev_cpu;
}

void SCX_OP(percpu_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), slice_ns, enq_flags);
}

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
