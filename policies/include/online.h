/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that are online.
 *
 * The kernel ends a policy without ops.cpu_online() and ops.cpu_offline() when a CPU comes or goes. A policy
 * that has them goes on, and has to know three facts:
 *
 * - A CPU that goes offline first runs what waits in its queues, and the kernel moves those tasks to other
 *   CPUs (balance_push()). It may not take tasks that ran elsewhere last. The policy passes those on
 *   (pass_on.h).
 * - The last act of the CPU is to wake the task that waits for its end. scx_bpf_kick_cpu() sends an interrupt
 *   to the CPU itself first, which the CPU no longer gets. The kick would stay pending, and the kernel would
 *   wait for it when it unloads the policy. So such a task goes to its CPU without a kick.
 * - The mask of idle CPUs may contain a CPU that is offline, because it went idle last of all. A policy that
 *   only reads the mask must check is_online(), too. A policy that claims idle CPUs (scx_bpf_pick_idle_cpu())
 *   finds the offline CPU once, and then wakes no CPU that one time.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

/* Each wake-up reads this, so it has cache lines of its own. */
static struct {
	/* A CPU is offline, or was. */
	bool any;
	bool cpus[MAX_CPUS];
} offline CPU_ALIGNED;

static __always_inline bool is_online(u32 cpu)
{
	return !offline.cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline void set_online(u32 cpu, bool now)
{
	offline.cpus[cpu & (MAX_CPUS - 1)] = !now;
	if (!now)
		offline.any = true;
}

/* Reads which CPUs are online, when the policy is loaded. */
static __always_inline void online_init(void)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		set_online(cpu, bpf_cpumask_test_cpu(cpu, mask));
	scx_bpf_put_cpumask(mask);
}

/* Returns whether the CPU that runs this no longer gets interrupts. */
static __always_inline bool is_gone(u32 this_cpu)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	bool gone = !bpf_cpumask_test_cpu(this_cpu, mask);

	scx_bpf_put_cpumask(mask);
	return gone;
}

/*
 * For ops.enqueue(): inserts a task that was woken by a CPU beyond interrupts, and returns true. Otherwise
 * returns false.
 */
static __always_inline bool woken_by_gone_cpu(struct task_struct *p, u64 slice, u64 enq_flags)
{
	u32 this_cpu = bpf_get_smp_processor_id();

	if (!offline.any || is_online(this_cpu) || !is_gone(this_cpu))
		return false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

#endif
