/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that are online. The kernel ends a policy without ops.cpu_online() and ops.cpu_offline() when a CPU comes or goes, to be
 * loaded again; one that has them goes on. What waits in a queue of a CPU that goes, and belongs to it, that CPU takes to the
 * end, and the kernel passes it on to others (balance_push()); what was put there from elsewhere it may not take (pass_on.h).
 *
 * The kernel's mask of idle CPUs may hold one that is offline, since it went idle last of all: who only reads the mask looks here,
 * too. Who claims an idle CPU (scx_bpf_pick_idle_cpu() and the like) finds it there once, and wakes nobody that once.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

static bool online[MAX_CPUS];

static __always_inline bool is_online(u32 cpu)
{
	return online[cpu & (MAX_CPUS - 1)];
}

static __always_inline void set_online(u32 cpu, bool now)
{
	online[cpu & (MAX_CPUS - 1)] = now;
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

#endif
