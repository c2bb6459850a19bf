/* SPDX-License-Identifier: GPL-2.0-only */
/* lab3: your name, and how your scheduler works. */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define MS 1000000ULL
/* Length of a turn. */
#define TURN_NS (5 * MS)

/* Last-level cache (LLC) of each CPU. The lab sets this array before the policy is loaded. */
const volatile u32 llc_of[MAX_CPUS];

/*
 * Chooses a CPU for a woken task. The default search looks for an idle CPU, and prefers the CPU
 * where the task ran last. If it finds one, the task goes there directly.
 */
s32 SCX_OP(lab_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (!is_idle)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, TURN_NS, 0);
	return cpu;
}

/* Called when a task must wait. The queue of a CPU has the number of the CPU. */
void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), TURN_NS, enq_flags);
}

/* Called when a CPU needs a task. */
void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	/* To do: take a task from another queue. */
}

/* Called when the policy is loaded. */
s32 SCX_OP_SLEEPABLE(lab_init)
{
	s32 cpu, ret;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(lab_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)lab_select_cpu,
	.enqueue = (void *)lab_enqueue,
	.dispatch = (void *)lab_dispatch,
	.init = (void *)lab_init,
	.name = "lab3");
