/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueues of CFS in Linux 4.20, reduced to the parts that wake-up placement and balancing
 * read.
 *
 * Each CPU has a dispatch queue (DSQ) in the order of virtual time, which is run time divided by
 * weight. A CPU also has an average of its idle periods, and four nested domains: its core, its
 * last-level cache (LLC), its NUMA node and the machine.
 */
#ifndef CFS_RQ_H
#define CFS_RQ_H

#include "cpu_array.h"

/* Domains of a CPU, from the smallest to the largest. */
enum { CORE, LLC, NODE, MACHINE, LEVELS };

/*
 * Core, LLC and NUMA node of each CPU. When the policy is loaded, its profile (a file with values
 * for the policy's variables) sets these arrays.
 */
const volatile u32 core_of[MAX_CPUS];
const volatile u32 llc_of[MAX_CPUS];
const volatile u32 node_of[MAX_CPUS];

/* For each CPU, the next CPU of its core and of its LLC. The last CPU is followed by the first. */
static u32 next_of_core[MAX_CPUS], next_of_llc[MAX_CPUS];
/* Number of NUMA nodes. */
static u32 nr_nodes;

/*
 * Total time spent on searches for idle CPUs, searches for tasks to steal, and updates of bitmaps,
 * in ns.
 */
u64 find_ns;

/* State of one CPU. Times are in ns. */
struct cpu {
	/* The CPU's virtual time: the highest virtual time of the tasks that the CPU has run. */
	u64 vtime;
	/* Start of the current or last idle period. */
	u64 idle_since;
	/* Average length of an idle period. */
	u64 avg_idle;
	/* For each domain, the longest time that a recent search for the busiest CPU took. */
	u64 cost[LEVELS];
	/* Average time that a search for an idle CPU takes. */
	u64 scan_cost;
	/* Whether the CPU runs a task of this policy. */
	bool running;
	/* 1 if the CPU is in the bitmap of overloaded CPUs (overloaded.h). */
	u32 overloaded;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/* State of one task. */
struct cfs_task {
	/* CPU to whose virtual time the task's virtual time refers, or -1 if not set yet. */
	s32 cpu;
	/* A CPU on which the task ran recently, or -1. A search for an idle CPU tries it, too. */
	s32 recent_cpu;
	/* pid of the task that this task woke last. */
	s32 last_wakee;
	/* Number of times that `last_wakee` changed, halved every second. */
	u32 flips;
	/* Time at which `flips` was halved last. */
	u64 decayed;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_task);
} cfs_tasks SEC(".maps");

/* Returns the state of a task, or NULL if it has none. */
static __always_inline struct cfs_task *cfs_task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&cfs_tasks, p, NULL, 0);
}

/* Creates the state of a new task. */
static __always_inline s32 cfs_task_init(struct task_struct *p)
{
	struct cfs_task *t = bpf_task_storage_get(&cfs_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = t->recent_cpu = -1;
	return 0;
}

/*
 * Returns the virtual time that the task would have on another CPU. The difference between the
 * virtual times of the task and its CPU does not change.
 */
static __always_inline u64 vtime_on(struct task_struct *p, struct cfs_task *t, s32 cpu)
{
	struct cpu *from = cpu_of(t->cpu), *to = cpu_of(cpu);

	if (t->cpu == cpu || !from || !to)
		return p->scx.dsq_vtime;
	return p->scx.dsq_vtime + to->vtime - from->vtime;
}

/* Adjusts the virtual time of a task that moved to `cpu` to the virtual time of that CPU. */
static __always_inline void settle_on(struct task_struct *p, s32 cpu)
{
	struct cfs_task *t = cfs_task_of(p);

	if (t && t->cpu != cpu) {
		p->scx.dsq_vtime = vtime_on(p, t, cpu);
		t->cpu = cpu;
	}
}

/* Returns the number of tasks that wait in a CPU's queue. */
static __always_inline s32 waiting(u32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu);
}

/* Returns the number of runnable tasks of a CPU, including the running one. */
static __always_inline s32 nr_running(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	return (c && c->running) + waiting(cpu);
}

/* Returns the CPU after `cpu` in a ring, which is next_of_core or next_of_llc. */
static __always_inline u32 next_in(u32 *ring, u32 cpu)
{
	return ring[cpu & (MAX_CPUS - 1)];
}

/* Returns whether two CPUs are in the same domain, for example the same LLC if `level` is LLC. */
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

/*
 * Creates the queues, and links the CPUs of each core and LLC. `avg_idle` is the initial average of
 * idle periods. Called when the policy is loaded.
 */
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
