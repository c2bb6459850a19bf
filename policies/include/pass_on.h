/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.cpu_online() and ops.cpu_offline() for a policy with one queue for each CPU, and pass_on(),
 * which empties the queue of a CPU that goes offline.
 *
 * A CPU that goes offline can no longer take tasks that last ran on another CPU. If such a task
 * waits in the CPU's queue, a deadlock is possible:
 *
 *     the task runs only after the CPU is offline, when another CPU takes it
 *     the CPU is offline only after an RCU grace period
 *     the RCU grace period may end only after the task has run
 *
 * The policy therefore moves such tasks to the global dispatch queue (DSQ).
 *
 * A policy that includes this header defines pass_on_all().
 */
#ifndef PASS_ON_H
#define PASS_ON_H

#include "online.h"

/* Number of tasks that pass_on() moved. */
u64 nr_passed_on;

/*
 * Moves all tasks of a DSQ to the global DSQ, and wakes idle CPUs for them. Every CPU takes tasks
 * from the global DSQ before it calls ops.dispatch(). pass_on() is called from ops.cpu_offline().
 * It is also called from ops.dispatch() if tasks are left in the queue because this CPU may not
 * take them with scx_bpf_dsq_move_to_local().
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

/* Calls pass_on() for each queue of a CPU that goes offline. Defined by the policy. */
static void pass_on_all(s32 cpu);

/* Records that a CPU is online again. */
void SCX_OP(hotplug_cpu_online, s32 cpu)
{
	set_online(cpu, true);
}

/* Records that a CPU goes offline, and empties its queues. */
void SCX_OP(hotplug_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	pass_on_all(cpu);
}

/* Entries for the callback table of the policy. */
#define HOTPLUG_CALLBACKS .cpu_online = (void *)hotplug_cpu_online, .cpu_offline = (void *)hotplug_cpu_offline

#endif
