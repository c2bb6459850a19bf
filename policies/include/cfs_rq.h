/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueues of CFS, as far as placement and balancing look at them.
 *
 * Each CPU has a DSQ in the order of virtual time, an average of its idle times, and domains: its core, its
 * LLC, its node and the machine.
 */
#ifndef CFS_RQ_H
#define CFS_RQ_H

#include "cpu_array.h"

enum { CORE, LLC, NODE, MACHINE, LEVELS };

const volatile u32 core_of[MAX_CPUS];
const volatile u32 llc_of[MAX_CPUS];
const volatile u32 node_of[MAX_CPUS];

/* For each CPU the next one of its core and of its LLC, in rings. */
static u32 next_of_core[MAX_CPUS], next_of_llc[MAX_CPUS];
static u32 nr_nodes;

/* Time spent on searches for idle CPUs and tasks to steal, and on the bitmap of overloaded CPUs, ns. */
u64 find_ns;

struct cpu {
	u64 vtime;
	u64 idle_since;
	u64 avg_idle;
	/*
	 * The longest recent search for the busiest CPU of each domain, and the average search for an idle
	 * CPU, ns.
	 */
	u64 cost[LEVELS];
	u64 scan_cost;
	bool running;
	u32 overloaded;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

struct cfs_task {
	/* The CPU to whose virtual time the task's virtual time relates. */
	s32 cpu;
	/* The CPU before its last one. */
	s32 recent_cpu;
	/* The task that it woke last, changes of that (halved each second), and when they were halved. */
	s32 last_wakee;
	u32 flips;
	u64 decayed;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_task);
} cfs_tasks SEC(".maps");

static __always_inline struct cfs_task *cfs_task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&cfs_tasks, p, NULL, 0);
}

static __always_inline s32 cfs_task_init(struct task_struct *p)
{
	struct cfs_task *t = bpf_task_storage_get(&cfs_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = t->recent_cpu = -1;
	return 0;
}

/*
 * Returns the task's virtual time on another CPU. Each CPU has its own, and the task keeps its lead or lag.
 */
static __always_inline u64 vtime_on(struct task_struct *p, struct cfs_task *t, s32 cpu)
{
	struct cpu *from = cpu_of(t->cpu), *to = cpu_of(cpu);

	if (t->cpu == cpu || !from || !to)
		return p->scx.dsq_vtime;
	return p->scx.dsq_vtime + to->vtime - from->vtime;
}

static __always_inline void settle_on(struct task_struct *p, s32 cpu)
{
	struct cfs_task *t = cfs_task_of(p);

	if (t && t->cpu != cpu) {
		p->scx.dsq_vtime = vtime_on(p, t, cpu);
		t->cpu = cpu;
	}
}

/* Returns the number of tasks that wait on a CPU. */
static __always_inline s32 waiting(u32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu);
}

static __always_inline s32 nr_running(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	return (c && c->running) + waiting(cpu);
}

static __always_inline u32 next_in(u32 *ring, u32 cpu)
{
	return ring[cpu & (MAX_CPUS - 1)];
}

/* Returns whether two CPUs are in one domain of a level. */
static __always_inline bool in_domain(u32 level, u32 a, u32 b)
{
	a &= MAX_CPUS - 1;
	b &= MAX_CPUS - 1;
	switch (level) {
	case CORE:
		return core_of[a] == core_of[b];
	case LLC:
		return llc_of[a] == llc_of[b];
	case NODE:
		return node_of[a] == node_of[b];
	default:
		return true;
	}
}

/* Adds the time since `start` to find_ns. */
static __always_inline void found_since(u64 start)
{
	__sync_fetch_and_add(&find_ns, bpf_ktime_get_ns() - start);
}

/* Creates the queues and rings, when the policy is loaded. */
static __always_inline s32 cfs_rq_init(u64 avg_idle)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu, i;
	s32 ret;

	if (nr_cpus > MAX_CPUS)
		return -E2BIG;
	bpf_for(cpu, 0, nr_cpus) {
		u32 at = cpu & (MAX_CPUS - 1), of_core = cpu, of_llc = cpu;
		struct cpu *c = cpu_of(cpu);

		if (c)
			c->avg_idle = avg_idle;
		if (node_of[at] >= nr_nodes)
			nr_nodes = node_of[at] + 1;
		bpf_for(i, 1, nr_cpus) {
			u32 other = (cpu + nr_cpus - i) % nr_cpus;

			if (in_domain(CORE, cpu, other))
				of_core = other;
			if (in_domain(LLC, cpu, other))
				of_llc = other;
		}
		next_of_core[at] = of_core;
		next_of_llc[at] = of_llc;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

#endif
