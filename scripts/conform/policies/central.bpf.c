/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * central: a policy for scripts (docs/scripts.md) in which CPU 1 decides for all CPUs.
 *
 * Tasks wait on DSQ 0. A CPU that needs a task asks for one. CPU 1 gives each task to the first asking CPU on which
 * the task may run, and then takes one itself. The slice of a task tells how often CPUs had asked before.
 */
#include "../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
#define CENTRAL 1
#define MAX_CPUS 17

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: least time slice of a task") = 5000000;

/* A bit for each CPU that asks, and how often CPUs have asked. */
u64 asking, nr_asked;

s32 SCX_OP(central_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return CENTRAL;
}

void SCX_OP(central_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool gives_way = scx_bpf_task_running(p);

	/* Tasks of a script do not run on CPU 0. */
	if (bpf_cpumask_test_cpu(0, p->cpus_ptr)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, QUEUE, slice_ns + nr_asked, enq_flags);
	if (!gives_way)
		scx_bpf_kick_cpu(CENTRAL, SCX_KICK_PREEMPT);
}

void SCX_OP(central_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	if (cpu != CENTRAL) {
		__sync_fetch_and_or(&asking, 1ULL << cpu);
		__sync_fetch_and_add(&nr_asked, 1);
		scx_bpf_kick_cpu(CENTRAL, SCX_KICK_PREEMPT);
		return;
	}
	bpf_for_each_dsq(it, p, QUEUE) {
		bpf_for(cpu, 0, MAX_CPUS) {
			if (!(asking >> cpu & 1) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			if (scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0)) {
				__sync_fetch_and_and(&asking, ~(1ULL << cpu));
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			}
			break;
		}
	}
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(central_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops central_ops = {
	.select_cpu = (void *)central_select_cpu,
	.enqueue = (void *)central_enqueue,
	.dispatch = (void *)central_dispatch,
	.init = (void *)central_init,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "central",
};
