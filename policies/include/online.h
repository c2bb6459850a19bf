/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that are online. The kernel ends a policy without ops.cpu_online() and ops.cpu_offline() when a CPU comes or goes, to be
 * loaded again; one that has them goes on, and has to see to two things.
 *
 * What waits in a queue of a CPU that goes, and belongs to it, that CPU takes to the end, and the kernel passes it on to others
 * (balance_push()). What was put there from elsewhere it may not take: that the policy passes on (pass_on.h).
 *
 * The CPU's last act is to wake who waits for its end. A kick is an interrupt to itself first, which it no longer gets then: it would
 * be due for ever, and the kernel would wait for it when the policy is unloaded. Such a task goes to its CPU without one.
 *
 * The kernel's mask of idle CPUs may hold one that is offline, since it went idle last of all: who only reads the mask looks here,
 * too. Who claims an idle CPU (scx_bpf_pick_idle_cpu() and the like) finds it there once, and wakes nobody that once.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

/* Read at each wake-up, so on lines that nothing else changes. */
static struct {
	/* Some CPU is, or was. */
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

/* Load time. */
static __always_inline void online_init(void)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		set_online(cpu, bpf_cpumask_test_cpu(cpu, mask));
	scx_bpf_put_cpumask(mask);
}

/* Is the CPU that this runs on beyond kicks? */
static __always_inline bool is_gone(u32 this_cpu)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	bool gone = !bpf_cpumask_test_cpu(this_cpu, mask);

	scx_bpf_put_cpumask(mask);
	return gone;
}

/* ops.enqueue(): true when a CPU that is all but gone has woken the task, which is settled then. */
static __always_inline bool woken_by_gone_cpu(struct task_struct *p, u64 slice, u64 enq_flags)
{
	u32 this_cpu = bpf_get_smp_processor_id();

	if (!offline.any || is_online(this_cpu) || !is_gone(this_cpu))
		return false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

#endif
