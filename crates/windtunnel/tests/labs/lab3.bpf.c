/* SPDX-License-Identifier: GPL-2.0-only */
/* Model solution of lab3: one queue for each CPU, and work stealing, first in the own LLC. */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define TURN_NS 5000000ULL

const volatile u32 llc_of[MAX_CPUS];

s32 SCX_OP(lab_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (!is_idle)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, TURN_NS, 0);
	return cpu;
}

/* Appends the task to the queue of its CPU. An idle CPU is woken, which will steal the task. */
void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 idle;

	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), TURN_NS, enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Takes a task from another CPU, whose LLC is that of `cpu` or not. Returns whether it took one. */
static __noinline bool steal(s32 cpu, bool same_llc)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	bool taken = false;
	s32 i;

	bpf_for(i, 1, nr_cpus) {
		u32 other = (u32)(cpu + i) % nr_cpus;
		bool same = llc_of[other & (MAX_CPUS - 1)] == llc_of[cpu & (MAX_CPUS - 1)];

		if (same != same_llc || !scx_bpf_dsq_move_to_local(other))
			continue;
		taken = true;
		break;
	}
	return taken;
}

void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	/* A task that is still runnable continues rather than a task of another CPU. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		return;
	if (!steal(cpu, true))
		steal(cpu, false);
}

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
