/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bitmaps of overloaded CPUs: CPUs that run one task while another task waits.
 *
 * For each last-level cache (LLC) there is a sparse bitmap (sparse_bitmap.h) with one bit for each
 * CPU. A bit is written only when the CPU becomes overloaded or is no longer overloaded. A CPU that
 * steals a task searches the bitmap of an LLC.
 */
#ifndef OVERLOADED_H
#define OVERLOADED_H

#include "cfs_rq.h"
#include "sparse_bitmap.h"

/* Counters, in this order: tasks stolen from overloaded CPUs, bits set, and bits cleared. */
u64 nr_stolen, nr_set, nr_cleared;
/* Number of LLCs, and the NUMA node of each LLC. */
static u32 nr_groups, node_of_group[SPARSE_GROUPS];

/* Returns the index of a CPU's bitmap, which is the number of its LLC. */
static __always_inline u32 group_of(u32 cpu)
{
	return llc_of[cpu & (MAX_CPUS - 1)] & (SPARSE_GROUPS - 1);
}

/*
 * Updates the bit of a CPU. `coming` is the number of tasks that the kernel is about to insert into
 * the CPU's queue. The length of the queue does not contain these tasks yet.
 */
static __always_inline void update_overloaded_with(struct cpu *c, u32 cpu, s32 coming)
{
	u32 now = c->running + waiting(cpu) + coming > 1;
	u64 start;

	if (c->overloaded == now || __sync_lock_test_and_set(&c->overloaded, now) == now)
		return;
	start = bpf_ktime_get_ns();
	if (now) {
		sparse_set(group_of(cpu), cpu);
		__sync_fetch_and_add(&nr_set, 1);
	} else {
		sparse_clear(group_of(cpu), cpu);
		__sync_fetch_and_add(&nr_cleared, 1);
	}
	found_since(start);
}

/* Updates the bit of a CPU. */
static __always_inline void update_overloaded(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c)
		update_overloaded_with(c, cpu, 0);
}

/* Updates the bits of two CPUs after a task moved between their queues. */
static __always_inline void moved(u32 from, u32 to)
{
	update_overloaded(from);
	update_overloaded(to);
}

/*
 * Takes the first task in another CPU's queue that may run on this CPU. Returns whether it took a
 * task.
 */
static __always_inline bool take(u32 from)
{
	if (!scx_bpf_dsq_move_to_local(from))
		return false;
	update_overloaded(from);
	return true;
}

/*
 * Steals a task from an overloaded CPU of LLC `group` or, if `core` is set, only of this CPU's
 * core. The search starts at the CPU after this one and wraps around.
 */
static __always_inline bool steal_in(u32 group, u32 cpu, u32 nr_cpus, bool core)
{
	u32 at = cpu + 1, end = nr_cpus, i;
	bool wrapped = false, stolen = false;

	bpf_for(i, 0, nr_cpus + 1) {
		s32 victim = sparse_next(group, at, end);

		if (victim < 0) {
			if (wrapped)
				break;
			wrapped = true;
			at = 0;
			end = cpu;
			continue;
		}
		at = victim + 1;
		if (core && !in_domain(CORE, victim, cpu))
			continue;
		if (take(victim)) {
			__sync_fetch_and_add(&nr_stolen, 1);
			stolen = true;
			break;
		}
	}
	return stolen;
}

/*
 * Records the NUMA node of a CPU's LLC, and counts the LLCs. Called for each CPU when the policy is
 * loaded.
 */
static __always_inline void overloaded_init(u32 cpu)
{
	node_of_group[group_of(cpu)] = node_of[cpu & (MAX_CPUS - 1)];
	if (group_of(cpu) >= nr_groups)
		nr_groups = group_of(cpu) + 1;
}

#endif
