/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that were online when the policy was loaded: a policy that does not follow hotplug is loaded again when one comes or
 * goes. An offline CPU seems to have nothing to do, but what is put into its queue stays there.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

static bool online[MAX_CPUS];

static __always_inline bool is_online(u32 cpu)
{
	return online[cpu & (MAX_CPUS - 1)];
}

/* Load time. */
static __always_inline void online_init(void)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		online[cpu & (MAX_CPUS - 1)] = bpf_cpumask_test_cpu(cpu, mask);
	scx_bpf_put_cpumask(mask);
}

#endif
