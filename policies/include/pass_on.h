/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.cpu_online() and ops.cpu_offline(), for a policy in which CPUs have queues, and pass_on() for tasks that
 * wait in such a queue and that its CPU cannot take.
 *
 * A policy may have moved a task to the queue of a CPU that then goes offline. The CPU takes no task that ran
 * elsewhere last, so the task would wait until the CPU is gone. But the CPU is not gone before all RCU
 * readers are done, and the waiting task may be the one that RCU needs.
 *
 * The includer defines pass_on_all().
 */
#ifndef PASS_ON_H
#define PASS_ON_H

#include "online.h"

/* Tasks that were passed on. */
u64 nr_passed_on;

/*
 * Moves the tasks of a DSQ to the global DSQ, where every CPU looks first. ops.dispatch() does so with tasks
 * that scx_bpf_dsq_move_to_local() has left, and ops.cpu_offline() with all.
 */
static __noinline int pass_on(u64 dsq)
{
	struct task_struct *p;

	bpf_for_each_dsq(it, p, dsq) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (!scx_bpf_dsq_move(&it, p, SCX_DSQ_GLOBAL, 0))
			continue;
		__sync_fetch_and_add(&nr_passed_on, 1);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
	return 0;
}

/* Calls pass_on() for each queue of a CPU that goes offline. */
static void pass_on_all(s32 cpu);

void SCX_OP(hotplug_cpu_online, s32 cpu)
{
	set_online(cpu, true);
}

void SCX_OP(hotplug_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	pass_on_all(cpu);
}

#define HOTPLUG_CALLBACKS .cpu_online = (void *)hotplug_cpu_online, .cpu_offline = (void *)hotplug_cpu_offline

#endif
